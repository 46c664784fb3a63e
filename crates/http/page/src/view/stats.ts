// Numbers over time, folded for charts. Pure.

import type { Now, ProblemGroup, Queue, Stats, Worker } from "../base/api.ts";
import { duration } from "../base/clock.ts";
import { many, plural } from "../base/text.ts";

export const RANGES = [["15m", "last 15 minutes"], ["1h", "last hour"], ["3h", "last 3 hours"], ["12h", "last 12 hours"], ["1d", "last day"], ["2d", "last 2 days"], ["7d", "last 7 days"], ["30d", "last 30 days"], ["90d", "last 90 days"]] as const;

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };
const STEPS_S = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
const STEPS_MOST = 180;
// Minutes are kept this long.
const MINUTES_MS = 48 * 3_600_000;

export type Window = { from: number; to: number; step: number; isLive: boolean };

// `from=-3h`, or two points in time. The step is the smallest that gives a chart of at most 180.
export function windowOf(params: URLSearchParams, now: number): Window {
  const asked = /^-(\d+)([mhd])$/.exec(params.get("from") ?? "-1h");
  const from = asked ? now - Number(asked[1]) * UNITS[asked[2]] : Date.parse(params.get("from")!);
  const to = asked ? now : Date.parse(params.get("to") ?? "") || now;
  if (!(from < to)) return windowOf(new URLSearchParams(), now);
  const wanted = (to - from) / 1000 / STEPS_MOST;
  const isOld = now - from > MINUTES_MS;
  const step = STEPS_S.find((s) => s >= wanted && (!isOld || s >= 3600)) ?? 86_400;
  return { from: Math.floor(from / 1000 / step) * step * 1000, to, step, isLive: Boolean(asked) };
}

export type Row = {
  at: number;
  counts: Record<string, number>;
  wait: Map<number, number>;
  run: Map<number, number>;
  depth: Record<string, number>;
  oldest: number;
  busy: number | null;
  capacity: number | null;
};

const blank = (at: number): Row => ({ at, counts: {}, wait: new Map(), run: new Map(), depth: {}, oldest: 0, busy: null, capacity: null });

function pour(into: Map<number, number>, buckets: number[][] | undefined) {
  for (const [bucket, n] of buckets ?? []) into.set(bucket, (into.get(bucket) ?? 0) + n);
}

// One row per step over all queues, with every step there, also those in which nothing happened.
export function fold(stats: Stats, view: Window): Row[] {
  const stepMs = Number(stats.step) * 1000;
  const first = Date.parse(stats.from);
  const length = Math.max(1, Math.ceil((Date.parse(stats.to) - first) / stepMs));
  const rows = Array.from({ length }, (_, n) => blank(first + n * stepMs));
  for (const series of stats.series) {
    const name = (series as { queue?: string }).queue ?? "other";
    for (const point of series.points) {
      const row = rows[Math.round((Date.parse(point.at) - first) / stepMs)];
      if (!row) continue;
      for (const [key, n] of Object.entries(point.counts)) row.counts[key] = (row.counts[key] ?? 0) + Number(n);
      pour(row.wait, point.wait?.buckets as number[][] | undefined);
      pour(row.run, point.run?.buckets as number[][] | undefined);
      const gauges = point.gauges;
      if (!gauges) continue;
      row.depth[name] = Number(gauges.depth);
      row.oldest = Math.max(row.oldest, Number(gauges.oldest));
      row.busy = (row.busy ?? 0) + Number(gauges.busy);
      // A worker of several queues stands in each of them: the largest is what is surely there.
      row.capacity = Math.max(row.capacity ?? 0, Number(gauges.capacity), row.busy);
    }
  }
  bridge(rows);
  const shown = rows.filter((row) => row.at < view.to);
  // A step that is not over would look like a fall.
  const isOpen = view.isLive && shown.length > 1 && shown.at(-1)!.at + stepMs > view.to;
  return isOpen ? shown.slice(0, -1) : shown;
}

export type KindTotals = { name: string; completed: number; retried: number; dead: number; success: number | null; wait: Map<number, number>; run: Map<number, number>; perStep: number[] };

