// Without a mouse: find, go, filter, walk through rows, select, act on many, decide, look through a chart.

import assert from "node:assert/strict";
import { done, enqueue, get, post, stage, take, until, url } from "./stage.mjs";

const heading = (page, name) => page.getByRole("heading", { name, level: 1, exact: true }).waitFor();
const focused = (page) => page.evaluate(() => document.activeElement.closest("tr")?.dataset.id);

// A job that is dead.
async function killed(n) {
  const id = await enqueue("email.send", { queue: "mail", max_retries: 0 });
  await (await take(id)).act("fail", { error: { code: "no_mailbox", message: `there is no mailbox ${n}` }, permanent: true });
  return id;
}

await stage(async (page) => {
  const dead = [];
  for (let n = 0; n < 5; n += 1) dead.push(await killed(n));
  const [oldest, , , , newest] = dead;
  await page.goto(url);
  await page.getByRole("heading", { name: "Overview" }).waitFor({ state: "attached" });

  // g and a letter goes; ? tells which.
  for (const [key, name] of [["q", "Queues"], ["w", "Workers"], ["s", "Schedules"], ["c", "Activity"], ["p", "Problems"], ["a", "Approvals"], ["e", "Settings"], ["j", "Jobs"]]) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await heading(page, name);
  }
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "keys" }).waitFor({ state: "detached" });

  // What opens has the keys with the next one, however fast they come.
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  await heading(page, "Queues");
  for (const key of ["?", "k"]) {
    const has = await page.evaluate(async (key) => {
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key, ctrlKey: key === "k", bubbles: true }));
      await Promise.resolve();
      return document.querySelector("dialog")?.matches(":modal");
    }, key);
    assert.ok(has, `${key} opens before the next key`);
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
  }
  await page.keyboard.press("/");
  await heading(page, "Jobs");
  await until("the filter has the keys", () => page.evaluate(() => document.activeElement?.id === "filter"));
  await page.keyboard.press("Escape");

  // The palette finds pages, queues and jobs.
  await page.keyboard.press("Control+k");
  await page.keyboard.type("mail");
  await page.getByRole("option", { name: "mail queue" }).waitFor();
  await page.keyboard.press("Enter");
  await heading(page, "mail");
  await page.keyboard.press("Control+k");
  await page.keyboard.type(newest);
  await page.keyboard.press("Enter");
  await heading(page, "email.send");
  await page.keyboard.press("Escape");
  await heading(page, "Jobs");

  // Rows: one stop for the tab key, arrows inside, Enter opens, Esc comes back.
  await page.goto(`${url}/#/jobs?dead=true`);
  await page.locator(`tr[data-id="${newest}"]`).waitFor();
  await page.locator("thead input").focus();
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), newest);
  await page.keyboard.press("End");
  await until("the last row has the focus", async () => (await focused(page)) === oldest);
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowDown");
  await until("the second row has the focus", async () => (await focused(page)) === dead[3]);
  await page.keyboard.press("Enter");
  await heading(page, "email.send");
  await page.keyboard.press("Escape");
  await page.waitForURL(/dead=true$/);

  // Two are selected and sent back; the others stay.
  await page.locator(`tr[data-id="${newest}"]`).focus();
  await page.keyboard.press("Space");
  await page.keyboard.press("ArrowDown");
  await until("the second row has the focus", async () => (await focused(page)) === dead[3]);
  await page.keyboard.press("x");
  await page.getByText("2 jobs selected").waitFor();
  await page.getByRole("button", { name: "Redrive", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Redrive 2 jobs?" }).getByRole("button", { name: "Redrive" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("#told", { hasText: "2 redriven" }).waitFor();
  const statuses = await Promise.all(dead.map(async (id) => (await get(`/v1/jobs/${id}`)).status));
  assert.deepEqual(statuses, ["failed", "failed", "failed", "pending", "pending"]);

  // Everything that matches: first how many that are, then it is done.
  await page.getByRole("button", { name: "Redrive all …" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByText("3 jobs would be redriven").waitFor();
  await page.keyboard.press("Escape");
  assert.equal((await get("/v1/jobs?dead=true")).jobs.length, 3, "looking changes nothing");
  // Taken back within ten seconds, every job is as it was.
  const before = (await get("/v1/jobs?dead=true")).jobs.map(({ id, version }) => [id, version]);
  await page.getByRole("button", { name: "Redrive all …" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByText("3 jobs would be redriven").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Redrive" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Undo" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("#told", { hasText: "stopped: every job is as it was" }).waitFor();
  assert.equal((await get("/v1/operations")).operations[0].phase, "stopped");
  assert.deepEqual((await get("/v1/jobs?dead=true")).jobs.map(({ id, version }) => [id, version]), before);
  await page.getByRole("button", { name: "Redrive all …" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByText("3 jobs would be redriven").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Redrive" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("#told", { hasText: "3 redriven" }).waitFor();
  await until("none is dead", async () => (await get("/v1/jobs?dead=true")).jobs.length === 0);

  // A problem is one row, whatever numbers its messages hold; resolved, it leaves the list.
  await until("five errors of one problem", async () => (await get("/v1/problems")).problems[0]?.errors === 5);
  await page.goto(`${url}/#/problems`);
  await until("one row", async () => (await page.locator(".plain-table tbody tr").count()) === 1);
  await page.locator("td", { hasText: /^5$/ }).first().waitFor();
  await page.getByRole("button", { name: "Resolve" }).focus();
  await page.keyboard.press("Enter");
  await page.getByText("Nothing fails").waitFor();
  assert.equal((await get("/v1/problems?state=resolved")).problems.length, 1);

  // A question is answered with a key.
  const worker = await take(await enqueue("refund"));
  await worker.act("approvals", { name: "pay", prompt: "pay it back?" });
  await worker.act("wait", { for: "approval", name: "pay" });
  await page.goto(`${url}/#/approvals`);
  await page.locator(".approval", { hasText: "pay it back?" }).waitFor();
  await page.keyboard.press("a");
  await page.getByRole("dialog", { name: "Approve?" }).waitFor();
  await page.keyboard.type("fine");
  await page.keyboard.press("Enter");
  await page.locator("#told", { hasText: "it is approved" }).waitFor();

  // A chart: arrows move through time, plus zooms, and the address says so; a reload shows the same.
  await page.goto(`${url}/#/?from=-3h`);
  const plot = page.getByRole("group", { name: /^Throughput/ });
  await plot.focus();
  await page.keyboard.press("ArrowLeft");
  await page.locator(".cross").first().waitFor();
  assert.equal(await page.locator(".cross").count(), 4, "all charts point at the same time");
  await page.keyboard.press("+");
  await page.waitForURL(/from=20/);
  const zoomed = page.url();
  await page.reload();
  await page.getByRole("group", { name: /^Throughput/ }).waitFor();
  assert.equal(page.url(), zoomed);

  // A queue that nobody serves is named on the first page, with what helps.
  await post("/v1/jobs", { kind: "image.resize", queue: "media" });
  await page.goto(url);
  await page.getByRole("heading", { name: /^Nobody works on/ }).waitFor();
  await page.locator(".state code", { hasText: "windlass work --queue" }).waitFor();
});
done();
