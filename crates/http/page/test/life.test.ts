// The life of a job from its events: lanes, attempts, and an axis that folds idle time.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobEvent } from "../src/base/api.ts";
import { fold as foldRow, fresh } from "../src/base/status.ts";
import { attempts, axis, lanes, stepsOf } from "../src/view/life.ts";

const START = Date.parse("2026-11-18T00:00:00Z");
let version = 0;
const event = (s: number, type: string, more: object = {}) => ({ version: (version += 1), type, actor: "worker:w1", attempt: 1, generation: 0, at: new Date(START + s * 1000).toISOString(), ...more }) as JobEvent;

const waited = () => [
  event(0, "job_created", { detail: {} }),
  event(1, "job_claimed"),
  event(1, "node_started", { detail: { name: "pack" } }),
  event(3, "node_finished", { detail: { name: "pack" } }),
  event(3, "job_waiting", { detail: { waits_for: "approval", name: "ship" } }),
  event(72_003, "job_signalled", { detail: { name: "ship", woke: true } }),
  event(72_004, "job_claimed", { attempt: 2 }),
  event(72_004, "node_started", { detail: { name: "label" } }),
  event(72_006, "node_finished", { detail: { name: "label" } }),
  event(72_006, "job_completed", { attempt: 2 }),
];

test("lanes tell line, attempts, steps, waits and what came from outside", () => {
  const found = lanes(waited());
  assert.deepEqual(found.map((lane) => lane.name), ["in line", "attempt 1", "pack", "approval ship", "attempt 2", "label", "from outside"]);
  assert.deepEqual(found.find((lane) => lane.name === "pack")!.bars.map((bar) => [bar.tone, bar.to! - bar.from]), [["completed", 2000]]);
});

test("five seconds of work stay visible beside twenty hours of waiting", () => {
  const events = waited();
  const all = lanes(events);
  const view = axis(all, START, START + 72_006_000);
  assert.equal(view.folds.length, 1);
  for (const lane of all.filter((lane) => lane.kind === "step")) {
    const [bar] = lane.bars;
    const wide = (view.share(bar.to!) - view.share(bar.from)) * 500;
    assert.ok(wide >= 8, `${lane.name} is ${wide} px of 500`);
  }
  // Time never runs backwards, and all of it is there.
  const places = Array.from({ length: 1000 }, (_, n) => view.share(START + n * 72_006));
  assert.deepEqual(places, places.toSorted((a, b) => a - b));
  assert.ok(view.share(START) === 0 && Math.abs(view.share(START + 72_006_000) - 1) < 1e-9);
});

test("nothing is folded where there was no work, or little idling", () => {
  assert.deepEqual(axis(lanes([event(0, "job_created")]), START, START + 1e9).folds, []);
  assert.deepEqual(axis(lanes([event(0, "job_created"), event(1, "job_claimed"), event(9, "job_completed")]), START, START + 9000).folds, []);
});

test("attempts say how long each waited and ran, and how it ended", () => {
  const found = attempts([
    event(0, "job_created", { detail: { run_at: new Date(START + 10_000).toISOString() } }),
    event(12, "job_claimed"),
    event(13, "job_retried", { detail: { code: "busy", due_at: new Date(START + 20_000).toISOString() } }),
    event(21, "job_claimed", { attempt: 2 }),
    event(25, "job_claimed", { attempt: 3 }),
    event(26, "job_failed", { attempt: 3, detail: { code: "gone" } }),
  ]);
  assert.deepEqual(found.map((one) => [one.n, one.waitMs, one.to! - one.from, one.outcome, one.code]), [[1, 2000, 1000, "retry", "busy"], [2, 1000, 4000, "orphaned", ""], [3, null, 1000, "failed", "gone"]]);
});

test("steps of two jobs are set side by side by their names", () => {
  const found = stepsOf([...waited(), event(72_007, "node_started", { detail: { name: "mail" } })]);
  assert.deepEqual([...found], [["pack", { ms: 2000, isDone: true }], ["label", { ms: 2000, isDone: true }], ["mail", { ms: null, isDone: false }]]);
});

test("a job that waits again after a redrive is in no line, and its row says so", () => {
  const life = [event(0, "job_created"), event(1, "job_skipped"), event(5, "job_rearmed", { upstream: ["a"] })];
  const waits = lanes(life).find((lane) => lane.kind === "wait");
  assert.deepEqual([waits?.name, waits?.bars.length], ["upstream", 1]);
  const row = fresh(life[0]!);
  for (const moved of life.slice(1)) foldRow(row, moved);
  assert.deepEqual([row.status, row.waiting_for, row.finished_at], ["waiting", "upstream", null]);
});
