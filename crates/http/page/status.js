// Statuses as people see them, and how an event moves a row of a list.

import { h, icon } from "./dom.js";

export const STATUSES = ["pending", "assigned", "running", "retry", "waiting", "orphaned", "completed", "failed", "timed_out", "cancelled"];
export const DEAD = ["failed", "timed_out"];
const TERMINAL = ["completed", "failed", "timed_out", "cancelled"];

export const isTerminal = (status) => TERMINAL.includes(status);
export const word = (status) => status.replace("_", " ");

// Shape and word beside the colour: not everybody tells the colours apart.
export const pill = (status) => h("span", { class: "status", dataset: { status } }, icon(status), h("span", null, word(status)));

const MOVES = {
  job_created: "pending", job_redriven: "pending", job_forked: "pending", job_assigned: "assigned", job_claimed: "running",
  job_started: "running", job_orphaned: "orphaned", job_retried: "retry", job_released: "retry", job_waiting: "waiting",
  job_completed: "completed", job_failed: "failed", job_cancelled: "cancelled",
};

// Where an event brought its job, if it moved.
export function movedTo(event) {
  if (event.type === "job_timed_out") return event.detail?.due_at ? "retry" : "timed_out";
  return MOVES[event.type];
}

export const workerOf = (actor) => (actor.startsWith("worker:") ? actor.slice(7) : null);

// The row of a job that was just created.
export function fresh(event) {
  const said = event.detail ?? {};
  return {
    id: event.job_id, kind: event.kind, queue: event.queue, status: "pending", stage: null, progress: 0,
    priority: Number(said.priority ?? 0), attempt: 0, retries: 0, max_retries: Number(said.max_retries ?? 0),
    version: event.version, due_at: said.run_at ?? event.at, tags: said.tags ?? [], agent_id: said.agent_id ?? null,
    parent_id: said.parent_id ?? null, created_at: event.at, started_at: null, updated_at: event.at, finished_at: null,
  };
}

// Moves a row by an event. False when the row was there already.
export function fold(job, event) {
  if (event.version <= job.version) return false;
  const said = event.detail ?? {};
  Object.assign(job, { version: event.version, updated_at: event.at });
  const to = movedTo(event);
  if (to) {
    Object.assign(job, { status: to, due_at: said.due_at ?? null, waiting_for: undefined, wait_name: undefined });
    job.finished_at = isTerminal(to) ? event.at : null;
    job.lease = to === "running" ? { worker_id: workerOf(event.actor) ?? "" } : undefined;
  }
  switch (event.type) {
    case "job_claimed":
    case "job_started":
      Object.assign(job, { attempt: event.attempt, started_at: event.at });
      break;
    case "job_progressed":
      job.progress = said.progress ?? job.progress;
      job.stage = said.stage ?? job.stage;
      break;
    case "job_retried":
      Object.assign(job, { retries: said.retries ?? job.retries, error: { code: said.code } });
      break;
    case "job_failed":
      job.error = { code: said.code };
      break;
    case "job_timed_out":
      job.error = { code: "timed_out" };
      break;
    case "job_waiting":
      Object.assign(job, { waiting_for: said.waits_for, wait_name: said.name });
      break;
    case "job_redriven":
      Object.assign(job, { retries: 0, error: undefined });
      break;
    case "job_cancel_requested":
      job.cancel_requested_at = event.at;
      break;
  }
  return true;
}
