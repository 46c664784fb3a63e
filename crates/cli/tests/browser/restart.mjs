// The server is killed and comes back: the page says so, goes on by itself, and shows what happened meanwhile.

import assert from "node:assert/strict";
import { ask, done, enqueue, stage, take, url } from "./stage.mjs";

const state = (page, name) => page.locator(`#live[data-state="${name}"]`).waitFor();

await stage(async (page) => {
  const before = await enqueue("before");
  await page.goto(`${url}/#/jobs`);
  await page.locator(`tr[data-id="${before}"]`).waitFor();
  await state(page, "live");
  await page.evaluate(() => (window.sameDocument = true));

  // While nobody serves, jobs are enqueued at the store itself.
  await ask("kill");
  await page.locator('#live:is([data-state="reconnecting"], [data-state="offline"])').waitFor();
  const meanwhile = (await ask("enqueue")).split(" ");
  assert.equal(meanwhile.length, 3);
  await ask("start");
  await state(page, "live");
  for (const id of [...meanwhile, await enqueue("after")]) await page.locator(`tr[data-id="${id}"]`).waitFor();
  assert.equal(await page.locator("table.jobs tr[data-id]").count(), 5, "each once");
  await page.locator(".problem").waitFor({ state: "detached" });

  // The same for one job: its log goes on where it broke.
  await page.goto(`${url}/#/jobs/${before}`);
  await state(page, "live");
  await page.locator('tr[data-version="1"]').waitFor();
  await ask("kill");
  await page.locator('#live:is([data-state="reconnecting"], [data-state="offline"])').waitFor();
  await ask("start");
  const worker = await take(before);
  await worker.step("one", 1);
  await worker.act("complete", { result: 1 });
  await page.locator('.title [data-status="completed"]').waitFor();
  for (const version of [1, 2, 3, 4, 5]) assert.equal(await page.locator(`.events tr[data-version="${version}"]`).count(), 1);
  assert.equal(await page.evaluate(() => window.sameDocument), true, "it was never loaded again");
}, { allowed: [/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_SOCKET/] });
done();
