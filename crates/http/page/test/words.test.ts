// Filters as words, differences of JSON, numbers for charts, and the sentence about everything.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Now, Stats, Worker } from "../src/base/api.ts";
import { away, duration } from "../src/base/clock.ts";
import { plain, rate } from "../src/base/text.ts";
import { fromText, toText } from "../src/view/filter.ts";
import { deepest, drainMs, fold, percentile, verdict, windowOf } from "../src/view/stats.ts";

const NOW = Date.parse("2026-11-18T12:00:00Z");

test("a filter reads back as it was written", () => {
  const said = fromText('kind:email.send tag:shop error:"smtp busy"');
  assert.equal(toText(new URLSearchParams([...said.params!])), 'kind:email.send tag:shop error:"smtp busy"');
  assert.deepEqual([...fromText("email.send").params!], [["kind", "email.send"]]);
  assert.match(fromText("colour:red").wrong!, /there is no filter colour/);
  assert.match(fromText("kind:a kind:b").wrong!, /twice/);
  assert.equal(fromText("01A1EC2B-72A9-738D-BC9C-2C446551EDA5").id, "01a1ec2b-72a9-738d-bc9c-2c446551eda5");
  assert.deepEqual(["2C446551", "…2c446551", "72a9-738d", "dead"].map((text) => fromText(text).piece), ["2c446551", "2c446551", "72a9-738d", "dead"]);
  assert.deepEqual([...fromText("dead").params!], [["kind", "dead"]]);
  assert.deepEqual(["2c4", "2c446551 tag:shop", "kind:2c446551", "email.send"].map((text) => fromText(text).piece), [undefined, undefined, undefined, undefined]);
});

test("what hides in text is written out", () => {
  assert.equal(plain("exe.\u202egpj\u200b"), "exe.\\u{202e}gpj\\u{200b}");
});

test("lengths of time and rates read well", () => {
  assert.deepEqual([340, 2100, 65_000, 7_500_000, 273_600_000].map(duration), ["340 ms", "2.1 s", "1m 5s", "2h 5m", "3d 4h"]);
  assert.deepEqual([away(NOW - 60_000, NOW), away(NOW + 3000, NOW), away(NOW, NOW)], ["1m ago", "in 3 s", "now"]);
  assert.deepEqual([0, 0.01, 4.25, 44].map(rate), ["0", "<0.1", "4.3", "44"]);
});

test("the window of charts has at most 180 steps, and hours where minutes are gone", () => {
  const steps = ["-15m", "-1h", "-12h", "-2d", "-90d"].map((from) => {
    const view = windowOf(new URLSearchParams({ from }), NOW);
    assert.ok((view.to - view.from) / view.step / 1000 <= 182, from);
    return view.step;
  });
  assert.deepEqual(steps, [60, 60, 300, 1800, 43_200]);
  assert.equal(windowOf(new URLSearchParams({ from: "nonsense" }), NOW).step, 60);
});

const bounds = [0.001, 0.01, 0.1, 1];
const point = (at: string, more: object) => ({ at, counts: {}, ...more });
const stats = {
  from: "2026-11-18T11:00:00Z", to: "2026-11-18T11:03:00Z", step: 60, bounds,
  series: [
    { queue: "mail", points: [point("2026-11-18T11:00:00Z", { counts: { completed: 3 }, wait: { buckets: [[0, 50], [2, 49], [3, 1]] }, gauges: { depth: 7, oldest: 4, busy: 2, capacity: 9 } })] },
    { queue: "orders", points: [point("2026-11-18T11:00:00Z", { counts: { completed: 2 }, wait: { buckets: [[0, 100]] }, gauges: { depth: 9, oldest: 1, busy: 1, capacity: 9 } })] },
  ],
} as unknown as Stats;

