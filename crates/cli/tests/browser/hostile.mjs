// Text that would be a program if anything read it as HTML, everywhere a caller can put text. And narrow screens.

import assert from "node:assert/strict";
import { done, enqueue, post, stage, take, url } from "./stage.mjs";

const EVIL = `"'></script><script>window.hurt=1;alert(1)</script><img src=x onerror="window.hurt=1;fetch('/hurt')"><svg onload=alert(1)>javascript:alert(1)`;
// Turns the direction of writing, is not seen, and commands terminals.
const TURNED = "exe.\u202egpj\u200b\u009b2J";
const LONG = "a".repeat(300);

await stage(async (page) => {
  const id = await enqueue("evil", { payload: { [EVIL]: EVIL, long: "b".repeat(900_000) }, metadata: { [EVIL]: [EVIL] }, agent_id: "agent", tags: ["t".repeat(128)] });
  let worker = await take(id);
  await worker.act("progress", { progress: 10, stage: EVIL, checkpoint: [EVIL, TURNED] });
  await worker.act("logs", { lines: [EVIL, LONG, TURNED] });
  await worker.step("s".repeat(128), EVIL);
  await post(`/v1/jobs/${id}/events`, { type: "note", payload: { said: EVIL, turned: TURNED } });
  await worker.act("approvals", { name: "ok", prompt: EVIL });
  await worker.act("fail", { error: { code: "bad", message: EVIL }, delay: "0s" });
  worker = await take(id);
  await worker.act("wait", { for: "approval", name: "ok" });
  await post(`/v1/jobs/${await enqueue("evil.cancelled")}/cancel`, { reason: EVIL });

  const pages = ["#/", "#/jobs", "#/problems", "#/approvals", "#/queues", "#/queues/default", "#/workers", "#/schedules", "#/activity", "#/settings", `#/jobs/${id}`, `#/jobs/${id}?at=3`, `#/jobs?kind=${encodeURIComponent(EVIL)}`, `#/jobs?agent_id=${encodeURIComponent(EVIL)}`];
  for (const width of [1280, 360]) {
    await page.setViewportSize({ width, height: 800 });
    for (const at of pages) {
      await page.goto("about:blank");
      await page.goto(`${url}/${at}`);
      await page.locator('#live[data-state="live"], .problem').first().waitFor();
      if (at.startsWith("#/jobs/")) {
        await page.locator(".lines", { hasText: "window.hurt" }).waitFor();
        await page.locator(".values", { hasText: "window.hurt" }).waitFor();
        const closed = page.locator("details:not([open]) summary");
        while (await closed.count()) await closed.first().click();
        await page.locator("details .json", { hasText: "window.hurt" }).first().waitFor();
      }
      if (at === "#/approvals") await page.locator(".prompt", { hasText: "window.hurt" }).waitFor();
      assert.deepEqual(await page.evaluate(() => [window.hurt, document.querySelectorAll("main script, main img").length]), [undefined, 0], at);
      const shown = await page.evaluate(() => document.body.innerText);
      assert.ok(!/[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u0080-\u009f\u001b]/u.test(shown), `${at} shows what hides`);
      const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= seen, `${at} is ${wide} wide on a screen of ${seen}`);
      // No word of a table is broken into a column of letters.
      const thin = await page.evaluate(() => [...document.querySelectorAll(".plain-table td, .plain-table th")].filter((cell) => cell.offsetHeight > 150).length);
      assert.equal(thin, 0, `${at} squeezes its table`);
    }
  }

  // A payload of nearly a mebibyte is folded until somebody wants it.
  await page.goto("about:blank");
  await page.goto(`${url}/#/jobs/${id}`);
  const payload = page.getByRole("region", { name: "Payload" });
  await payload.getByText("window.hurt").first().waitFor();
  assert.ok((await payload.textContent()).length < 6_000);
  await payload.getByRole("button", { name: "show all" }).click();
  assert.ok((await payload.textContent()).length > 900_000);
  assert.equal(await page.evaluate(() => window.hurt), undefined);
}, { allowed: [/422 \(Unprocessable/] });
done();
