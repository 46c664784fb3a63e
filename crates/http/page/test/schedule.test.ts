// A schedule: written into a form, read back, compared.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Exact, type Schedule } from "../src/base/api.ts";
import { bodyText, draftOf, kept, lines, readDraft, unknown } from "../src/edit/schedule.ts";
import { changes } from "../src/edit/read.ts";

// As a browser reads what the API answers, with numbers that JavaScript would change.
const nightly = JSON.parse(`{
  "name": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin", "missed": "all", "missed_max": 3, "overlap": "skip", "jitter": 300, "version": 7, "starts_at": "2026-12-01T00:00:00Z",
  "job": {
    "kind": "report.build", "queue": "reports", "priority": -2, "max_retries": 0, "timeout_ms": 30000, "lease_ms": 60000, "grace_ms": 1500, "backoff": { "base_ms": 1000, "max_ms": 60000, "multiplier": 2.0, "jitter": true },
    "agent_id": "ada", "tags": ["shop", "slow"], "metadata": { "big": 123456789012345678901234567890 }, "requires": { "zone": "eu" }, "key": "acme", "cost": 5, "payload": { "exact": 1.0 }
  }
}`, (key, value) => (key === "big" ? new Exact("123456789012345678901234567890") : key === "exact" ? new Exact("1.0") : value)) as Schedule;

test("what the form knows and what it keeps is asked for as it stands", () => {
  const { body, wrong } = readDraft(draftOf(nightly), nightly);
  assert.deepEqual(wrong, {});
  const text = bodyText(body);
  assert.match(text, /123456789012345678901234567890/, "digit by digit");
  assert.deepEqual(JSON.parse(text), {
    cron: "0 2 * * *", timezone: "Europe/Berlin", missed: "all", missed_max: 3, overlap: "skip", jitter: 300, starts_at: "2026-12-01T00:00:00Z",
    job: {
      kind: "report.build", queue: "reports", priority: -2, max_retries: 0, timeout: 30, lease: 60, grace: 1.5, backoff: { base: 1, max: 60, multiplier: 2, jitter: true },
      agent_id: "ada", tags: ["shop", "slow"], metadata: { big: 123456789012345678901234567890 }, requires: { zone: "eu" }, key: "acme", cost: 5, payload: { exact: 1 },
    },
  });
  assert.deepEqual(kept(nightly), ["lease", "grace", "backoff", "agent id", "metadata", "requires", "cost"]);
  assert.deepEqual(unknown(nightly), []);
  assert.deepEqual(unknown({ ...nightly, job: { ...(nightly.job as object), colour: "red" } } as unknown as Schedule), ["colour"], "what would be lost is named");
});

test("an interval has no cron text, and an empty form asks for little", () => {
  const every = { ...draftOf(null), name: "pulse", timing: "every" as const, every: "1h30m", cron: "left over", kind: "tick" };
  assert.deepEqual(readDraft(every, null), { body: { every: 5400, job: { kind: "tick" } }, wrong: {} });
  assert.deepEqual(lines(every).slice(0, 2), [["every", "1h30m"], ["kind", "tick"]]);
});

test("what cannot be read is named by its field", () => {
  const wrong = (change: object) => Object.keys(readDraft({ ...draftOf(nightly), ...change }, nightly).wrong);
  assert.deepEqual(Object.keys(readDraft(draftOf(null), null).wrong), ["name", "kind", "cron"]);
  assert.deepEqual(wrong({ timing: "every" }), ["every"]);
  assert.deepEqual(wrong({ payload: "{oops" }), ["payload"]);
  assert.deepEqual(wrong({ priority: "9" }), ["priority"]);
  assert.deepEqual(wrong({ priority: "high" }), ["priority"]);
  assert.deepEqual(wrong({ timeout: "long" }), ["timeout"]);
  assert.deepEqual(wrong({ missed_max: "0" }), ["missed_max"]);
  assert.deepEqual(wrong({ ends_at: "some day" }), ["ends_at"]);
  assert.deepEqual(wrong({ ends_at: "10d", starts_at: "2026-12-31T00:00:00Z" }), []);
});

test("a change is named line by line, and what is as usual is no change", () => {
  const before = draftOf(nightly);
  assert.deepEqual(changes(lines(before), lines({ ...before, cron: "30 4 * * *", timezone: "", max_retries: "2", tags: "" })), [
    { name: "cron", before: "0 2 * * *", after: "30 4 * * *" },
    { name: "zone", before: "Europe/Berlin", after: "UTC" },
    { name: "retries", before: "0", after: "2" },
    { name: "tags", before: "shop, slow", after: undefined },
  ]);
  const usual = draftOf({ name: "x", cron: "@hourly", timezone: "UTC", missed: "once", missed_max: 10, overlap: "allow", jitter: 0, job: { kind: "k", queue: "default" } } as unknown as Schedule);
  assert.deepEqual(changes(lines(usual), lines({ ...usual, timezone: "", queue: "", missed: "", overlap: "", jitter: "" })), []);
});