// What each kind did over the range, the busiest first. Success is the share of ended attempts that completed.
export function kindsOf(stats: Stats): KindTotals[] {
  const stepMs = Number(stats.step) * 1000;
  const first = Date.parse(stats.from);
  const length = Math.max(1, Math.ceil((Date.parse(stats.to) - first) / stepMs));
  // A spark is no wider than eyes count.
  const per = Math.ceil(length / 48);
  const kinds = stats.series.map((series): KindTotals & { ended: number } => {
    const name = (series as { kind?: string }).kind ?? "other";
    const made = { name, completed: 0, retried: 0, dead: 0, success: null, wait: new Map(), run: new Map(), perStep: new Array<number>(Math.ceil(length / per)).fill(0), ended: 0 };
    for (const point of series.points) {
      const n = (key: string) => Number((point.counts as Record<string, unknown>)[key] ?? 0);
      const dead = n("failed") + n("timed_out");
      made.completed += n("completed");
      made.retried += n("retried");
      made.dead += dead;
      pour(made.wait, point.wait?.buckets as number[][] | undefined);
      pour(made.run, point.run?.buckets as number[][] | undefined);
      const place = Math.floor((Date.parse(point.at) - first) / stepMs / per);
      if (place >= 0 && place < made.perStep.length) made.perStep[place] += n("completed") + n("retried") + dead;
    }
    made.ended = made.completed + made.retried + made.dead;
    return { ...made, success: made.ended ? made.completed / made.ended : null };
  });
  return kinds.sort((a, b) => Number(a.name === "other") - Number(b.name === "other") || b.ended - a.ended || (a.name < b.name ? -1 : 1));
}

// Gauges are sampled once a minute, and a sample may fall into the minute beside its own: one missing step is no gap.
function bridge(rows: Row[]) {
  for (let n = 1; n + 1 < rows.length; n += 1) {
    const [before, row, after] = rows.slice(n - 1, n + 2);
    if (row.busy !== null || before.busy === null || after.busy === null) continue;
    Object.assign(row, { busy: before.busy, capacity: before.capacity, depth: before.depth, oldest: before.oldest });
    // What was filled in bridges nothing further.
    n += 1;
  }
}

// A percentile in ms, within the width of a bucket; null when nothing was measured.
export function percentile(buckets: Map<number, number>, share: number, bounds: number[]): number | null {
  const total = [...buckets.values()].reduce((sum, n) => sum + n, 0);
  if (total === 0) return null;
  let left = total * share;
  for (const [bucket, n] of [...buckets].sort(([a], [b]) => a - b)) {
    left -= n;
    if (left <= 1e-9) return bucket === 0 ? bounds[0] * 1000 : Math.sqrt(bounds[bucket - 1] * bounds[bucket]) * 1000;
  }
  return null;
}

// The newest that is known of the last few steps.
export function last(rows: Row[], of: (row: Row) => number | null): number | null {
  for (const row of rows.slice(-3).toReversed()) {
    const value = of(row);
    if (value !== null) return value;
  }
  return null;
}

// How deep a queue was: nothing is known without a sample, and a queue that a sample does not name held nothing.
export const depthOf = (row: Row, queue: string) => row.depth[queue] ?? (row.busy === null ? null : 0);

// The queues of a chart: the deepest have a line of their own.
export function deepest(rows: Row[], queues: Queue[], most: number): string[] {
  const peak = new Map(queues.map((queue) => [queue.name, Number(queue.due)]));
  for (const row of rows) for (const [name, n] of Object.entries(row.depth)) peak.set(name, Math.max(peak.get(name) ?? 0, n));
  return [...peak].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, most).map(([name]) => name);
}

// When a queue is empty at this pace; null when it grows or stands.
export function drainMs(due: number, { enqueued, started }: { enqueued: number; started: number }) {
  const pace = started - enqueued;
  return pace > 0.01 && due > 0 ? (due / pace) * 1000 : null;
}

export const serves = (worker: Worker, queue: string) => worker.live && !worker.draining && worker.queues.includes(queue);

export type Verdict = { tone: "good" | "warm" | "bad"; title: string; text: string; command?: string; links: [string, string][]; resume?: string };

const BEHIND_MS = 60_000;
const count = (queue: Queue) => (queue.due_capped ? `more than ${many(Number(queue.due))}` : many(Number(queue.due)));

