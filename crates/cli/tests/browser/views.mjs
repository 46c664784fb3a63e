// Every view, in both themes, on wide screens, phones and at 400 %: what a checker of accessibility finds is nothing, and nothing
// is wider than the screen.

import assert from "node:assert/strict";
import { ALL, COLOURS, install, violations } from "./axe.mjs";
import { done, enqueue, get, post, put, stage, take, until, url } from "./stage.mjs";

// 1280 at 400 % is 320 wide, which is what WCAG asks for.
// Every rule once wide and once narrow, each in one theme; in the other theme only what depends on colour.
const SIZES = [[1280, 800, "dark", ALL], [1280, 800, "light", COLOURS], [390, 844, "dark", COLOURS], [360, 740, "light", ALL], [320, 256, "light", null]];

// What is there once a view has read what it shows.
const READY = { "": ".chart", jobs: "table.jobs tr[data-id], .timeline .span", problems: ".plain-table tbody tr, .message", approvals: ".approval", queues: ".plain-table tbody tr, .chart", kinds: ".plain-table tbody tr, .chart", tail: ".empty, .tail", compare: ".compare", workers: ".plain-table tbody tr, dl", schedules: ".plain-table tbody tr, .next li", activity: ".plain-table tbody tr", settings: "main dl" };

// A bit of everything that the views show.
async function furnish() {
  const shipped = await enqueue("order.ship", { queue: "orders", payload: { order: 7 }, tags: ["shop"] });
  let worker = await take(shipped);
  await worker.step("pack", { boxes: 2 });
  await worker.act("logs", { lines: ["packed two boxes"] });
  await worker.act("progress", { progress: 50, stage: "packed", checkpoint: { at: "dock" } });
  await worker.act("approvals", { name: "send", prompt: "send order 7?" });
  await worker.act("wait", { for: "approval", name: "send" });
  const dead = await enqueue("email.send", { queue: "mail", max_retries: 0 });
  worker = await take(dead);
  await worker.act("fail", { error: { code: "no_mailbox", message: "there is no mailbox 17" }, permanent: true });
  await (await take(await enqueue("email.send", { queue: "mail" }))).act("progress", { progress: 30, stage: "sending" });
  await enqueue("report.build", { queue: "reports" });
  await put("/v1/queues/reports", { max_retries: 3, timeout: "30s" });
  await post("/v1/queues/reports/pause");
  await put("/v1/workers/w1", { queues: ["orders", "mail"], kinds: ["order.ship"], capacity: 4 });
  await put("/v1/schedules/nightly", { cron: "0 2 * * *", timezone: "Europe/Berlin", job: { kind: "report.build", queue: "reports" } });
  await post("/v1/schedules/nightly/trigger");
  await until("the problem is counted", async () => (await get("/v1/problems")).problems.length === 1);
  await until("the kind is counted", async () => (await get("/v1/stats?by=kind&from=-15m")).series.some((one) => one.kind === "email.send"));
  const step = { kind: "step.run", queue: "reports" };
  const flow = await post("/v1/flows", { nodes: { one: step, two: { ...step, after: { one: "success" } }, three: { ...step, after: { one: "failure" } } } });
  return { flow: flow.nodes.two, shipped, dead, problem: (await get("/v1/problems")).problems[0].fingerprint };
}

await stage(async (page) => {
  const { flow, shipped, dead, problem } = await furnish();
  const views = ["#/", "#/jobs", "#/jobs?queue=mail", `#/jobs/${shipped}`, `#/jobs/${shipped}?at=3`, `#/jobs/${dead}`, `#/jobs/${flow}`, "#/problems", `#/problems/${problem}`, "#/approvals", "#/queues", "#/queues/reports", "#/kinds", "#/kinds/email.send", "#/tail", `#/compare?a=${shipped}&b=${dead}&all=true`, "#/workers", "#/workers/w1", "#/schedules", "#/schedules/nightly", "#/activity", "#/settings"];
  const found = [];
  for (const [width, height, colorScheme, rules] of SIZES) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.goto("about:blank");
    await page.goto(`${url}/`);
    await install(page);
    for (const at of views) {
      await page.evaluate((at) => (location.hash = at), at);
      await page.locator(READY[at.split("?")[0].split("/")[1]]).first().waitFor();
      await page.locator('#live[data-state="live"]').waitFor();
      if (rules) found.push(...(await violations(page, rules)).map((text) => `${at} ${width} ${colorScheme}: ${text}`));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      if (wide > width) found.push(`${at} is ${wide} wide on a screen of ${width}`);
    }
  }
  assert.deepEqual(found, []);

  // Times follow the zone that is chosen, also across midnight.
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${url}/#/settings`);
  await page.getByLabel("Zone").fill("Asia/Kathmandu");
  await page.goto(`${url}/#/jobs/${shipped}`);
  const iso = (await get(`/v1/jobs/${shipped}/events`)).events[0].at;
  const there = new Intl.DateTimeFormat("en-GB", { timeZone: "Asia/Kathmandu", hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(new Date(iso));
  await page.locator('tr[data-version="1"] time', { hasText: there }).waitFor();
  await page.reload();
  await page.locator('tr[data-version="1"] time', { hasText: there }).waitFor();
});
done();
