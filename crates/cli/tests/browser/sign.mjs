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

  // One that may only look is told so, and the job stays.
  await signIn(page, viewer);
  await page.getByRole("heading", { name: "guarded" }).waitFor();
  await page.locator('#live[data-state="live"]').waitFor();
  await page.locator("#who", { hasText: "looker" }).waitFor();
  await page.locator(".acts").getByRole("button", { name: "Cancel" }).click();
  await page.locator("dialog").getByRole("button", { name: "Cancel the job" }).click();
  await page.locator("dialog .problem", { hasText: "forbidden" }).getByText("producer or operator").waitFor();
  await page.keyboard.press("Escape");

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
