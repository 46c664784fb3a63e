// What each kind did, from the stats of many.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Stats } from "../src/base/api.ts";
import { kindsOf } from "../src/view/stats.ts";

const at = (minute: number) => new Date(Date.parse("2026-11-18T00:00:00Z") + minute * 60_000).toISOString();
const point = (minute: number, counts: object, run: number[][] = []) => ({ at: at(minute), counts, run: { buckets: run } });

test("the busiest kind comes first, all others last, and success is the share of ended attempts", () => {
  const stats = {
    from: at(0), to: at(60), step: 60,
    series: [
      { points: [point(1, { completed: 1000 })] },
      { kind: "mail", points: [point(0, { completed: 2, retried: 1, enqueued: 9 }, [[3, 2]]), point(59, { failed: 1 }, [[3, 1], [5, 1]])] },
      { kind: "sync", points: [point(3, { completed: 50 })] },
      { kind: "idle", points: [point(3, { enqueued: 5 })] },
    ],
  } as unknown as Stats;
  const found = kindsOf(stats);
  assert.deepEqual(found.map((kind) => kind.name), ["sync", "mail", "idle", "other"]);
  const mail = found[1];
  assert.deepEqual([mail.completed, mail.retried, mail.dead, mail.success], [2, 1, 1, 0.5]);
  assert.deepEqual([...mail.run], [[3, 3], [5, 1]]);
  assert.deepEqual([mail.perStep.length, mail.perStep[0], mail.perStep.at(-1)], [30, 3, 1]);
  assert.equal(found[2].success, null, "nothing ended: nothing is known");
});
