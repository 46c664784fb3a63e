// One row of the list of jobs. Only cells that changed are made again, so focus and selection stay.

import { h } from "./dom.js";
import { isTerminal, pill } from "./status.js";
import { ago } from "./time.js";

const link = (name, value, text = value) => h("a", { class: "plain", href: `#/jobs?${new URLSearchParams({ [name]: value })}`, title: `only ${name} ${value}` }, text);

// The last eight digits: the random end of an id, for ids of one second begin alike.
export const short = (id) => id.slice(-8);

function doing(job) {
  if (job.status === "running" && (job.stage || job.progress)) return [bar(job.progress), h("span", { class: "stage" }, job.stage ?? `${job.progress} %`)];
  if (job.status === "running") return h("span", { class: "muted" }, job.lease?.worker_id ? ["on ", h("span", { class: "mono" }, job.lease.worker_id)] : "");
  if (job.status === "waiting") return h("span", null, "for ", job.waiting_for === "approval" ? "approval" : job.waiting_for, job.wait_name && [" ", h("span", { class: "mono" }, job.wait_name)]);
  if (job.error?.code && job.status !== "completed") return h("a", { class: "plain code", href: `#/jobs?${new URLSearchParams({ error_code: job.error.code })}` }, job.error.code);
  return job.stage ? h("span", { class: "muted stage" }, job.stage) : "";
}

export function bar(progress) {
  const value = Math.max(0, Math.min(100, Number(progress)));
  return h("progress", { max: 100, value, aria: { label: "progress" } }, `${value} %`);
}

function when(job) {
  if (isTerminal(job.status)) return ago(job.finished_at ?? job.updated_at);
  if (job.status === "running") return ago(job.started_at ?? job.updated_at);
  if (job.due_at && job.status !== "waiting") return ["due ", ago(job.due_at)];
  return ago(job.updated_at);
}

// name, what it depends on, what it shows
const CELLS = [
  ["status", (job) => job.status, (job) => pill(job.status)],
  ["kind", (job) => job.kind, (job) => [h("a", { class: "kind", href: `#/jobs/${job.id}` }, job.kind), job.tags.length > 0 && h("span", { class: "tags" }, job.tags.map((tag) => link("tag", tag)))]],
  ["queue", (job) => job.queue, (job) => link("queue", job.queue)],
  ["doing", (job) => [job.status, job.stage, job.progress, job.error?.code, job.lease?.worker_id, job.waiting_for, job.wait_name], doing],
  ["tries", (job) => [job.attempt, job.retries], (job) => [job.attempt || "–", job.retries > 0 && h("span", { class: "muted", title: `${job.retries} of ${job.max_retries} retries used` }, ` (${job.retries}/${job.max_retries})`)]],
  ["when", (job) => [job.status, job.due_at, job.started_at, job.finished_at, job.updated_at], when],
  ["id", (job) => job.id, (job) => h("a", { class: "plain mono", href: `#/jobs/${job.id}`, title: job.id, tabindex: "-1" }, short(job.id))],
];

export const HEADS = [["status", "Status"], ["kind", "Kind"], ["queue", "Queue"], ["doing", "Doing"], ["tries", "Attempt"], ["when", "When"], ["id", "Id"]];

export class Row {
  #was = {};

  constructor(job, isNew) {
    this.job = job;
    this.el = h("tr", { dataset: { id: job.id }, class: isNew && "new" }, CELLS.map(([name]) => h("td", { class: `c-${name}` })));
    this.el.addEventListener("click", (event) => {
      // A row leads to its job, unless something in it was meant, or text is being selected.
      if (!event.target.closest("a") && getSelection().isCollapsed) location.hash = `#/jobs/${this.job.id}`;
    });
    this.show();
  }

  // Takes another reading of the same job, if it is not older.
  take(job) {
    if (job.version >= this.job.version) this.job = job;
    this.show();
  }

  show() {
    CELLS.forEach(([name, depends, make], n) => {
      const now = JSON.stringify(depends(this.job));
      if (this.#was[name] === now) return;
      const made = [make(this.job)].flat(Infinity).filter((part) => part !== false && part !== null && part !== undefined);
      this.el.children[n].replaceChildren(...made);
      if (name === "status" && this.#was.status) {
        this.el.classList.remove("moved");
        // Read once, so that the animation begins again.
        void this.el.offsetWidth;
        this.el.classList.add("moved");
      }
      this.#was[name] = now;
    });
    this.el.dataset.status = this.job.status;
  }
}
