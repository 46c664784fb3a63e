// The list: empty at first, then live, filtered, paged.

import assert from "node:assert/strict";
import { done, enqueue, get, post, stage, take, until, url } from "./stage.mjs";

const rows = (page) => page.locator("table.jobs tr[data-id]");
const row = (page, id) => page.locator(`tr[data-id="${id}"]`);
const isLive = (page) => page.locator('#live[data-state="live"]').waitFor();

await stage(async (page) => {
  await page.goto(`${url}/#/jobs`);
  await page.getByText("No jobs yet").waitFor();
  await page.getByText("windlass enqueue report").waitFor();
  await isLive(page);

  // A job is enqueued, taken, reports and ends: the row moves by itself.
  const id = await enqueue("email.send", { queue: "mail", tags: ["shop"] });
  await row(page, id).locator('[data-status="pending"]').waitFor();
  const worker = await take(id);
  await row(page, id).locator('[data-status="running"]').waitFor();
  await worker.act("progress", { progress: 40, stage: "packing" });
  await row(page, id).getByText("packing").waitFor();
  assert.equal(await row(page, id).locator("progress").evaluate((bar) => bar.value), 40);
  await worker.act("complete", { result: 1 });
  await row(page, id).locator('[data-status="completed"]').waitFor();
  await page.getByText("No jobs yet").waitFor({ state: "detached" });

  // Filters: by the keyboard, in the address, and live as well.
  await page.keyboard.press("/");
  await page.locator("#filter:focus").waitFor();
  await page.keyboard.type("colour:red");
  await page.keyboard.press("Enter");
  await page.getByText("there is no filter colour").waitFor();
  await page.locator("#filter").fill("kind:report.build");
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/jobs\?kind=report\.build$/);
  await page.getByText("Nothing matches").waitFor();
  await isLive(page);
  const other = await enqueue("email.send");
  const mine = await enqueue("report.build");
  await row(page, mine).waitFor();
  assert.equal(await row(page, other).count(), 0);
  await page.reload();
  await row(page, mine).waitFor();
  assert.equal(await page.locator("#filter").inputValue(), "kind:report.build");
  assert.equal(await rows(page).count(), 1);
  await page.keyboard.press("/");
  await page.keyboard.press("Escape");
  await page.locator("#filter:focus").waitFor({ state: "detached" });

  // Dead letters come into their list, and leave it when they are sent back.
  await page.goto(`${url}/#/jobs`);
  await page.locator('[data-chip="dead"]').click();
  await page.waitForURL(/dead=true/);
  await page.getByText("No dead letters").waitFor();
  await isLive(page);
  await (await take(mine)).act("fail", { error: { code: "no_mailbox", message: "there is none" }, permanent: true });
  await row(page, mine).getByText("no_mailbox").waitFor();
  await post(`/v1/jobs/${mine}/redrive`);
  await row(page, mine).waitFor({ state: "detached" });

  // Counts and queues stand above.
  await page.goto(`${url}/#/jobs`);
  await until("the counts", async () => /completed\s*1/.test(await page.locator('[data-chip="completed"]').innerText()));
  await page.locator(".queue", { hasText: "mail" }).click();
  await page.waitForURL(/queue=mail/);
  await until("the queue's only job", async () => (await rows(page).count()) === 1);
  assert.equal(await row(page, id).count(), 1);

  // However many there are, few are drawn; every one comes into sight once, and the table says how many there are.
  await post("/v1/jobs/batch", { jobs: Array.from({ length: 700 }, () => ({ kind: "bulk", queue: "bulk" })) });
  await page.goto(`${url}/#/jobs?kind=bulk`);
  await rows(page).first().waitFor();
  const table = page.locator("table.jobs");
  const seen = new Set();
  await until("all of them", async () => {
    const shown = await rows(page).evaluateAll((all) => all.map((el) => el.dataset.id));
    assert.ok(shown.length <= 100, `${shown.length} rows are drawn`);
    shown.forEach((id) => seen.add(id));
    await page.mouse.wheel(0, 600);
    return seen.size === 700 && (await table.getAttribute("aria-rowcount")) === "701";
  });
  await page.getByText("700 jobs").waitFor();
  const last = rows(page).last();
  assert.equal(await last.getAttribute("aria-rowindex"), "701");
  assert.equal(await page.locator("table.jobs [tabindex='0']").count(), 1, "one stop for the tab key");

  // While somebody is further down, what is new gathers, and comes when asked.
  await isLive(page);
  const late = await enqueue("bulk", { queue: "bulk" });
  await page.getByRole("button", { name: "1 new" }).click();
  await row(page, late).waitFor();
  assert.equal(await page.evaluate(() => scrollY), 0);

  // A refusal is shown with its words, and an id leads to its job.
  await page.goto(`${url}/#/jobs?status=nonsense`);
  await page.locator(".problem", { hasText: "nonsense" }).locator("a", { hasText: "invalid" }).waitFor();
  await page.goto(`${url}/#/jobs`);
  await page.locator("#filter").fill(id);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "email.send" }).waitFor();
  // So does a piece of it, like the end that the list shows; one that no id has is told, and one that many have.
  await page.goto(`${url}/#/jobs`);
  await page.locator("#filter").fill("00000000");
  await page.keyboard.press("Enter");
  await page.locator(".wrong", { hasText: "no id of the newest jobs has 00000000" }).waitFor();
  await page.locator("#filter").fill(id.slice(0, 6));
  await page.keyboard.press("Enter");
  await page.locator(".wrong", { hasText: `several ids have ${id.slice(0, 6)}` }).waitFor();
  for (const piece of [id.slice(-8), `…${id.slice(-8)}`, id.slice(-12, -4).toUpperCase(), id.slice(16, 29)]) {
    await page.goto(`${url}/#/jobs`);
    await page.locator("#filter").fill(piece);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "email.send" }).waitFor();
  }
  assert.equal((await get(`/v1/jobs/${id}`)).status, "completed");

  // A word that looks like a piece of an id, and is of none, is a kind; times are seen from now.
  const deed = await enqueue("deed", { delay: "1h" });
  for (const [text, isThere] of [["deed", true], ["kind:deed created_after:-1h", true], ["kind:deed created_before:-1h", false], ["kind:deed created_before:now", true]]) {
    await page.goto(`${url}/#/jobs`);
    await page.locator("#filter").fill(text);
    await page.keyboard.press("Enter");
    await page.waitForURL((to) => to.hash.includes("kind=deed"));
    await (isThere ? row(page, deed) : page.getByText("Nothing matches")).waitFor();
  }

  // A page that nobody sees holds no stream; seen again, it shows what it missed.
  await page.goto(`${url}/#/jobs`);
  await isLive(page);
  const see = (isHidden) => page.evaluate((isHidden) => {
    Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
  const listeners = async () => /^windlass_feed_listeners (\d+)/m.exec(await (await fetch(`${url}/metrics`)).text())[1];
  await see(true);
  await until("the stream has ended", async () => (await listeners()) === "0");
  const unseen = await enqueue("unseen");
  await see(false);
  await row(page, unseen).waitFor();
  await until("it listens again", async () => (await listeners()) === "1");

  // Esc leads back to the list as it was.
  await page.goto(`${url}/#/jobs?queue=mail`);
  await row(page, id).click();
  await page.getByRole("heading", { name: "email.send" }).waitFor();
  await page.keyboard.press("Escape");
  await page.waitForURL(/queue=mail$/);
}, { allowed: [/422 \(Unprocessable/] });
done();
