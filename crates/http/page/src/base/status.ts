// Statuses as people see them, and how an event moves a row of a list.

import type { Job, JobEvent } from "./api.ts";

export const STATUSES = ["pending", "assigned", "running", "retry", "waiting", "orphaned", "completed", "failed", "timed_out", "cancelled"];
export const DEAD = ["failed", "timed_out"];
const TERMINAL = ["completed", "failed", "timed_out", "cancelled"];

export const isTerminal = (status: string) => TERMINAL.includes(status);
export const word = (status: string) => status.replace("_", " ");

// What an event says besides its payload; it differs by type.
export const said = (event: JobEvent) => (event.detail ?? {}) as Record<string, any>;

const MOVES: Record<string, string> = {
  job_created: "pending", job_redriven: "pending", job_forked: "pending", job_assigned: "assigned", job_claimed: "running",
  job_started: "running", job_orphaned: "orphaned", job_retried: "retry", job_released: "retry", job_waiting: "waiting",
  job_rearmed: "waiting",
  job_completed: "completed", job_failed: "failed", job_cancelled: "cancelled", job_skipped: "cancelled",
};

// Where an event brought its job, if it moved.
export function movedTo(event: JobEvent): string | undefined {
  if (event.type === "job_timed_out") return said(event).due_at ? "retry" : "timed_out";
  return MOVES[event.type];
}

export const workerOf = (actor: string) => (actor.startsWith("worker:") ? actor.slice(7) : null);

// The row of a job that was just created.
export function fresh(event: JobEvent): Job {
  const told = said(event);
  return {
    id: event.job_id!, kind: event.kind!, queue: event.queue!, status: "pending", stage: null, progress: 0,
    priority: Number(told.priority ?? 0), attempt: 0, retries: 0, max_retries: Number(told.max_retries ?? 0),
    version: event.version, due_at: told.run_at ?? event.at, tags: told.tags ?? [], agent_id: told.agent_id ?? null,
    parent_id: told.parent_id ?? null, created_at: event.at, started_at: null, updated_at: event.at, finished_at: null,
  } as Job;
}

// Moves a row by an event. False when the row was there already.
export function fold(job: Job, event: JobEvent): boolean {
  if (event.version <= job.version) return false;
  const told = said(event);
  Object.assign(job, { version: event.version, updated_at: event.at });
  const to = movedTo(event);
  if (to) {
    Object.assign(job, { status: to, due_at: told.due_at ?? null, waiting_for: undefined, wait_name: undefined });
    job.finished_at = isTerminal(to) ? event.at : null;
    job.lease = to === "running" ? { worker_id: workerOf(event.actor) ?? "" } : undefined;
  }
  switch (event.type) {
    case "job_claimed":
    case "job_started":
      Object.assign(job, { attempt: event.attempt, started_at: event.at });
      break;
    case "job_progressed":
      job.progress = told.progress ?? job.progress;
      job.stage = told.stage ?? job.stage;
      break;
    case "job_retried":
      Object.assign(job, { retries: told.retries ?? job.retries, error: { code: told.code } });
      break;
    case "job_failed":
      job.error = { code: told.code };
      break;
    case "job_timed_out":
      job.error = { code: "timed_out" };
      break;
    case "job_waiting":
      Object.assign(job, { waiting_for: told.waits_for, wait_name: told.name });
      break;
    case "job_redriven":
      Object.assign(job, { retries: 0, error: undefined });
      break;
    case "job_rearmed":
      Object.assign(job, { retries: 0, error: undefined, waiting_for: "upstream" });
      break;
    case "job_cancel_requested":
      job.cancel_requested_at = event.at;
      break;
  }
  return true;
}
