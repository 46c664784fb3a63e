// One job: its timeline, its values, time travel, and everything a person can do to it. Then queues and workers.

import assert from "node:assert/strict";
import { done, enqueue, get, post, put, stage, take, until, url } from "./stage.mjs";

const isNow = (page, status) => page.locator(`.title [data-status="${status}"]`).waitFor();
const confirm = (page, name) => page.locator("dialog").getByRole("button", { name, exact: true }).click();
const told = (page, text) => page.locator("#told", { hasText: text }).waitFor();
const act = (page, name) => page.locator(".acts").getByRole("button", { name, exact: true }).click();

await stage(async (page) => {
  // A job with steps, log lines and a question, which a click answers.
  const id = await enqueue("order.ship", { payload: { order: 7, exact: 1 } });
  let worker = await take(id);
  await worker.step("pack", { boxes: 2 });
  await worker.act("logs", { lines: ["packed two boxes"] });
  await worker.act("progress", { progress: 50, stage: "packed", checkpoint: { at: "dock" }, metadata: { lot: "A" } });
  await worker.act("approvals", { name: "send", prompt: "send order 7?" });
  await page.goto(`${url}/#/jobs/${id}`);
  await isNow(page, "running");
  for (const name of ["attempt 1", "pack", "in line", "from outside"]) await page.locator(".lane-name", { hasText: name }).waitFor();
  await page.locator(".lane.step .span[data-tone=completed]").waitFor();
  await page.getByText("packed two boxes").waitFor();
  await page.locator(".values", { hasText: "dock" }).waitFor();
  await worker.act("wait", { for: "approval", name: "send" });
  await isNow(page, "waiting");
  await page.locator(".blocked", { hasText: "approval send" }).waitFor();
  await page.locator(".lane-name", { hasText: "approval send" }).waitFor();
  await page.locator("#asked", { hasText: "1" }).waitFor();
  await page.locator(".approval").getByRole("button", { name: "Approve" }).click();
  await page.locator("dialog input[name=reason]").fill("looks right");
  await confirm(page, "Approve");
  await told(page, "it is approved");
  await page.locator(".c-says", { hasText: "looks right" }).waitFor();
  worker = await take(id);
  await worker.act("complete", { result: { tracking: 1 } });
  await isNow(page, "completed");
  await page.locator(".lane-name", { hasText: "attempt 2" }).waitFor();
  await page.getByRole("region", { name: "Result" }).getByText("tracking").waitFor();

  // As it stood: by a click on an event, in the address, and back.
  await page.locator('tr[data-version="2"] button').click();
  await page.getByText("as it stood at version 2 of").waitFor();
  await isNow(page, "running");
  assert.match(page.url(), /at=2$/);
  await page.reload();
  await page.getByText("as it stood at version 2 of").waitFor();
  await page.getByRole("button", { name: "back to now" }).click();
  await isNow(page, "completed");
  await page.locator("#at").focus();
  await page.keyboard.press("Home");
  await page.getByText("as it stood at version 1 of").waitFor();
  await isNow(page, "pending");
  await page.getByRole("button", { name: "back to now" }).click();

  // Numbers that JavaScript would round stand as they were sent.
  const exact = '{"big": 123456789012345678901234567890, "one": 1.0}';
  const body = `{"kind": "exact", "payload": ${exact}, "delay": "1h"}`;
  const made = await (await fetch(`${url}/v1/jobs`, { method: "POST", headers: { "content-type": "application/json" }, body })).json();
  await page.goto(`${url}/#/jobs/${made.job.id}`);
  await page.getByRole("region", { name: "Payload" }).getByText("123456789012345678901234567890").waitFor();
  await page.getByRole("region", { name: "Payload" }).getByText("1.0", { exact: true }).waitFor();

  // A fork begins with today's payload, and what is changed in it is sent digit by digit.
  await act(page, "Fork");
  const text = await page.locator("dialog textarea").inputValue();
  await page.locator("dialog textarea").fill(text.replace("1.0", "2.0"));
  await confirm(page, "Fork");
  await page.waitForURL((to) => !to.hash.includes(made.job.id));
  await page.getByRole("region", { name: "Payload" }).getByText("123456789012345678901234567890").waitFor();
  await page.getByRole("region", { name: "Payload" }).getByText("2.0", { exact: true }).waitFor();

  // Cancel asks first, and Esc is no; then redrive, and fork.
  const doomed = await enqueue("report.build", { payload: { n: 1 }, delay: "1h" });
  await page.goto(`${url}/#/jobs/${doomed}`);
  await page.locator(".blocked", { hasText: "not due" }).waitFor();
  const isModal = await page.locator(".acts").getByRole("button", { name: "Cancel", exact: true }).evaluate(async (button) => {
    button.click();
    await Promise.resolve();
    return document.querySelector("dialog")?.matches(":modal");
  });
  assert.ok(isModal, "an Esc that follows at once is the question's");
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal((await get(`/v1/jobs/${doomed}`)).status, "pending");
  await act(page, "Cancel");
  await page.locator("dialog input[name=reason]").fill("not needed");
  await confirm(page, "Cancel the job");
  await told(page, "the job is cancelled");
  await isNow(page, "cancelled");
  await page.locator(".c-says", { hasText: "not needed" }).waitFor();
  await act(page, "Redrive");
  assert.equal(await page.locator("dialog textarea").inputValue(), '{ "n": 1 }', "it begins with today's payload");
  await page.locator("dialog textarea").fill('{ "n": 7 }');
  await confirm(page, "Redrive");
  await told(page, "pending again");
  await isNow(page, "pending");
  await page.locator(".values", { hasText: '"n": 7' }).waitFor();
  await act(page, "Fork");
  assert.equal(await page.locator("dialog textarea").inputValue(), '{ "n": 7 }');
  await page.locator("dialog textarea").fill("{oops");
  await confirm(page, "Fork");
  await page.locator("dialog .problem").waitFor();
  await page.locator("dialog textarea").fill('{"n": 2}');
  await confirm(page, "Fork");
  await page.waitForURL((to) => !to.hash.includes(doomed));
  await page.locator(".values", { hasText: '"n": 2' }).waitFor();

  // What somebody else did meanwhile is refused, in words.
  const gone = await enqueue("report.build");
  await page.goto(`${url}/#/jobs/${gone}`);
  await isNow(page, "pending");
  await act(page, "Cancel");
  await (await take(gone)).act("complete");
  await confirm(page, "Cancel the job");
  await page.locator("dialog .problem", { hasText: "job_finished" }).waitFor();
  await page.keyboard.press("Escape");
  await isNow(page, "completed");

  // Approvals have a page; a denial fails the job.
  const asker = await enqueue("refund");
  const asking = await take(asker);
  await asking.act("approvals", { name: "pay", prompt: "pay it back?" });
  await asking.act("wait", { for: "approval", name: "pay" });
  await page.goto(`${url}/#/approvals`);
  await page.locator(".approval", { hasText: "pay it back?" }).getByRole("button", { name: "Deny" }).click();
  await confirm(page, "Deny");
  await told(page, "it is denied");
  await page.getByText("Nobody waits for you").waitFor();
  await until("the job failed", async () => (await get(`/v1/jobs/${asker}`)).status === "failed");

  // Children and parents lead to one another.
  const parent = await enqueue("order.many");
  const holder = await take(parent);
  const child = (await post("/v1/jobs", { kind: "order.part", parent_id: parent, lease_token: holder.token })).job.id;
  await page.goto(`${url}/#/jobs/${parent}`);
  await page.locator(".children a", { hasText: "order.part" }).click();
  await page.waitForURL((to) => to.hash.includes(child));
  await page.locator("dd a", { hasText: parent.slice(-8) }).click();
  await page.getByRole("heading", { name: "order.many" }).waitFor();

  // Queues pause and go on; workers are listed.
  await put("/v1/workers/w1", { queues: ["default"], kinds: ["order.ship"], capacity: 4 });
  await page.goto(`${url}/#/queues`);
  await page.getByRole("button", { name: "Pause" }).first().click();
  await confirm(page, "Pause");
  await told(page, "is paused");
  await page.getByRole("button", { name: "Resume" }).click();
  await told(page, "goes on");
  await page.goto(`${url}/#/workers`);
  const listed = page.locator("tr", { hasText: "w1" });
  await listed.getByText("live").waitFor();
  // A worker is drained after a question, and let go on without one.
  await listed.getByRole("button", { name: "Drain" }).click();
  await confirm(page, "Drain");
  await told(page, "drains");
  await listed.getByText("draining").waitFor();
  assert.equal((await get("/v1/workers")).workers.find((known) => known.id === "w1").draining, true);
  await listed.getByRole("button", { name: "Take jobs again" }).click();
  await told(page, "takes jobs again");
  await listed.getByText("live").waitFor();
  await page.goto(`${url}/#/jobs/00000000-0000-7000-8000-000000000000`);
  await page.getByText("There is no such job").waitFor();
}, { allowed: [/404 \(Not Found/, /409 \(Conflict/] });
done();
