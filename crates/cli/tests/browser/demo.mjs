// The demo, as a newcomer sees it first; the picture of it is the one in the README.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { done, enqueue, get, post, stage, until, url } from "./stage.mjs";

const path = process.env.PAGE_PICTURE;
// A picture for people shows every kind of thing; a check needs only some.
const isForPeople = process.env.BLESS !== undefined;

// What a visitor does: a mail that cannot be read dies, one is for later, one is taken back.
async function visit() {
  await enqueue("email.send", { queue: "mail", tags: ["shop"], payload: { to: 7 } });
  await enqueue("newsletter.send", { queue: "mail", tags: ["shop"], delay: "1h" });
  await post(`/v1/jobs/${await enqueue("report.build", { queue: "reports", delay: "1h" })}/cancel`, { reason: "not needed" });
  await until("a dead letter", async () => (await get("/v1/jobs?dead=true")).jobs.length > 0);
}

// One per page of the document about the page; in turn dark and light.
async function pictures(page) {
  const waiting = (await get("/v1/jobs?status=waiting&limit=1")).jobs[0].id;
  const problem = (await get("/v1/problems")).problems[0].fingerprint;
  const views = [["jobs", "#/jobs"], ["job", `#/jobs/${waiting}`], ["problems", "#/problems"], ["problem", `#/problems/${problem}`], ["approvals", "#/approvals"], ["queue", "#/queues/orders?from=-15m"], ["workers", "#/workers"], ["schedule", "#/schedules/reports"], ["activity", "#/activity"], ["settings", "#/settings"]];
  await page.setViewportSize({ width: 1280, height: 620 });
  for (const [n, [name, at]] of views.entries()) {
    await page.emulateMedia({ colorScheme: n % 2 ? "dark" : "light" });
    await page.goto(`${url}/${at}`);
    await page.locator('#live[data-state="live"]').waitFor();
    await page.locator("main .panel, main table, main .approval").first().waitFor();
    await page.waitForTimeout(500);
    await page.screenshot({ path: `${process.env.PAGE_PICTURES}/${name}.png`, animations: "disabled" });
  }
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto(`${url}/`);
  await page.locator(".chart .line").first().waitFor();
  await page.screenshot({ path: `${process.env.PAGE_PICTURES}/phone.png`, animations: "disabled" });
  await page.setViewportSize({ width: 1280, height: 800 });
}

await stage(async (page, context) => {
  const found = async (query) => (await get(`/v1/jobs?${query}`)).jobs.length;
  await until("work that moves", async () => (await found("status=completed&limit=1000")) >= (isForPeople ? 90 : 3));
  if (isForPeople) await visit();
  await page.goto(url);
  await page.locator('#live[data-state="live"]').waitFor();
  await page.locator(".state h2").waitFor();
  await page.locator("#asked", { hasText: /\d/ }).waitFor();
  await until("four charts", async () => (await page.locator(".chart").count()) === 4);
  await page.getByRole("region", { name: "Problems" }).locator("li").first().waitFor();
  await page.getByRole("region", { name: "Needs a person" }).locator("li").first().waitFor();
  // The list of the same shop.
  await page.goto(`${url}/#/jobs`);
  await page.locator(".queue").nth(2).waitFor();
  await page.locator('[data-chip="completed"] b').waitFor();
  await until("rows", async () => (await page.locator("table.jobs tr[data-id]").count()) >= 6);
  await page.goto(`${url}/#/?from=-15m`);
  await page.locator(".chart .line").first().waitFor();
  await page.getByRole("region", { name: "Needs a person" }).waitFor();
  await page.screenshot({ path, animations: "disabled" });

  if (isForPeople) await pictures(page);

  // It is a picture of something: many colours, and not too heavy.
  const bytes = await readFile(path);
  assert.ok(bytes.length > 10_000 && bytes.length < 300_000, `${bytes.length} bytes`);
  const blank = await context.newPage();
  const colours = await blank.evaluate(async (base64) => {
    const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${base64}`)).blob());
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const brush = canvas.getContext("2d");
    brush.drawImage(picture, 0, 0);
    return [picture.width, picture.height, new Set(new Uint32Array(brush.getImageData(0, 0, picture.width, picture.height).data.buffer)).size];
  }, bytes.toString("base64"));
  assert.deepEqual(colours.slice(0, 2), [1280, 800]);
  assert.ok(colours[2] > 100, `${colours[2]} colours`);
});
done();