test("series add up: counts, buckets and gauges; a worker of two queues is there once", () => {
  const rows = fold(stats, { from: 0, to: Date.parse("2026-11-18T11:03:00Z"), step: 60, isLive: false });
  assert.equal(rows.length, 3);
  assert.deepEqual([rows[0].counts.completed, rows[0].busy, rows[0].capacity, rows[0].oldest], [5, 3, 9, 4]);
  assert.deepEqual([rows[1].busy, rows[1].counts.completed], [null, undefined]);
  assert.equal(percentile(rows[0].wait, 0.5, bounds), 1);
  assert.ok(Math.abs(percentile(rows[0].wait, 0.99, bounds)! - Math.sqrt(0.01 * 0.1) * 1000) < 1e-9);
  assert.equal(percentile(rows[1].wait, 0.5, bounds), null);
  assert.deepEqual(deepest(rows, [], 1), ["orders"]);
});

test("one missing sample of the gauges is no gap, two are", () => {
  const sampled = (minutes: number[]) => ({ ...stats, to: "2026-11-18T11:06:00Z", series: [{ queue: "mail", points: minutes.map((n) => point(`2026-11-18T11:0${n}:00Z`, { gauges: { depth: n, oldest: 0, busy: 1, capacity: 1 } })) }] }) as unknown as Stats;
  const depths = (minutes: number[]) => fold(sampled(minutes), { from: 0, to: Date.parse("2026-11-18T11:06:00Z"), step: 60, isLive: false }).map((row) => row.depth.mail ?? null);
  assert.deepEqual(depths([0, 2, 3, 5]), [0, 0, 2, 3, 3, 5]);
  assert.deepEqual(depths([0, 3]), [0, null, null, 3, null, null]);
});

test("a queue is empty when more starts than comes", () => {
  assert.equal(drainMs(100, { enqueued: 1, started: 11 }), 10_000);
  assert.equal(drainMs(100, { enqueued: 2, started: 2 }), null);
});

const queue = (more: object) => ({ name: "mail", due: 0, due_capped: false, oldest_due_at: null, defaults: {}, mode: "pull", rates: { enqueued: 0, started: 0, completed: 0, dead: 0 }, ...more });
const all = (queues: object[]) => ({ as_of: "", statuses: {}, queues, workers: { live: 1, draining: 0, gone: 0, capacity: 4 }, approvals: { count: 0 }, problems: { count: 0 } }) as unknown as Now;
const worker = (more: object) => ({ id: "w1", queues: ["mail"], kinds: [], live: true, draining: false, seen_at: new Date(NOW - 300_000).toISOString(), ...more }) as unknown as Worker;
const late = { due: 22_804, oldest_due_at: new Date(NOW - 720_000).toISOString() };

test("one sentence names the worst: what, since when, why, and what helps", () => {
  const well = verdict(all([queue({})]), [worker({})], [], NOW);
  assert.deepEqual([well.tone, well.title], ["good", "All is well"]);

  const nobody = verdict(all([queue(late)]), [worker({ live: false })], [], NOW);
  assert.equal(nobody.title, "Nobody works on mail");
  assert.match(nobody.text, /22,804 jobs are due, the oldest for 12m, and no live worker takes them. Worker w1 was seen last 5m ago/);
  assert.match(nobody.command!, /windlass work --queue mail/);

  const paused = verdict(all([queue({ ...late, paused: { at: new Date(NOW - 60_000).toISOString(), by: "key:ann" } })]), [worker({})], [], NOW);
  assert.deepEqual([paused.title, paused.resume], ["mail is paused", "mail"]);

  const slow = verdict(all([queue({ ...late, rates: { enqueued: 50, started: 40, completed: 40, dead: 0 } })]), [worker({})], [], NOW);
  assert.deepEqual([slow.tone, slow.title], ["bad", "mail is 12m behind and growing"]);
  const catching = verdict(all([queue({ ...late, rates: { enqueued: 10, started: 48, completed: 48, dead: 0 } })]), [worker({})], [], NOW);
  assert.match(catching.text, /empty in 10m/);
});
