// Schedules: made with keys, tried before they are put, changed under a version, paused, resumed, run and removed.

import assert from "node:assert/strict";
import { isReadable } from "./axe.mjs";
import { done, get, put, stage, until, url } from "./stage.mjs";

const told = (page, text) => page.locator("#told", { hasText: text }).waitFor();
const field = (page, name) => page.locator(`.editor [name="${name}"]`);
const rows = (page) => page.locator("dialog tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
const slots = (page) => page.locator("dialog .next time").evaluateAll((all) => all.map((time) => time.dateTime));

await stage(async (page) => {
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  await page.goto(`${url}/#/schedules`);
  await page.getByText("No schedules").waitFor();

  // Made with keys alone. What is missing is said, and has the keys.
  await page.getByRole("link", { name: "New schedule" }).focus();
  await press("Enter");
  await page.getByRole("region", { name: "New schedule" }).waitFor();
  assert.match(page.url(), /edit=schedule$/);
  await field(page, "name").focus();
  await press("Enter");
  await page.getByText("Something in it cannot be read").waitFor();
  await until("the first wrong field has the keys", () => field(page, "name").evaluate((input) => input === document.activeElement));
  await isReadable(page, "schedule-wrong");
  await field(page, "name").focus();
  await page.keyboard.type("nightly");
  await press("Tab", "Tab");
  await page.keyboard.type("0 2 * * *");
  await press("Tab");
  await page.keyboard.type("Asia/Kathmandu");
  await field(page, "kind").focus();
  await page.keyboard.type("report.build");
  await press("Tab");
  await page.keyboard.type("reports");
  await field(page, "payload").focus();
  await page.keyboard.type('{"exact": 1.0, "big": 123456789012345678901234567890}');
  await field(page, "overlap").focus();
  await page.keyboard.type("leave");
  await page.getByRole("button", { name: "Review it" }).focus();
  await press("Enter");
  await page.getByRole("dialog", { name: "Make nightly?" }).waitFor();
  assert.deepEqual((await rows(page)).slice(0, 4), [["cron", "–", "0 2 * * *"], ["zone", "–", "Asia/Kathmandu"], ["kind", "–", "report.build"], ["queue", "–", "reports"]]);
  const ahead = await slots(page);
  assert.equal(ahead.length, 5);
  assert.ok(ahead.every((at) => at.endsWith("T20:15:00Z")), `two in the morning there: ${ahead}`);
  await isReadable(page, "schedule-question");
  // No is no.
  await press("Escape");
  assert.deepEqual((await get("/v1/schedules")).schedules, []);
  await page.getByRole("button", { name: "Review it" }).focus();
  await press("Enter");
  await page.getByRole("button", { name: "Make it" }).waitFor();
  await press("Enter");
  await told(page, "nightly is made");
  await page.waitForURL(/#\/schedules\/nightly$/);
  await page.getByRole("heading", { name: "nightly" }).waitFor();
  const raw = await (await fetch(`${url}/v1/schedules/nightly`)).text();
  assert.ok(raw.includes('"exact":1.0'), raw);
  const made = await get("/v1/schedules/nightly");
  assert.deepEqual([made.cron, made.timezone, made.overlap, made.job.kind, made.job.queue, made.next_at], ["0 2 * * *", "Asia/Kathmandu", "skip", "report.build", "reports", ahead[0]]);

  // A second of the same name is refused before anything is asked.
  await page.goto(`${url}/#/schedules?edit=schedule`);
  await field(page, "name").fill("nightly");
  await field(page, "cron").fill("@hourly");
  await field(page, "kind").fill("other");
  await page.getByRole("button", { name: "Review it" }).click();
  await page.locator(".editor .problem", { hasText: "version_mismatch" }).waitFor();
  await field(page, "name").fill("odd");
  await field(page, "cron").fill("0 0 30 2 *");
  await page.getByRole("button", { name: "Review it" }).click();
  await page.locator(".editor .problem", { hasText: "cron" }).waitFor();

  // Changed: before and after, with what the form has no field for kept, digit by digit.
  await put("/v1/schedules/weekly", { cron: "0 5 * * 1", job: { kind: "sum", queue: "reports", timeout: "30s", max_retries: 2, metadata: { owner: "ada" }, backoff: { base: "2s" }, tags: ["slow"] } });
  await page.goto(`${url}/#/schedules/weekly`);
  await page.getByRole("link", { name: "Change" }).focus();
  await press("Enter");
  await page.getByText("Kept as it is: backoff, metadata.").waitFor();
  await isReadable(page, "schedule-editor");
  await page.reload();
  await field(page, "cron").fill("30 6 * * *");
  await field(page, "timeout").fill("1m");
  await page.getByRole("button", { name: "Review the changes" }).click();
  await page.getByRole("dialog", { name: "Change weekly?" }).waitFor();
  assert.deepEqual(await rows(page), [["cron", "0 5 * * 1", "30 6 * * *"], ["timeout", "30s", "1m"]]);
  assert.ok((await slots(page)).every((at) => at.endsWith("T06:30:00Z")));
  await page.getByRole("button", { name: "Change it" }).click();
  await told(page, "weekly is changed");
  const changed = await get("/v1/schedules/weekly");
  assert.deepEqual([changed.cron, changed.job.timeout_ms, changed.job.max_retries, changed.job.metadata, changed.job.backoff.base_ms, changed.job.tags, changed.version], ["30 6 * * *", 60_000, 2, { owner: "ada" }, 2000, ["slow"], 2]);

  // What another changed meanwhile is not written over; the form begins anew with what stands there.
  await page.getByRole("link", { name: "Change" }).click();
  await field(page, "kind").fill("mine");
  await put("/v1/schedules/weekly", { every: "90m", job: { kind: "theirs", queue: "reports" } });
  await page.getByRole("button", { name: "Review the changes" }).click();
  await page.locator(".editor .problem", { hasText: "version_mismatch" }).waitFor();
  await page.getByRole("button", { name: "Begin anew with what stands there" }).click();
  await until("what stands there", async () => (await field(page, "every").count()) === 1 && (await field(page, "every").inputValue()) === "1h30m" && (await field(page, "kind").inputValue()) === "theirs");
  await field(page, "every").fill("2h");
  await page.getByRole("button", { name: "Review the changes" }).click();
  await page.getByRole("button", { name: "Change it" }).click();
  await until("it is changed", async () => (await get("/v1/schedules/weekly")).every === 7200);
  await page.waitForURL((to) => !to.hash.includes("edit="));

  // Paused, run beside its slots, resumed, removed: by keys.
  const act = async (name) => {
    await page.locator(".acts").getByRole("button", { name, exact: true }).focus();
    await press("Enter");
  };
  await act("Pause");
  await told(page, "weekly is paused");
  await page.getByText("nothing fires until it is resumed").waitFor();
  await act("Run now");
  await page.getByRole("dialog", { name: "Run weekly now?" }).waitFor();
  await press("Enter");
  await told(page, "weekly was enqueued");
  assert.equal((await get("/v1/jobs?kind=theirs")).jobs.length, 1);
  await act("Resume");
  await told(page, "weekly goes on");
  await page.locator(".next li").first().waitFor();
  await act("Remove");
  await page.getByRole("dialog", { name: "Remove weekly?" }).waitFor();
  await press("Enter");
  await told(page, "weekly is removed");
  assert.deepEqual((await get("/v1/schedules")).schedules.map(({ name }) => name), ["nightly"]);
}, { allowed: [/404 \(Not Found/, /409 \(Conflict/, /422 \(Unprocessable/] });
done();
