// A job's life from its events, oldest first: lanes of a waterfall, its attempts, and an axis in which idle time is folded. Pure.

import type { JobEvent } from "../base/api.ts";
import { movedTo, said, word, workerOf } from "../base/status.ts";

export type Span = { from: number; to: number | null; tone: string; text: string; version: number; isMark?: boolean };
export type Lane = { name: string; kind: "line" | "wait" | "attempt" | "step" | "people"; bars: Span[] };

const MARKS: Record<string, string> = {
  job_cancel_requested: "cancel requested", job_redriven: "redriven", job_rearmed: "waits again", job_forked: "forked", job_approval_asked: "approval asked", job_approval_voted: "vote", job_signalled: "signal",
};
const IN_LINE = ["pending", "retry", "orphaned", "assigned"];

export function lanes(events: JobEvent[]): Lane[] {
  const line: Lane = { name: "in line", kind: "line", bars: [] };
  const people: Lane = { name: "from outside", kind: "people", bars: [] };
  const all = [line];
  let open: Span | null = null;
  let attempt: Span | null = null;
  let wait: Span | null = null;
  const steps = new Map<string, Span>();
  const close = (bar: Span | null, at: number, tone?: string) => bar && Object.assign(bar, { to: at, tone: tone ?? bar.tone });
  for (const event of events) {
    const at = Date.parse(event.at);
    const to = movedTo(event);
    const told = said(event);
    const bar = (tone: string, text: string): Span => ({ from: at, to: null, tone, text, version: Number(event.version) });
    if (to) {
      close(open, at);
      close(wait, at);
      // Taken again while it ran: the lease before was lost. One that waits has ended as it should.
      close(attempt, at, to === "running" ? "failed" : to === "waiting" ? "completed" : to);
      if (attempt && to !== "running") attempt.text += `: ${word(to)}${told.code ? `, ${told.code}` : ""}`;
      for (const step of steps.values()) Object.assign(step, { to: at, tone: "retry", text: `${step.text}, not finished` });
      steps.clear();
      [open, attempt, wait] = [null, null, null];
      if (IN_LINE.includes(to)) line.bars.push((open = bar(to, to === "retry" ? "waiting for the next try" : word(to))));
      // A job that waits again after a redrive waits for the jobs before it.
      const what = told.waits_for ?? "upstream";
      if (to === "waiting") all.push({ name: `${what}${told.name ? ` ${told.name}` : ""}`, kind: "wait", bars: [(wait = bar("waiting", `waiting for ${what}`))] });
      if (to === "running") all.push({ name: `attempt ${event.attempt}`, kind: "attempt", bars: [(attempt = bar("running", `attempt ${event.attempt} on ${event.actor}`))] });
    }
    if (wait && (told.woke || event.type === "job_woken")) {
      close(wait, at);
      wait = null;
      line.bars.push((open = bar("pending", "woken, in line")));
    }
    if (event.type === "node_started" || event.type === "tool_called") {
      const step = bar("running", told.name);
      steps.set(told.name, step);
      all.push({ name: told.name, kind: "step", bars: [step] });
    }
    if (event.type === "node_finished" || event.type === "tool_returned") {
      const step = steps.get(told.name);
      if (step) Object.assign(step, { to: at, tone: "completed" });
      else all.push({ name: told.name, kind: "step", bars: [{ ...bar("completed", told.name), to: at }] });
      steps.delete(told.name);
    }
    if (MARKS[event.type]) people.bars.push({ ...bar("mark", `${MARKS[event.type]}${told.name ? ` ${told.name}` : ""}${told.decision ? `: ${told.decision}` : ""}, ${event.actor}`), to: at, isMark: true });
  }
  if (people.bars.length) all.push(people);
  return all.filter((lane) => lane.bars.length);
}

export type Fold = { from: number; to: number };
export type Axis = { from: number; to: number; folds: Fold[]; share: (at: number) => number };

