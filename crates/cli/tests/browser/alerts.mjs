// An alert: made with keys, seen to fire on the Overview, seen to be over, and removed.

import assert from "node:assert/strict";
import { isReadable } from "./axe.mjs";
import { done, enqueue, get, stage, take, until, url } from "./stage.mjs";

const told = (page, text) => page.locator("#told", { hasText: text }).waitFor();

await stage(async (page) => {
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  await page.goto(`${url}/#/settings`);
  await page.getByRole("region", { name: "Alerts" }).getByText("Nothing is watched").waitFor();
  await page.getByRole("button", { name: "Watch …" }).focus();
  await press("Enter");
  await page.getByRole("dialog", { name: "Watch something" }).waitFor();
  await isReadable(page, "alert-question");
  await page.keyboard.type("lonely");
  await press("Tab");
  await page.keyboard.type("jobs are due and no worker");
  await press("Tab", "Tab", "Tab");
  await page.keyboard.type("slow");
  await press("Enter");
  await told(page, "it is watched");
  const [alert] = (await get("/v1/alerts")).alerts;
  assert.deepEqual([alert.name, alert.metric, alert.queue, alert.firing_since], ["lonely", "no_worker", "slow", null]);
  await page.locator("tr", { hasText: "lonely" }).getByText("quiet").waitFor();

  // Nothing fires; then a job is due and nobody is there.
  await page.goto(`${url}/#/`);
  await page.locator(".state h2").waitFor();
  assert.equal(await page.locator(".firing").count(), 0);
  const job = await enqueue("call", { queue: "slow" });
  const firing = page.getByRole("region", { name: "alerts" });
  await firing.getByText("queue slow: jobs are due and no worker serves it").waitFor();
  await isReadable(page, "alert-fires");

  // From there to where it is set, by keys.
  await firing.getByRole("link", { name: "lonely" }).focus();
  await press("Enter");
  await page.waitForURL(/settings/);
  await page.locator("tr", { hasText: "lonely" }).getByText("fires since").waitFor();

  // The job is done: it is over, without anybody reloading.
  await page.goto(`${url}/#/`);
  await firing.waitFor();
  await (await take(job)).act("complete");
  await firing.waitFor({ state: "detached" });
  assert.equal((await get("/v1/alerts")).alerts[0].firing_since, null);

  // Removed, after a question.
  await page.goto(`${url}/#/settings`);
  await page.locator("tr", { hasText: "lonely" }).getByRole("button", { name: "Remove" }).focus();
  await press("Enter");
  await page.getByRole("dialog", { name: "Watch lonely no more?" }).waitFor();
  await press("Enter");
  await told(page, "lonely is removed");
  await until("nothing is watched", async () => (await get("/v1/alerts")).alerts.length === 0);
  await page.getByText("Nothing is watched").waitFor();
});
done();
