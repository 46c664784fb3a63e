// Kinds, Tail, Compare and flows: is a kind sick, what happens right now, why this one and not that one, who waits for whom.

import assert from "node:assert/strict";
import { done, enqueue, get, post, stage, take, until, url } from "./stage.mjs";

const fail = { error: { code: "no_mailbox", message: "there is no mailbox 17" }, permanent: true };

await stage(async (page) => {
  // Two jobs of one kind: one is quick, the other is given something else, takes a step more and fails.
  const good = await enqueue("email.send", { queue: "mail", payload: { to: "ann", lines: 3 } });
  let worker = await take(good);
  await worker.step("render", { bytes: 10 });
  await worker.act("complete", { result: { sent: true } });
  const bad = await enqueue("email.send", { queue: "mail", max_retries: 0, payload: { to: "bob", lines: 3 } });
  worker = await take(bad);
  await worker.step("render", { bytes: 10 });
  await worker.step("connect", { host: "mx" });
  await worker.act("fail", fail);
  await until("both are counted", async () => (await get("/v1/stats?by=kind&from=-15m")).series.some((one) => ["failed", "completed"].every((end) => one.points.some((point) => point.counts[end]))));

  // Kinds: one of two ended well. A range that is not "until now" also shows the minute that is not over.
  const minutes = (n) => new Date(Date.now() + n * 60_000).toISOString();
  await page.goto(`${url}/#/kinds?from=${minutes(-15)}&to=${minutes(1)}`);
  const row = page.locator(".plain-table tbody tr", { hasText: "email.send" });
  await row.waitFor();
  assert.match(await row.innerText(), /50\.0 %/);
  await row.getByRole("link", { name: "email.send" }).click();
  await page.locator(".heat").first().waitFor();
  assert.equal(await page.locator(".tile", { hasText: "succeeds" }).locator("b").innerText(), "50.0 %");
  assert.match(page.url(), /#\/kinds\/email\.send\?from=2.*&to=2/, "the range is kept");
  // Only what completed can be slow.
  await page.locator("section[aria-label=Slowest] tbody tr").waitFor();
  assert.equal(await page.locator("section[aria-label=Slowest] tbody tr").count(), 1);

  // Compare: only what differs, unless asked; by the short ends that lists show.
  await page.goto(`${url}/#/compare`);
  await page.getByLabel("job A").fill(good.slice(-8));
  await page.getByLabel("job B").fill(bad);
  await page.getByRole("button", { name: "Compare" }).click();
  const part = (name) => page.locator(`section[aria-label=${name}]`);
  await part("Payload").locator("tbody tr").waitFor();
  assert.deepEqual(await part("Payload").locator("tbody th").allInnerTexts(), ["to"], "lines are alike");
  assert.match(await part("Facts").innerText(), /status\s+completed\s+failed/);
  assert.match(await part("Facts").innerText(), /no_mailbox/);
  assert.match(await part("Steps").innerText(), /connect\s+not there/);
  assert.doesNotMatch(await part("Facts").innerText(), /\bqueue\b/);
  await page.getByRole("button", { name: "Show all" }).click();
  assert.match(await part("Facts").innerText(), /\bqueue\s+mail\s+mail/);
  await page.reload();
  await part("Payload").locator("tbody tr").waitFor();
  assert.match(await part("Facts").innerText(), /\bqueue\s+mail\s+mail/, "the address holds it");
  // One job at two versions.
  await page.goto(`${url}/#/compare?a=${bad}@2&b=${bad}`);
  await part("Facts").locator("tbody tr").first().waitFor();
  assert.match(await part("Facts").innerText(), /status\s+running\s+failed/);
  // What is no id says so.
  await page.goto(`${url}/#/compare?a=nobody&b=${bad}`);
  await page.getByText("Name two jobs").waitFor();

  // Tail: what happens shows up, newest first; held, it waits behind a button; filters stand in the address.
  await page.goto(`${url}/#/tail?queue=mail`);
  await page.locator('#live[data-state="live"]').waitFor();
  const seen = await enqueue("email.send", { queue: "mail" });
  const elsewhere = await enqueue("report.build", { queue: "reports" });
  const line = (id) => page.locator("table.tail tbody tr", { hasText: id.slice(-8) });
  await line(seen).first().waitFor();
  await page.getByRole("button", { name: "Hold" }).click();
  const later = await enqueue("email.send", { queue: "mail" });
  await page.getByRole("button", { name: "Go on, 1 new" }).waitFor();
  assert.equal(await line(later).count(), 0, "it is held");
  await page.getByRole("button", { name: "Go on, 1 new" }).click();
  await line(later).first().waitFor();
  assert.equal(await page.locator("table.tail tbody tr").first().getByRole("link").first().innerText(), later.slice(-8), "newest first");
  assert.equal(await line(elsewhere).count(), 0, "another queue's is left out");
  await page.getByLabel("type").fill("job_cancelled");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.locator('#live[data-state="live"]').waitFor();
  await page.getByText("Nothing has happened yet").waitFor();
  await until("the stream of the new filter tells", async () => {
    const gone = await enqueue("email.send", { queue: "mail" });
    await post(`/v1/jobs/${gone}/cancel`, { reason: "not needed" });
    return (await page.locator("table.tail tbody tr").count()) > 0;
  });
  assert.deepEqual([...new Set(await page.locator("table.tail tbody tr td:nth-child(5)").allInnerTexts())], ["job_cancelled"]);

  // A flow: who waits for whom, and where each stands; another end than was waited for shows as skipped.
  const node = { kind: "step.run", queue: "flows" };
  const flow = await post("/v1/flows", { nodes: { fetch: node, parse: { ...node, after: { fetch: "success" } }, alert: { ...node, after: { parse: "failure" } }, index: { ...node, after: { parse: "success" } } } });
  await page.goto(`${url}/#/jobs/${flow.nodes.parse}`);
  const box = (name) => page.locator(".flow-box", { hasText: name });
  await box("parse").waitFor();
  assert.equal(await page.locator(".flow-box").count(), 4);
  assert.equal(await page.locator(".flow-room > svg path").count(), 3);
  assert.equal(await box("parse").getAttribute("aria-current"), "true");
  assert.match(await box("parse").innerText(), /waiting/);
  assert.match(await box("alert").innerText(), /on failure/);
  await (await take(flow.nodes.fetch)).act("complete");
  await (await take(flow.nodes.parse)).act("complete");
  await page.locator(".flow-box", { hasText: "alert" }).filter({ hasText: "skipped" }).waitFor();
  await page.locator("section[aria-label=Flow]", { hasText: "3 of 4 jobs ended" }).waitFor();
  await box("fetch").click();
  await page.locator("h1", { hasText: "step.run" }).waitFor();
  assert.match(page.url(), new RegExp(flow.nodes.fetch));

  // By keys, from anywhere.
  await page.keyboard.press("Escape");
  await page.locator("h1").click();
  await page.keyboard.press("g");
  await page.keyboard.press("k");
  await page.locator("h1", { hasText: "Kinds" }).waitFor();
});
done();
