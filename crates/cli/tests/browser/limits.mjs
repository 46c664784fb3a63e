// The limits of a queue: edited with keys, shown before and after, asked about; full and held keys, and a queue that broke.

import assert from "node:assert/strict";
import { isReadable } from "./axe.mjs";
import { done, enqueue, get, post, put, stage, take, until, url } from "./stage.mjs";

const queue = async (name) => (await get("/v1/queues")).queues.find((found) => found.name === name);
const told = (page, text) => page.locator("#told", { hasText: text }).waitFor();
const field = (page, name) => page.locator(`[name="${name}"]`);
const rows = (page) => page.locator("dialog tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));

await stage(async (page) => {
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  await put("/v1/queues/sync", { max_retries: 3, timeout: "30s" });
  await page.goto(`${url}/#/queues/sync`);
  await page.getByRole("region", { name: "Limits" }).getByText("None: its jobs start").waitFor();
  await isReadable(page, "queue-without-limits");

  // From here on with keys alone. The editor is in the address, and a reload shows it again.
  await page.getByRole("link", { name: "Limits" }).focus();
  await press("Enter");
  await page.waitForURL(/edit=limits$/);
  await page.reload();
  await page.getByRole("region", { name: "Limits of sync" }).waitFor();
  await field(page, "concurrency").focus();
  await page.keyboard.type("40");
  await press("Tab");
  await page.keyboard.type("100");
  await press("Tab");
  await page.keyboard.type("20");
  await press("Enter");

  // What cannot be read is said beside it, is not asked about, and has the keys.
  await page.locator(".cell", { hasText: "units per time" }).waitFor();
  assert.equal(await page.locator("dialog").count(), 0);
  await until("the wrong field has the keys", () => field(page, "rate").evaluate((input) => input === document.activeElement));
  assert.equal(await field(page, "rate").getAttribute("aria-invalid"), "true");
  await isReadable(page, "limits-wrong");
  await field(page, "rate").focus();
  await press("End");
  await page.keyboard.type("/s");
  await page.getByText("Something in it cannot be read").waitFor({ state: "detached" });

  // Keys take turns, each with limits, and one has its own.
  await press("Tab", "Tab");
  await page.keyboard.type("5m");
  await press("Tab", "Space");
  await field(page, "each.concurrency").waitFor();
  await press("Tab");
  await page.keyboard.type("2");
  await press("Tab");
  await page.keyboard.type("10/m");
  await press("Tab", "Tab");
  await page.keyboard.type("1");
  await press("Tab");
  await page.keyboard.type("2");
  await press("Tab");
  await page.keyboard.type("drop");
  await press("Tab", "Tab", "Enter");
  await until("a new key has the keys", () => page.evaluate(() => /key$/.test(document.activeElement.name)));
  await page.keyboard.type("acme");
  await press("Tab", "Tab");
  await page.keyboard.type("7");
  await field(page, "breaker.errors").focus();
  for (const text of ["2", "2", "1m", "1h"]) {
    await page.keyboard.type(text);
    await press("Tab");
  }
  await isReadable(page, "limits-editor");
  await press("Enter");
  await page.getByRole("dialog", { name: "Change the limits of sync?" }).waitFor();
  assert.deepEqual(await rows(page), [
    ["at once", "–", "40"], ["rate", "–", "100/s, bursts of 20"], ["aging", "–", "5m"], ["keys", "–", "take turns"],
    ["each key: at once", "–", "2"], ["each key: rate", "–", "10/m"], ["each key: jobs in a turn", "–", "1"], ["each key: waiting at most", "–", "2"], ["each key: when full", "–", "the next job is dropped"],
    ["key acme: at once", "–", "7"], ["breaker", "–", "2 of 2 fail within 1m: nothing starts for 1h"],
  ]);
  await isReadable(page, "limits-question");
  // No is no.
  await press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal((await queue("sync")).flow, undefined);
  await page.getByRole("button", { name: "Review the changes" }).focus();
  await press("Enter");
  await page.getByRole("button", { name: "Set the limits" }).waitFor();
  await press("Enter");
  await told(page, "the limits of sync are set");
  const flow = {
    concurrency: 40, rate: { units: 100, per: 1, burst: 20 }, aging: 300, breaker: { errors: 2, of: 2, within: 60, pause: 3600 },
    lanes: { concurrency: 2, rate: { units: 10, per: 60 }, weight: 1, backlog: 2, full: "drop", keys: { acme: { concurrency: 7 } } },
  };
  const set = await queue("sync");
  assert.deepEqual(set.flow, flow);
  assert.deepEqual([set.defaults.max_retries, set.defaults.timeout], [3, 30], "what its jobs fall back to stays");
  assert.ok(!page.url().includes("edit="));
  await page.getByRole("region", { name: "Limits" }).getByText("100/s, bursts of 20").waitFor();

  // What another changed meanwhile stands as “now”, and it is said.
  await page.getByRole("link", { name: "Limits" }).click();
  assert.equal(await field(page, "each.rate").inputValue(), "10/m");
  await field(page, "concurrency").fill("50");
  await put("/v1/queues/sync", { max_retries: 4, timeout: "30s", flow: { ...flow, concurrency: 45 } });
  await press("Enter");
  await page.getByRole("dialog").getByText("They were changed while you wrote").waitFor();
  assert.deepEqual(await rows(page), [["at once", "45", "50"]]);
  // Also while the question is open.
  await put("/v1/queues/sync", { max_retries: 4, timeout: "30s", flow: { ...flow, concurrency: 46 } });
  await page.getByRole("button", { name: "Set the limits" }).click();
  await page.locator("dialog .problem", { hasText: "changed while you looked" }).waitFor();
  assert.equal((await queue("sync")).flow.concurrency, 46);
  await press("Escape");
  await page.getByRole("button", { name: "Review the changes" }).click();
  await until("what stands now", async () => JSON.stringify(await rows(page)) === '[["at once","46","50"]]');
  await page.getByRole("button", { name: "Set the limits" }).click();
  await until("it is set", async () => (await queue("sync")).flow.concurrency === 50);
  assert.equal((await queue("sync")).defaults.max_retries, 4);
  await page.waitForURL((to) => !to.hash.includes("edit="));

  // A rule is taken away; what the server refuses stays in the question.
  await page.getByRole("link", { name: "Limits" }).click();
  await page.getByRole("button", { name: "remove the rule of acme" }).click();
  await until("the keys go on", () => page.getByRole("button", { name: "Add a key" }).evaluate((button) => button === document.activeElement));
  await field(page, "rate").fill("900000/s");
  await page.getByRole("button", { name: "Review the changes" }).click();
  await page.getByRole("button", { name: "Set the limits" }).click();
  await page.locator("dialog .problem", { hasText: "units a second" }).waitFor();
  await press("Escape");
  await field(page, "rate").fill("100/s");
  await page.getByRole("button", { name: "Review the changes" }).click();
  await until("one change", async () => JSON.stringify(await rows(page)) === '[["key acme: at once","7","–"]]');
  await page.getByRole("button", { name: "Set the limits" }).click();
  await until("the rule is gone", async () => (await queue("sync")).flow.lanes.keys === undefined);
  await page.waitForURL((to) => !to.hash.includes("edit="));

  // As many of a key wait as may: the next would be dropped, and the page says so.
  const first = await enqueue("shop.sync", { queue: "sync", key: "globex" });
  await enqueue("shop.sync", { queue: "sync", key: "globex" });
  await page.getByText("Key globex is full.").waitFor();
  await page.locator("tr", { hasText: "globex" }).getByText("full", { exact: true }).waitFor();

  // A key whose service asked to slow down is held, and let go.
  await (await take(first)).act("release", { hold: "1h" });
  const held = page.locator("tr", { hasText: "globex" });
  await held.getByText("ends in").waitFor();
  await isReadable(page, "queue-with-keys");
  await page.getByRole("button", { name: "let go of globex" }).focus();
  await press("Enter");
  await page.getByRole("dialog", { name: "Let key globex go?" }).waitFor();
  await press("Enter");
  await told(page, "key globex goes on");
  await until("nothing holds it", async () => (await get("/v1/queues/sync/lanes")).lanes.every((lane) => !lane.held_until));

  // A key is anybody's text.
  await enqueue("shop.sync", { queue: "sync", key: "<img src=x onerror=alert(1)>\u202e" });
  await page.locator("tr", { hasText: "<img src=x onerror=alert(1)>\\u{202e}" }).waitFor();
  assert.equal(await page.locator("main img").count(), 0);

  // Attempts that fail break the queue; the page says why and until when, and mends it.
  await put("/v1/queues/calls", { flow: { breaker: { errors: 2, of: 2, within: "1m", pause: "1h" } } });
  for (let n = 0; n < 2; n++) await (await take(await enqueue("call", { queue: "calls", max_retries: 0 }))).act("fail", { error: { code: "down", message: "it is down" } });
  await until("it broke", async () => (await queue("calls")).broken);
  await page.goto(`${url}/#/queues`);
  await page.locator("tr", { hasText: "calls" }).getByText("broken").waitFor();
  await page.goto(`${url}/#/queues/calls`);
  await page.locator(".blocked", { hasText: "2 of 2 attempts failed" }).getByText("in 59m").waitFor();
  await page.getByRole("region", { name: "Limits" }).getByText("2 of 2 fail within 1m").waitFor();
  await isReadable(page, "queue-broken");
  await page.getByRole("button", { name: "Mend now" }).focus();
  await press("Enter");
  await page.getByRole("dialog", { name: "Mend calls now?" }).waitFor();
  await press("Enter");
  await told(page, "calls is mended");
  await page.locator(".blocked").waitFor({ state: "detached" });
  assert.deepEqual([(await queue("calls")).broken, (await queue("calls")).flow.breaker.pause], [undefined, 3600]);

  // A whole queue that is held.
  await put("/v1/queues/slow", {});
  await (await take(await enqueue("call", { queue: "slow" }))).act("release", { hold: "1h" });
  await page.goto(`${url}/#/queues/slow`);
  await page.locator(".blocked", { hasText: "It is held" }).getByRole("button", { name: "Let go" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Let it go" }).click();
  await told(page, "slow goes on");
  await page.locator(".blocked").waitFor({ state: "detached" });
}, { allowed: [/422 \(Unprocessable/] });
done();
