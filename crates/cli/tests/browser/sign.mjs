// Keys: a wrong one, one that may only look, one that may all; and out again.

import assert from "node:assert/strict";
import { done, stage, url } from "./stage.mjs";

const { PAGE_ADMIN: admin, PAGE_VIEWER: viewer, PAGE_JOB: job } = process.env;

async function signIn(page, key) {
  await page.getByLabel("Key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
}

await stage(async (page, context) => {
  await page.goto(`${url}/#/jobs/${job}`);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await signIn(page, "wl_wrong");
  await page.locator(".problem", { hasText: "unauthorized" }).getByText("unknown, expired or revoked").waitFor();

  // One that may only look is offered nothing else, on any page; and is refused when it asks all the same.
  await signIn(page, viewer);
  await page.getByRole("heading", { name: "guarded" }).waitFor();
  await page.locator('#live[data-state="live"]').waitFor();
  await page.locator("#who", { hasText: "looker" }).waitFor();
  const acts = /^(cancel|redrive|fork|signal|approve|deny|pause|resume|drain|take|enqueue|run now|remove|resolve|mute|make|change|defaults|limits|let go|mend|review|add|edit|new|watch)/i;
  for (const at of [`#/jobs/${job}`, "#/", "#/jobs", "#/jobs?queue=default", "#/problems", "#/approvals", "#/queues", "#/queues/default", "#/queues/default?edit=limits", "#/workers", "#/schedules", "#/schedules/nightly", "#/schedules/nightly?edit=schedule", "#/schedules?edit=schedule", "#/activity", "#/settings"]) {
    await page.goto(`${url}/${at}`);
    await page.locator(`.rail [aria-current=page][data-page="${at.slice(2).split(/[/?]/)[0] || "overview"}"]`).waitFor({ state: "attached" });
    await page.locator("main h1").first().waitFor({ state: "attached" });
    await page.locator('#live[data-state="live"]').waitFor();
    // What comes later than the page has come when it says so.
    if (at.startsWith("#/queues/")) await page.getByRole("region", { name: "Limits" }).waitFor();
    if (at.startsWith("#/settings")) await page.getByRole("region", { name: "Alerts" }).waitFor();
    const offered = (await page.locator("button, main a.button, main header a").allTextContents()).filter((text) => acts.test(text.trim()));
    assert.deepEqual(offered, [], at);
    assert.equal(await page.locator("main input[type=checkbox]").count(), 0, at);
  }
  const refused = await page.evaluate(async (id) => (await fetch(`v1/jobs/${id}/cancel`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" })).status, job);
  assert.equal(refused, 403);
  await page.goto(`${url}/#/jobs/${job}`);

  // The cookie is the browser's alone, and lasts beyond a reload.
  const [cookie] = await context.cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/"]);
  assert.equal(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })), "{}");
  await page.reload();
  await page.getByRole("heading", { name: "guarded" }).waitFor();

  // Out, and in as somebody who may.
  await page.getByRole("button", { name: "sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(await context.cookies(), []);
  await signIn(page, admin);
  await page.locator("#who", { hasText: "root" }).waitFor();
  await page.locator(".acts").getByRole("button", { name: "Cancel" }).click();
  await page.locator("dialog").getByRole("button", { name: "Cancel the job" }).click();
  await page.locator('.title [data-status="cancelled"]').waitFor();
  await page.locator(".c-by", { hasText: "key:root" }).waitFor();
}, { allowed: [/401 \(Unauthorized/, /403 \(Forbidden/] });
done();
