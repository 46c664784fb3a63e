// What every play needs: a browser, a page that is watched for errors, and the API beside it.

import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const ARGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
// Generous: the machine may be busy with every other test.
const PATIENCE_MS = 60_000;

export const url = process.env.PAGE_URL;

// Runs `play` with a page. Afterwards nothing may have gone wrong in it, but for what `allowed` names.
export async function stage(play, { allowed = [], ...options } = {}) {
  const root = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const executablePath = process.env.PAGE_CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: [...ARGS, ...root] });
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "dark", ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    // PAGE_SLOW=10 plays as on a processor ten times slower: what a play does too early shows there.
    const rate = Number(process.env.PAGE_SLOW ?? 1);
    if (rate > 1) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate });
    const wrong = [];
    page.on("pageerror", (error) => wrong.push(`error: ${error.stack}`));
    page.on("console", (message) => message.type() === "error" && wrong.push(`console: ${message.text()}`));
    page.on("dialog", (dialog) => (wrong.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
    page.on("request", (request) => request.url().startsWith(url) || wrong.push(`elsewhere: ${request.url()}`));
    await page.addInitScript(() => addEventListener("securitypolicyviolation", (event) => console.error("policy", event.violatedDirective, event.blockedURI)));
    await play(page, context).catch(async (error) => {
      // What somebody would have seen there.
      const seen = await page.evaluate(() => `${location.hash}, keys go to ${document.activeElement?.outerHTML.slice(0, 200)}\n${document.body.innerText.slice(0, 3000)}`).catch(String);
      console.error(`the play stopped at ${seen}\nand went wrong before: ${JSON.stringify(wrong)}`);
      throw error;
    });
    assert.deepEqual(wrong.filter((text) => !allowed.some((pattern) => pattern.test(text))), []);
  } finally {
    await browser.close();
  }
}

// Waits until something is so, and says what when it does not come.
export async function until(what, isSo) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    if (await isSo()) return;
    assert.ok(Date.now() < end, `it did not come: ${what}`);
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

async function call(method, path, body) {
  const response = await fetch(url + path, { method, headers: body && { "content-type": "application/json" }, body: body && JSON.stringify(body) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);
export const put = (path, body) => call("PUT", path, body);
export const enqueue = async (kind, more = {}) => (await post("/v1/jobs", { kind, ...more })).job.id;

// Takes one job, as a worker would.
export async function take(id) {
  const { job } = await post(`/v1/jobs/${id}/claim`, { worker_id: "w1", lease: "1h" });
  const token = job.lease.token;
  const act = (verb, body = {}) => post(`/v1/jobs/${id}/${verb}`, { lease_token: token, ...body });
  const step = async (name, value) => {
    await put(`/v1/jobs/${id}/steps/${name}`, { lease_token: token, status: "started" });
    await put(`/v1/jobs/${id}/steps/${name}`, { lease_token: token, status: "finished", value });
  };
  return { token, act, step };
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// Asks whoever started this play to do something, and waits until it is done.
export async function ask(what) {
  console.log(`ask ${what}`);
  return (await lines.next()).value;
}

export const done = () => process.stdin.destroy();
