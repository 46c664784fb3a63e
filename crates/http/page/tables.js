// Approvals, queues and workers: small tables, read again while somebody looks, and at once when something happens.

import { get } from "./api.js";
import { approvalCard, drain, pause, resume, undrain } from "./acts.js";
import { empty, fill, h, icon, problemBox, refill } from "./dom.js";
import { follow } from "./feed.js";
import { many } from "./overview.js";
import { short } from "./row.js";
import { ago, duration } from "./time.js";

const EVERY_MS = 3000;

// A view that shows what `read` answers by `paint`, every few seconds and whenever events come.
function live(root, title, { signal, setLive, types }, read, paint) {
  const place = h("div");
  fill(root, h("h1", null, title), place);
  let soon = 0;
  const look = async () => {
    clearTimeout(soon);
    soon = setTimeout(look, EVERY_MS);
    if (document.hidden) return;
    try {
      const answer = await read(signal);
      if (!signal.aborted) refill(place, paint(answer, look));
    } catch (problem) {
      if (!signal.aborted && problem.status !== 401) fill(place, problemBox(problem, look));
    }
  };
  signal.addEventListener("abort", () => clearTimeout(soon));
  look();
  follow("/v1/feed", {
    params: { type: types }, signal, onState: setLive,
    onEvents: () => {
      clearTimeout(soon);
      soon = setTimeout(look, 100);
    },
  });
}

const NUMBERS = ["Due", "In /s", "Started /s", "Done /s", "Dead /s", "At once", "Up"];
const cells = (heads) => h("thead", null, h("tr", null, heads.map((text) => h("th", { scope: "col", class: NUMBERS.includes(text) && "num" }, text))));

// A table whose cells carry the name of their column: on narrow screens each row is a card.
function table(heads, rows) {
  for (const row of rows) [...row.children].forEach((cell, n) => (cell.dataset.name = heads[n]));
  return h("div", { class: "wide" }, h("table", { class: "plain-table" }, cells(heads), h("tbody", null, rows)));
}

const acted = (look) => () => {
  dispatchEvent(new Event("approvals"));
  look();
};

export function approvals(root, { params, ...view }) {
  const isAll = params.get("all") === "true";
  const read = (signal) => get("/v1/approvals", { status: isAll ? "" : "pending", limit: 100 }, signal);
  const tabs = h("p", { class: "tabs" },
    h("a", { class: "chip", href: "#/approvals", aria: { current: !isAll } }, "waiting"),
    h("a", { class: "chip", href: "#/approvals?all=true", aria: { current: isAll } }, "all"));
  live(root, "Approvals", { ...view, types: "job_approval_asked,job_approval_voted,job_waiting" }, read, (answer, look) => [
    tabs,
    answer.approvals.length === 0 && empty(isAll ? "Nobody ever asked" : "Nobody waits for you", "A job asks with ctx.approval(…), or over HTTP, and holds no worker meanwhile."),
    answer.approvals.map((approval) => approvalCard(approval, acted(look),
      h("p", { class: "muted" },
        h("a", { href: `#/jobs/${approval.job_id}` }, "job ", h("span", { class: "mono" }, short(approval.job_id))),
        " · ", approval.name, " · asked ", ago(approval.asked_at),
        approval.status === "pending" && [" · denied by silence ", ago(approval.expires_at)],
        Number(approval.required) > 1 && ` · ${approval.approved} of ${approval.required} votes`,
        approval.approvers.length > 0 && ` · for ${approval.approvers.join(", ")}`,
        approval.decisions.map((vote) => ` · ${vote.decision === "approve" ? "approved" : "denied"} by ${vote.by}${vote.reason ? `: ${vote.reason}` : ""}`)))),
    answer.next_cursor && h("p", { class: "muted" }, "These are the newest 100."),
  ]);
}

export function queues(root, view) {
  const types = "job_created,job_claimed,job_completed,job_failed";
  live(root, "Queues", { ...view, types }, (signal) => get("/v1/queues", {}, signal), ({ queues: all }, look) =>
    all.length === 0
      ? empty("No queues yet", "A queue is there as soon as a job is in it:", "windlass enqueue report --queue reports")
      : table(["Queue", "Due", "Oldest due", "In /s", "Started /s", "Done /s", "Dead /s", "Defaults", ""],
          all.map((queue) => h("tr", null,
            h("td", null, h("a", { href: `#/jobs?${new URLSearchParams({ queue: queue.name })}` }, queue.name), queue.paused && h("span", { class: "flag" }, icon("waiting"), "paused ", ago(queue.paused.at), ` by ${queue.paused.by}`)),
            h("td", { class: "num" }, queue.due_capped ? "10k+" : many(Number(queue.due))),
            h("td", null, ago(queue.oldest_due_at) ?? "–"),
            ["enqueued", "started", "completed", "dead"].map((name) => h("td", { class: "num" }, Number(queue.rates[name]).toFixed(1))),
            h("td", { class: "muted" }, defaults(queue.defaults)),
            h("td", { class: "num" }, queue.paused
              ? h("button", { type: "button", dataset: { means: `resume ${queue.name}` }, onclick: () => resume(queue, acted(look)) }, "Resume")
              : h("button", { type: "button", dataset: { means: `pause ${queue.name}` }, onclick: () => pause(queue, acted(look)) }, "Pause"))))));
}

const defaults = (said) => Object.entries(said).filter(([, value]) => typeof value !== "object").map(([name, value]) => `${name.replace("_", " ")} ${value}${name === "max_retries" ? "" : " s"}`).join(", ");

export function workers(root, view) {
  live(root, "Workers", { ...view, types: "job_started" }, (signal) => get("/v1/workers", {}, signal), ({ workers: all }, look) =>
    all.length === 0
      ? empty("No workers", "Start one; any program can be a handler:", "windlass work --queue default --exec ./report.sh")
      : table(["Worker", "State", "Queues", "Kinds", "At once", "Up", "Seen", ""],
          all.map((worker) => h("tr", { class: worker.live ? "" : "gone" },
            h("td", null, h("a", { class: "mono", href: `#/jobs?${new URLSearchParams({ worker_id: worker.id })}`, title: "the jobs it holds" }, worker.id)),
            h("td", null, h("span", { class: "status", dataset: { status: worker.live ? (worker.draining ? "waiting" : "completed") : "cancelled" } },
              icon(worker.live ? (worker.draining ? "waiting" : "completed") : "cancelled"), h("span", null, worker.live ? (worker.draining ? "draining" : "live") : "gone"))),
            h("td", null, worker.queues.join(", ")),
            h("td", { class: "muted" }, worker.kinds.join(", ") || "all"),
            h("td", { class: "num" }, worker.capacity),
            h("td", { class: "num" }, duration(Date.parse(worker.seen_at) - Date.parse(worker.started_at))),
            h("td", null, ago(worker.seen_at)),
            h("td", { class: "num" }, worker.live && (worker.draining
              ? h("button", { type: "button", dataset: { means: `undrain ${worker.id}` }, onclick: () => undrain(worker, acted(look)) }, "Take jobs again")
              : h("button", { type: "button", dataset: { means: `drain ${worker.id}` }, onclick: () => drain(worker, acted(look)) }, "Drain")))))));
}