function behind(queue: Queue, workers: Worker[], now: number): Verdict | null {
  const due = Number(queue.due);
  if (due === 0 || !queue.oldest_due_at) return null;
  const late = now - Date.parse(queue.oldest_due_at);
  const jobs = `${count(queue)} ${due === 1 ? "job is" : "jobs are"} due, the oldest for ${duration(Math.max(0, Math.round(late / 1000) * 1000)).replace(".0", "")}`;
  const to: [string, string] = [`Queue ${queue.name}`, `#/queues/${encodeURIComponent(queue.name)}`];
  if (queue.paused) {
    return { tone: "warm", title: `${queue.name} is paused`, text: `${jobs}. ${queue.paused.by} paused it ${duration(now - Date.parse(queue.paused.at))} ago; nothing of it starts until it is resumed.`, links: [to], resume: queue.name };
  }
  if (!workers.some((worker) => serves(worker, queue.name))) {
    const gone = workers.filter((worker) => worker.queues.includes(queue.name) && !worker.live).sort((a, b) => (a.seen_at < b.seen_at ? 1 : -1))[0];
    const draining = workers.some((worker) => worker.live && worker.draining && worker.queues.includes(queue.name));
    const cause = draining ? "Its workers drain and take no more." : gone ? `Worker ${gone.id} was seen last ${duration(now - Date.parse(gone.seen_at))} ago.` : "";
    return { tone: "bad", title: `Nobody works on ${queue.name}`, text: `${jobs}, and no live worker takes them. ${cause}`.trim(), command: `windlass work --queue ${queue.name} --exec ./handler`, links: [to, ["Workers", "#/workers"]] };
  }
  if (late < BEHIND_MS) return null;
  const rates = { enqueued: Number(queue.rates.enqueued), started: Number(queue.rates.started) };
  const left = drainMs(due, rates);
  const grows = rates.enqueued > rates.started + 0.01;
  return {
    tone: late > 10 * BEHIND_MS ? "bad" : "warm",
    title: `${queue.name} is ${duration(late)} behind${grows ? " and growing" : ""}`,
    text: `${jobs}. ${left ? `At the pace of the last minute it is empty in ${duration(left)}.` : "It does not get shorter: give it more workers, or slots."}`,
    links: [to, ["Workers", "#/workers"]],
  };
}

const WORST = ["bad", "warm", "good"];

// One sentence about everything, with its cause and what helps: the worst thing first.
export function verdict(now: Now, workers: Worker[], fresh: ProblemGroup[], at: number): Verdict {
  const late = now.queues.map((queue) => behind(queue, workers, at)).filter((found) => found !== null);
  const worst = late.sort((a, b) => WORST.indexOf(a.tone) - WORST.indexOf(b.tone))[0];
  if (worst) return late.length > 1 ? { ...worst, text: `${worst.text} ${plural(late.length - 1, "other queue")} also ${late.length === 2 ? "stands" : "stand"}.` } : worst;
  if (fresh.length > 0) {
    const named = fresh.slice(0, 3).map((problem) => `${problem.code} in ${problem.kind}`).join(", ");
    const [first] = fresh;
    return {
      tone: "warm",
      title: `${plural(fresh.length, "new problem")} in the last hour`,
      text: `Jobs flow, and some of them fail as they did not before: ${named}${fresh.length > 3 ? " and others" : ""}.`,
      links: [fresh.length === 1 ? ["Look at it", `#/problems/${first.fingerprint}`] : ["Problems", "#/problems"]],
    };
  }
  const running = Number(now.statuses.running?.count ?? 0);
  const due = now.queues.reduce((sum, queue) => sum + Number(queue.due), 0);
  if (now.queues.length === 0) return { tone: "good", title: "Nothing to do yet", text: "The first job that is enqueued shows up here.", command: "windlass enqueue report --payload '{\"n\":1}'", links: [["Jobs", "#/jobs"]] };
  return {
    tone: "good",
    title: "All is well",
    text: `${many(running)} of ${plural(Number(now.workers.capacity), "slot")} in use on ${plural(Number(now.workers.live), "worker")}; ${due === 0 ? "nothing waits in line" : `${plural(due, "job")} in line, none for longer than a minute`}.`,
    links: [],
  };
}
