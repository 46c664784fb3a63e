// Under a path of a proxy: every request stays below it (the stage watches that), and nothing is refused by the policy.

import assert from "node:assert/strict";
import { done, enqueue, stage, take, url } from "./stage.mjs";

await stage(async (page) => {
  const id = await enqueue("order.ship");
  const { act } = await take(id);
  const { link } = await act("approvals", { name: "send", prompt: "send it?" });
  await act("wait", { for: "approval", name: "send" });
  await page.goto(`${url}/`);
  await page.locator('#live[data-state="live"]').waitFor();
  await page.locator(".chart").first().waitFor();
  for (const name of ["Problems", "Queues", "Workers", "Schedules", "Activity", "Settings", "Jobs"]) {
    await page.getByRole("navigation", { name: "pages" }).getByRole("link", { name }).click();
    await page.getByRole("heading", { name, level: 1 }).waitFor();
    await page.locator('#live[data-state="live"]').waitFor();
  }
  await page.locator(`tr[data-id="${id}"]`).click();
  await page.getByRole("heading", { name: "order.ship" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "order.ship" }).waitFor();
  assert.ok(page.url().startsWith(`${url}/#/jobs/`));
  await page.goto(url + link);
  await page.getByRole("button", { name: "Yes", exact: true }).click();
  await page.getByRole("heading", { name: "It is approved" }).waitFor();
});
done();
