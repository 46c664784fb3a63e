// A schedule: as it is written in the form, read back, and in words. Pure.

import { parseExact, type Schedule } from "../base/api.ts";
import { print } from "../base/print.ts";
import { Reader, spanText, type Line, type Wrong } from "./read.ts";

// One field each; empty says nothing.
export type Draft = {
  name: string; timing: "cron" | "every"; cron: string; every: string; timezone: string; kind: string; queue: string; payload: string; priority: string; max_retries: string; timeout: string; key: string; tags: string;
  missed: string; missed_max: string; overlap: string; jitter: string; starts_at: string; ends_at: string;
};

type Job = Record<string, unknown>;

// What of a job the form has fields for, and what it keeps as it is.
const IN_FORM = ["kind", "queue", "payload", "priority", "max_retries", "timeout_ms", "key", "tags"];
const KEPT = ["lease_ms", "grace_ms", "backoff", "agent_id", "metadata", "requires", "cost"];

const text = (value: unknown) => (value === undefined || value === null ? "" : String(Number(value)));
const jobOf = (schedule: Schedule | null): Job => (schedule?.job ?? {}) as Job;

// What of its job neither the form nor this program knows: saving would lose it.
export const unknown = (schedule: Schedule) => Object.keys(jobOf(schedule)).filter((name) => !IN_FORM.includes(name) && !KEPT.includes(name));

// What of its job stays as it is, in words.
export const kept = (schedule: Schedule | null) => KEPT.filter((name) => name in jobOf(schedule)).map((name) => name.replace("_ms", "").replaceAll("_", " "));

export function draftOf(schedule: Schedule | null): Draft {
  const job = jobOf(schedule);
  const said = (value: unknown) => (typeof value === "string" ? value : "");
  return {
    name: schedule?.name ?? "", timing: schedule && !schedule.cron ? "every" : "cron", cron: schedule?.cron ?? "", every: schedule?.every == null ? "" : spanText(schedule.every), timezone: schedule?.timezone ?? "",
    kind: said(job.kind), queue: said(job.queue), payload: job.payload === undefined ? "" : print(job.payload), priority: text(job.priority), max_retries: text(job.max_retries), timeout: job.timeout_ms === undefined ? "" : spanText(Number(job.timeout_ms) / 1000), key: said(job.key), tags: Array.isArray(job.tags) ? job.tags.join(", ") : "",
    missed: schedule?.missed ?? "", missed_max: text(schedule?.missed_max), overlap: schedule?.overlap ?? "", jitter: Number(schedule?.jitter ?? 0) > 0 ? spanText(schedule!.jitter) : "", starts_at: schedule?.starts_at ?? "", ends_at: schedule?.ends_at ?? "",
  };
}

// What is kept, as it is asked for: lengths of time are seconds there.
function asAsked(job: Job): Job {
  const { lease_ms, grace_ms, backoff, ...rest } = Object.fromEntries(KEPT.filter((name) => name in job).map((name) => [name, job[name]])) as Job;
  const seconds = (ms: unknown) => (ms === undefined ? undefined : Number(ms) / 1000);
  const { base_ms, max_ms, ...spacing } = (backoff ?? {}) as Job;
  return { ...rest, lease: seconds(lease_ms), grace: seconds(grace_ms), backoff: backoff === undefined ? undefined : { ...spacing, base: seconds(base_ms), max: seconds(max_ms) } };
}

const said = (all: Job): Job => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));

const words = (text: string) => text.split(",").map((word) => word.trim()).filter(Boolean);

// The schedule that a form asks for, and what in it cannot be read. `before` is what it is made from.
export function readDraft(draft: Draft, before: Schedule | null): { body: Job; wrong: Wrong } {
  const reader = new Reader();
  const need = (name: "name" | "kind" | "cron" | "every", what: string) => draft[name].trim() || reader.refuse(name, what);
  const time = (name: "starts_at" | "ends_at") => {
    const at = draft[name].trim();
    if (!at) return undefined;
    return Number.isNaN(Date.parse(at)) && !/^[+-]?(\d+(\.\d+)?(ms|min|[smhd]))+$/.test(at) ? reader.refuse(name, "a time such as 2026-12-31T00:00:00Z, or one from now such as 10m") : at;
  };
  let payload: unknown;
  try {
    payload = draft.payload.trim() ? parseExact(draft.payload) : undefined;
  } catch (error) {
    reader.refuse("payload", error instanceof Error ? error.message : String(error));
  }
  need("name", "what it is called");
  const isCron = draft.timing === "cron";
  const priority = /^-?\d$/.test(draft.priority.trim()) ? Number(draft.priority) : draft.priority.trim() ? reader.refuse("priority", "a whole number, -5 to 5") : undefined;
  const tags = words(draft.tags);
  const job = said({
    ...asAsked(jobOf(before)), kind: need("kind", "what it enqueues"), queue: draft.queue.trim() || undefined, priority: priority !== undefined && Math.abs(priority) > 5 ? reader.refuse("priority", "a whole number, -5 to 5") : priority || undefined,
    max_retries: reader.number("max_retries", draft.max_retries, 0, 100), timeout: reader.span("timeout", draft.timeout), key: draft.key.trim() || undefined, tags: tags.length ? tags : undefined, payload,
  });
  const body = said({
    cron: isCron ? need("cron", "five fields, such as 0 2 * * *, or @hourly") : undefined,
    every: isCron || !need("every", "how often, such as 15m") ? undefined : reader.span("every", draft.every),
    timezone: draft.timezone.trim() || undefined, job, missed: draft.missed || undefined, missed_max: reader.number("missed_max", draft.missed_max, 1, 1000), overlap: draft.overlap || undefined,
    jitter: reader.span("jitter", draft.jitter), starts_at: time("starts_at"), ends_at: time("ends_at"),
  });
  return { body, wrong: reader.wrong };
}

// A request's body with numbers as they were written, digit by digit.
export const bodyText = (body: Job) => print(body);

// A form in words, one line each.
export function lines(draft: Draft): Line[] {
  const when: Line[] = draft.timing === "cron" ? [["cron", draft.cron], ["zone", draft.timezone || "UTC"]] : [["every", draft.every]];
  const more: Line[] = [
    ["kind", draft.kind], ["queue", draft.queue || "default"], ["payload", draft.payload], ["priority", draft.priority.trim() === "0" ? "" : draft.priority], ["retries", draft.max_retries], ["timeout", draft.timeout], ["key", draft.key], ["tags", words(draft.tags).join(", ")],
    ["missed slots", draft.missed || "once"], ["missed, at most", draft.missed === "all" ? draft.missed_max || "10" : ""], ["while the last runs", draft.overlap || "allow"], ["jitter", draft.jitter], ["starts", draft.starts_at], ["ends", draft.ends_at],
  ];
  return [...when, ...more].map(([name, said]): Line => [name, said.trim()]).filter(([, said]) => said !== "");
}