// How much of the width a folded gap takes, and all of them together at most.
const FOLD_SHARE = 0.07;
const FOLDS_SHARE = 0.42;

// Time in which nothing ran, when there is much more of it than of work.
function gaps(all: Lane[], from: number, to: number): Fold[] {
  const busy = all
    .filter((lane) => lane.kind === "attempt" || lane.kind === "step")
    .flatMap((lane) => lane.bars.map((bar) => [bar.from, bar.to ?? to] as const))
    .sort((a, b) => a[0] - b[0]);
  if (busy.length === 0) return [];
  const found: Fold[] = [];
  let end = from;
  let worked = 0;
  for (const [a, b] of busy) {
    if (a > end) found.push({ from: end, to: a });
    worked += Math.max(0, b - Math.max(a, end));
    end = Math.max(end, b);
  }
  if (to > end) found.push({ from: end, to });
  const least = Math.max(2000, worked);
  return found.filter((gap) => gap.to - gap.from > least);
}

// An axis from 0 to 1 on which long idle times take little room.
export function axis(all: Lane[], from: number, to: number): Axis {
  const folds = gaps(all, from, to);
  const each = folds.length ? Math.min(FOLD_SHARE, FOLDS_SHARE / folds.length) : 0;
  const folded = folds.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const rest = Math.max(1, to - from - folded);
  const perMs = (1 - each * folds.length) / rest;
  const share = (at: number) => {
    let [place, was] = [0, from];
    for (const gap of folds) {
      if (at <= gap.from) break;
      place += (gap.from - was) * perMs;
      place += each * Math.min(1, (at - gap.from) / (gap.to - gap.from));
      was = gap.to;
      if (at <= gap.to) return place;
    }
    return Math.max(0, Math.min(1, place + Math.max(0, at - was) * perMs));
  };
  return { from, to, folds, share };
}

export type Step = { ms: number | null; isDone: boolean };

// Steps and tools by name, with the time from their first begin to their last end.
export function stepsOf(events: JobEvent[]): Map<string, Step> {
  const begun = new Map<string, number>();
  const found = new Map<string, Step>();
  for (const event of events) {
    const { name } = said(event);
    const at = Date.parse(event.at);
    if (event.type === "node_started" || event.type === "tool_called") {
      if (!begun.has(name)) begun.set(name, at);
      if (!found.has(name)) found.set(name, { ms: null, isDone: false });
    }
    if (event.type === "node_finished" || event.type === "tool_returned") found.set(name, { ms: at - (begun.get(name) ?? at), isDone: true });
  }
  return found;
}

export type Attempt = { n: number; worker: string; version: number; waitMs: number | null; from: number; to: number | null; outcome: string; code: string };

// One per time a worker took it: how long it had been due, how long it ran, how it ended.
export function attempts(events: JobEvent[]): Attempt[] {
  const found: Attempt[] = [];
  let due: number | null = null;
  let open: Attempt | null = null;
  for (const event of events) {
    const at = Date.parse(event.at);
    const to = movedTo(event);
    const told = said(event);
    if (told.woke || event.type === "job_woken") due = at;
    if (!to) continue;
    // Claimed, then started: one attempt.
    if (to === "running" && open && Number(event.attempt) === open.n && event.type === "job_started") continue;
    if (open) {
      Object.assign(open, { to: at, outcome: to === "running" ? "orphaned" : to, code: told.code ?? (event.type === "job_timed_out" ? "timed_out" : "") });
      open = null;
    }
    if (to === "running") {
      open = { n: Number(event.attempt), worker: workerOf(event.actor) ?? event.actor, version: Number(event.version), waitMs: due === null ? null : Math.max(0, at - due), from: at, to: null, outcome: "running", code: "" };
      found.push(open);
      due = null;
    } else if (IN_LINE.includes(to)) {
      due = Date.parse(told.due_at ?? told.run_at ?? event.at);
    }
  }
  return found;
}
