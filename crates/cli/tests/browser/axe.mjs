// The checker of accessibility, and how a view is looked at.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const ALL = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] };
export const COLOURS = { type: "rule", values: ["color-contrast"] };

// The checker is put in by the driver, which the policy of the page does not bind.
export const install = (page) => page.evaluate(axe);

// What the checker finds, a line each.
export async function violations(page, runOnly) {
  const { violations } = await page.evaluate((runOnly) => window.axe.run(document, { runOnly, resultTypes: ["violations"] }), runOnly);
  return violations.map((rule) => `${rule.id}, ${rule.nodes.slice(0, 3).map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).join("; ")}`);
}

// What is on the screen can be read by everybody, in both themes, wide and on a phone, and nothing is wider than the screen. With
// PAGE_SHOTS it is also painted into that folder.
export async function isReadable(page, name) {
  const before = page.viewportSize();
  const found = [];
  for (const [width, height, colorScheme, rules] of [[1280, 800, "dark", ALL], [390, 844, "light", ALL], [390, 844, "dark", COLOURS], [1280, 800, "light", COLOURS]]) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    if (!(await page.evaluate(() => "axe" in window))) await install(page);
    found.push(...(await violations(page, rules)).map((text) => `${width} ${colorScheme}: ${text}`));
    const wide = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, document.querySelector("dialog")?.scrollWidth ?? 0));
    if (wide > width) found.push(`${wide} wide on a screen of ${width}`);
    if (process.env.PAGE_SHOTS) await page.screenshot({ path: `${process.env.PAGE_SHOTS}/${name}-${width}-${colorScheme}.png`, fullPage: true, animations: "disabled" });
  }
  await page.setViewportSize(before);
  assert.deepEqual(found, [], name);
}
