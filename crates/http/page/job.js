// One job: where it stands and why, its life by time, what it was given and gave, its log; and what can be done to it.

import { get } from "./api.js";
import { approvalCard, cancel, fork, redrive } from "./acts.js";
import { copyButton, empty, fill, h, problemBox, refill } from "./dom.js";
import { EventLog } from "./events.js";
import { follow } from "./feed.js";
import { last } from "./filter.js";
import { jsonBox, textBox, valueBox } from "./json.js";
import { LogLines } from "./log.js";
import { bar, short } from "./row.js";
import { isTerminal, pill } from "./status.js";
import { timeline } from "./timeline.js";
import { ago, duration, full, withTimes } from "./time.js";

const TICK_MS = 1000;
const VALUES = ["payload", "payload_base64", "result", "result_base64", "checkpoint", "checkpoint_base64", "metadata"];

export function mount(root, { id, params, signal, setLive }) {
  const view = new JobView(root, id.toLowerCase(), signal);
  view.at(params);
  view.start(setLive);
  return (next) => {
    view.at(next);
    return true;
  };
}

class JobView {
  #job = null;
  #at = null;
  #old = null;
  #soon = 0;
  #made = new Map();

  constructor(root, id, signal) {
    Object.assign(this, { root, id, signal });
    this.lead = h("div", { class: "lead" });
    this.row = h("div", { class: "row acts" });
    this.head = h("header", { class: "job-head" }, this.lead, this.row);
    this.past = h("div", { class: "past", hidden: true });
    this.asked = h("div");
    this.facts = h("div");
    this.values = h("div", { class: "values" });
    this.family = h("div");
    this.chart = h("div", { class: "timeline" });
    this.slider = h("input", { type: "range", id: "at", min: 1, max: 1, step: 1, oninput: () => this.go(Number(this.slider.value)) });
    this.events = new EventLog(id, signal, (version) => this.go(version));
    this.events.onMore = () => this.draw();
    this.log = new LogLines(id, signal);
    signal.addEventListener("abort", () => clearTimeout(this.#soon));
  }

  async start(setLive) {
    try {
      const [job] = await Promise.all([get(`/v1/jobs/${this.id}`, {}, this.signal), this.events.read()]);
      this.#job = job;
    } catch (problem) {
      if (!this.signal.aborted && problem.status !== 401) fill(this.root, back(), problem.status === 404 ? empty("There is no such job", "It may have been removed: finished jobs are kept for a while.") : problemBox(problem, () => this.start(setLive)));
      return;
    }
    this.lay();
    this.render();
    this.log.read().catch(() => {});
    this.children();
    const newest = this.events.all.at(-1)?.version ?? this.#job.version;
    follow(`/v1/jobs/${this.id}/feed`, { after: String(newest), signal: this.signal, onState: setLive, onEvents: (events) => this.hear(events) });
    const timer = setInterval(() => this.tick(), TICK_MS);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  lay() {
    const panel = (title, ...content) => h("section", { class: "panel", aria: { label: title } }, h("h2", null, title), content);
    const travel = h("div", { class: "travel" }, h("label", { for: "at" }, "as it stood at version "), this.slider);
    fill(this.root, back(), this.head, this.past, this.asked,
      h("div", { class: "columns" },
        h("div", null, panel("Timeline", this.chart), panel("Events", travel, this.events.el), this.log.el),
        h("div", null, panel("Facts", this.facts), this.values, this.family)));
  }

  hear(events) {
    const isNew = this.events.add(events);
    if (!isNew) return;
    this.draw();
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => this.refresh(), 50);
  }

  async refresh() {
    try {
      this.#job = await get(`/v1/jobs/${this.id}`, {}, this.signal);
      this.render();
      this.log.read().catch(() => {});
      this.children();
    } catch (problem) {
      if (!this.signal.aborted && problem.status !== 401) this.#soon = setTimeout(() => this.refresh(), 2000);
    }
  }

  // What time itself changes.
  tick() {
    if (document.hidden || !this.#job || isTerminal(this.#job.status)) return;
    this.draw();
    if (this.#job.status === "running") this.log.read().catch(() => {});
  }

  draw() {
    const events = this.#at === null ? this.events.all : this.events.all.filter((event) => event.version <= this.#at);
    const until = this.#at === null ? this.#job.finished_at : events.at(-1)?.at;
    timeline(this.chart, events, until);
  }

  // To a version, or back to now: through the address, so that it can be shared.
  go(version) {
    const isNow = version === null || version >= this.#job.version;
    const to = `#/jobs/${this.id}${isNow ? "" : `?at=${version}`}`;
    if (location.hash !== to) history.replaceState(null, "", to);
    this.at(new URLSearchParams(isNow ? "" : `at=${version}`));
  }

  async at(params) {
    const version = Number.parseInt(params.get("at"), 10);
    this.#at = version > 0 ? version : null;
    this.#old = null;
    if (this.#job) this.render();
  }

  async render() {
    const version = this.#at;
    if (version !== null && this.#old?.version !== version) {
      try {
        this.#old = await get(`/v1/jobs/${this.id}`, { at_version: version }, this.signal);
      } catch (problem) {
        if (!this.signal.aborted && this.#at === version) fill(this.past, problemBox(problem, () => this.go(null))).hidden = false;
        return;
      }
      if (this.#at !== version) return;
    }
    const job = version === null ? this.#job : this.#old;
    document.title = `${job.kind} ${job.status} · Windlass`;
    this.slider.max = this.#job.version;
    this.slider.value = version ?? this.#job.version;
    fill(this.lead, head(job));
    this.#fresh(this.row, [this.#job.status, version], () => this.acts());
    this.past.hidden = version === null;
    if (version !== null) fill(this.past, h("span", null, `This is the job as it stood at version ${version} of ${this.#job.version}, `, ago(job.updated_at), "."), h("button", { type: "button", onclick: () => this.go(null) }, "back to now"));
    fill(this.facts, facts(job));
    this.#fresh(this.values, [job.status, job.error, VALUES.map((name) => job[name])], () => values(job));
    this.events.mark(version);
    this.draw();
    this.approvals();
  }

  acts() {
    const act = (text, run, tone) => h("button", { type: "button", class: tone, onclick: run }, text);
    const done = (changed) => {
      this.#job = changed;
      this.render();
    };
    const { status } = this.#job;
    const isOver = isTerminal(status);
    return [
      this.#at === null && !isOver && act("Cancel", () => cancel(this.#job, done), "danger"),
      this.#at === null && isOver && status !== "completed" && act("Redrive", () => redrive(this.#job, done), "main"),
      act(this.#at === null ? "Fork" : `Fork at ${this.#at}`, () => fork(this.#job, this.#at)),
    ];
  }

  // Made again only when it changed: what was unfolded stays so, and a button under a finger stays too.
  #fresh(el, depends, make) {
    const now = JSON.stringify(depends);
    if (this.#made.get(el) === now) return;
    this.#made.set(el, now);
    fill(el, make());
  }

  async approvals() {
    if (this.#at !== null || this.#job.waiting_for !== "approval") {
      fill(this.asked);
      return;
    }
    const answer = await get("/v1/approvals", { job_id: this.id, status: "pending" }, this.signal).catch(() => null);
    if (!answer) return;
    const done = () => {
      dispatchEvent(new Event("approvals"));
      this.refresh();
    };
    refill(this.asked, answer.approvals.map((approval) => approvalCard(approval, done,
      h("p", { class: "muted" }, approval.name, " · asked ", ago(approval.asked_at), " · denied by silence ", ago(approval.expires_at)))));
  }

  async children() {
    const answer = await get("/v1/jobs", { parent_id: this.id, limit: 20 }, this.signal).catch(() => null);
    if (!answer?.jobs.length) return;
    fill(this.family, h("section", { class: "panel", aria: { label: "Children" } }, h("h2", null, "Children"),
      h("ul", { class: "children" }, answer.jobs.map((child) => h("li", null, pill(child.status), h("a", { href: `#/jobs/${child.id}` }, child.kind), h("span", { class: "mono muted" }, short(child.id))))),
      answer.next_cursor && h("a", { href: `#/jobs?${new URLSearchParams({ parent_id: this.id })}` }, "all children")));
  }
}

const back = () => h("p", { class: "back" }, h("a", { href: last.list }, "← jobs"));

function head(job) {
  return [
    h("div", { class: "title" }, pill(job.status), h("h1", null, job.kind), h("span", { class: "mono muted id" }, job.id), copyButton(job.id, "id")),
    (job.stage || Number(job.progress) > 0) && h("p", { class: "stage" }, bar(job.progress), `${job.progress} %`, job.stage && [" · ", job.stage]),
    job.blocked && h("p", { class: "blocked" }, h("strong", null, job.blocked.reason === "cancelling" ? "Stopping: " : "Not running: "),
      `${job.blocked.reason.replace("_", " ")}, ${job.blocked.by}, since `, ago(job.blocked.since), ". Help: ", withCommands(job.blocked.fix), "."),
  ];
}

// Text in which commands stand between backticks.
// Times tick as "in 5 s", so what leads to them goes.
const withCommands = (text) => text.replace(/ at (?=\d{4}-)/g, " ").split("`").map((part, n) => (n % 2 ? h("code", null, part) : withTimes(part)));

function facts(job) {
  const only = (name, value) => h("a", { href: `#/jobs?${new URLSearchParams({ [name]: value })}` }, value);
  const time = (iso) => iso && [ago(iso), h("span", { class: "muted" }, ` ${full(iso)}`)];
  const took = job.started_at && duration(Date.parse(job.finished_at ?? job.updated_at) - Date.parse(job.started_at));
  const rows = [
    ["queue", only("queue", job.queue)], ["attempt", job.attempt], ["retries", `${job.retries} of ${job.max_retries} used`],
    ["lost leases", Number(job.crashes) > 0 && job.crashes], ["priority", Number(job.priority) !== 0 && job.priority], ["redrives", Number(job.generation) > 0 && job.generation],
    ["held by", job.lease && [only("worker_id", job.lease.worker_id), " until ", ago(job.lease.expires_at)]],
    ["due", job.status !== "running" && time(job.due_at)], ["deadline", time(job.deadline_at)], ["created", time(job.created_at)], ["started", time(job.started_at)],
    ["finished", time(job.finished_at)], ["last attempt", isTerminal(job.status) && took], ["timeout", job.timeout !== undefined && `${job.timeout} s`],
    ["tags", job.tags.length > 0 && job.tags.map((tag, n) => [n > 0 && ", ", only("tag", tag)])], ["agent", job.agent_id && only("agent_id", job.agent_id)],
    ["parent", job.parent_id && h("a", { class: "mono", href: `#/jobs/${job.parent_id}` }, short(job.parent_id))], ["version", job.version],
    ["as JSON", h("a", { href: `/v1/jobs/${job.id}` }, "/v1/jobs/…")],
  ];
  return h("dl", null, rows.filter(([, value]) => value !== undefined && value !== null && value !== false).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

function values(job) {
  const panel = (title, box) => box && h("section", { class: "panel", aria: { label: title } }, h("h2", null, title), box);
  const error = job.error && [h("p", null, h("span", { class: "code" }, job.error.code), job.error.at && [" ", h("span", { class: "muted" }, ago(job.error.at))]), job.error.message && textBox(job.error.message, "error")];
  return [
    panel(isTerminal(job.status) ? "Error" : "Last error", error), panel("Result", valueBox(job, "result")), panel("Payload", valueBox(job, "payload")),
    panel("Checkpoint", valueBox(job, "checkpoint")), panel("Metadata", job.metadata && Object.keys(job.metadata).length > 0 && jsonBox(job.metadata, "metadata")),
  ];
}
