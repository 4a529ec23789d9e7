/** What axe-core finds on a page. */

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** What is asked of it: nothing about what it finds in order, and no selectors. */
const OPTIONS = { resultTypes: ["violations"], selectors: false };

/** Serious and critical ones. @param {import("playwright-core").Page} page */
export async function violations(page) {
  await page.evaluate(await readFile(AXE, "utf8"));
  const { violations } = await page.evaluate(
    (options) => /** @type {any} */ (window).axe.run(options),
    OPTIONS,
  );
  return violations
    .filter((/** @type {any} */ each) => ["serious", "critical"].includes(each.impact))
    .map(
      (/** @type {any} */ each) =>
        `${each.id}: ${each.nodes
          .map((/** @type {any} */ node) => node.html)
          .slice(0, 3)
          .join(" ")}`,
    );
}
