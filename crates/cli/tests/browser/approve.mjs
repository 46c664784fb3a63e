// An approval link on a phone, signed out: one question, an answer, and what it says the second time.

import assert from "node:assert/strict";
import { done, enqueue, post, stage, take, url } from "./stage.mjs";

async function asked(name, prompt, more = {}) {
  const id = await enqueue("report", { max_retries: 0 });
  const { act } = await take(id);
  const { link } = await act("approvals", { name, prompt, ...more });
  return { id, link, act, wait: () => act("wait", { for: "approval", name }) };
}

await stage(async (page, context) => {
  const yes = await asked("send", "Send the report to 1,200 customers?\nIt cannot be taken back.");
  const no = await asked("pay", "<b>Pay 12 €?</b>");
  // Nothing shows who uses a link: it has no vote where two people, or certain ones, have to say yes.
  const two = await asked("both", "Is it safe?", { required: 2 });
  const named = await asked("named", "Is it paid?", { approvers: ["boss"] });
  assert.deepEqual([two.link, named.link], [null, null]);
  const replaced = await asked("again", "Again?");
  await replaced.act("approvals", { name: "again", prompt: "Again?" });
  for (const { wait } of [yes, no]) await wait();
  // From here on the server asks for keys, and nobody here has one.
  await post("/v1/keys", { name: "root", roles: ["admin"] });

  const open = async ({ link }) => {
    await page.goto("about:blank");
    await page.goto(url + link);
  };
  await open(yes);
  await page.getByRole("heading", { name: "Send the report to 1,200 customers?" }).waitFor();
  await page.getByText("No answer means no, in 2").waitFor();
  const fits = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  assert.ok(fits, "it fits a phone");
  for (const name of ["Yes", "No"]) {
    const box = await page.getByRole("button", { name, exact: true }).boundingBox();
    assert.ok(box.height >= 44 && box.y + box.height < 700, `${name} is large enough for a thumb, and in sight: ${JSON.stringify(box)}`);
  }
  if (process.env.PAGE_PICTURE) await page.screenshot({ path: process.env.PAGE_PICTURE });
  await page.getByLabel("Why, if you like").fill("checked");
  await page.getByRole("button", { name: "Yes", exact: true }).click();
  await page.getByRole("heading", { name: "It is approved" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "It is approved" }).waitFor();

  await open(no);
  await page.getByRole("heading", { name: "<b>Pay 12 €?</b>" }).waitFor();
  await page.getByRole("button", { name: "No", exact: true }).click();
  await page.getByRole("heading", { name: "It is denied" }).waitFor();

  await open(replaced);
  await page.getByRole("heading", { name: "This link was replaced" }).waitFor();
  await open({ link: yes.link.slice(0, -5) });
  await page.getByRole("heading", { name: "This link is not whole" }).waitFor();
  assert.deepEqual(await context.cookies(), [], "nobody was signed in");
}, { viewport: { width: 390, height: 800 }, allowed: [/40[34] \(/, /422 \(/] });
done();
