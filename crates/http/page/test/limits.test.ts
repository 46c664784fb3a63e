// Limits of a queue and lengths of time: written, read back, compared.

import assert from "node:assert/strict";
import { test } from "node:test";
import { draftOf, lines, readDraft, ruleDraft, ruleOf } from "../src/edit/limits.ts";
import { changes, readSpan, spanText } from "../src/edit/read.ts";

const FLOW = {
  concurrency: 40, rate: { units: 100, per: 1, burst: 20 }, aging: 300,
  lanes: { concurrency: 2, rate: { units: 10, per: 60 }, backlog: 100, full: "drop", mode: "wait", keys: { acme: { concurrency: 10, weight: 3 }, __proto__x: { rate: { units: 5, per: 10 } } } },
  breaker: { errors: 5, of: 10, within: 60, pause: 30 },
};

test("lengths of time read back as they were written", () => {
  for (const span of [0.25, 1, 30, 60, 90, 3600, 5400, 86_400, 90_061.5]) assert.equal(readSpan(spanText(span)), span, spanText(span));
  assert.deepEqual([spanText(5400), spanText(0.25), spanText(0)], ["1h30m", "250ms", "0s"]);
  assert.deepEqual(["30", "1.5h", "2min", "1h30m"].map(readSpan), [30, 5400, 120, 5400]);
  for (const text of ["", "soon", "5 apples", "-3s", "1h x", "3y"]) assert.equal(readSpan(text), null, text);
});

test("limits read back as they were written", () => {
  assert.deepEqual(JSON.parse(JSON.stringify(readDraft(draftOf(FLOW)))), { flow: FLOW, wrong: {} });
  assert.deepEqual(readDraft(draftOf(null)), { flow: {}, wrong: {} });
  assert.deepEqual(readDraft(draftOf({ lanes: {} })).flow, { lanes: {} }, "keys may take turns without a limit");
  assert.deepEqual([draftOf(FLOW).rate, draftOf(FLOW).keys[1].rule.rate], ["100/s", "5/10s"]);
});

test("what cannot be read is named by its field", () => {
  const wrong = (change: object) => Object.keys(readDraft({ ...draftOf(FLOW), ...change }).wrong);
  assert.deepEqual(wrong({ concurrency: "0" }), ["concurrency"]);
  assert.deepEqual(wrong({ concurrency: "many" }), ["concurrency"]);
  assert.deepEqual(wrong({ rate: "100" }), ["rate"]);
  assert.deepEqual(wrong({ rate: "0/s" }), ["rate"]);
  assert.deepEqual(wrong({ rate: "100/fortnight" }), ["rate"]);
  assert.deepEqual(wrong({ rate: "" }), ["burst"], "a burst without a rate");
  assert.deepEqual(wrong({ aging: "old" }), ["aging"]);
  assert.deepEqual(wrong({ breaker: { errors: "5", of: "", within: "", pause: "30s" } }), ["breaker.of", "breaker.within"]);
  assert.deepEqual(wrong({ breaker: { errors: "11", of: "10", within: "1m", pause: "30s" } }), ["breaker.errors"], "more failures than attempts");
  const twice = [{ id: 7, key: "acme", rule: ruleDraft() }, { id: 8, key: "acme", rule: ruleDraft() }, { id: 9, key: "", rule: ruleDraft() }];
  assert.deepEqual(wrong({ keys: twice }), ["8.key", "9.key"]);
  assert.deepEqual(wrong({ each: { ...ruleDraft(), full: "drop" }, keys: [] }), ["each.full"], "full without a number");
  assert.deepEqual(wrong({ takesTurns: false, each: { ...ruleDraft(), full: "drop" } }), [], "what is off is not read");
});

test("a key may have any name", () => {
  const draft = { ...draftOf({ lanes: {} }), keys: [{ id: 1, key: "__proto__", rule: ruleDraft({ weight: 2 }) }] };
  assert.equal(JSON.stringify(readDraft(draft).flow), '{"lanes":{"keys":{"__proto__":{"weight":2}}}}');
});

test("a change is named line by line, with what was before", () => {
  const after = { ...FLOW, concurrency: 50, breaker: undefined, lanes: { ...FLOW.lanes, keys: { acme: { concurrency: 10 }, globex: {} } } };
  assert.deepEqual(changes(lines(FLOW), lines(after)), [
    { name: "at once", before: "40", after: "50" },
    { name: "key globex", before: undefined, after: "as every key" },
    { name: "key acme: jobs in a turn", before: "3", after: undefined },
    { name: "key __proto__x: rate", before: "5/10s", after: undefined },
    { name: "breaker", before: "5 of 10 fail within 1m: nothing starts for 30s", after: undefined },
  ]);
  assert.deepEqual(changes(lines(FLOW), lines(FLOW)), []);
});

test("the rule of a key goes before that of every key", () => {
  const { concurrency, backlog, weight } = ruleOf(FLOW, "acme");
  assert.deepEqual([concurrency, backlog, weight], [10, 100, 3]);
  assert.equal(ruleOf(FLOW, "toString").concurrency, 2);
  assert.deepEqual(ruleOf(null, "acme"), {});
});
