/** What every scenario starts from, and what it may never do. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { DESK, launched, ORIGIN, ORIGIN_WITH_KEY, ORIGIN_WITH_LIMIT } from "./browser.js";

const ORIGINS = [ORIGIN, ORIGIN_WITH_KEY, ORIGIN_WITH_LIMIT];

/** @typedef {import("playwright-core").Page} Page */

/** @type {import("playwright-core").Browser} */
let browser;
/** The page of the scenario before, unless that failed. @type {Page | undefined} */
let left;
before(async () => {
  browser = await launched();
});
after(() => browser?.close());

/**
 * A scenario in an empty page. Whatever else it shows, it fails by an error on the console, and by
 * a request that leaves the origin.
 * @param {string} name
 * @param {(page: Page) => Promise<void>} act
 * @param {{ viewport?: import("playwright-core").ViewportSize, colorScheme?: "dark" }} [options]
 */
export function scenario(name, act, { viewport = DESK, colorScheme } = {}) {
  test(name, async () => {
    const page = left ?? (await fresh());
    left = undefined;
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme: colorScheme ?? "light", media: null });
    /** @type {string[]} */
    const wrong = [];
    page.on("pageerror", (error) => wrong.push(String(error)));
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type()) && !isRefusal(message))
        wrong.push(message.text());
    });
    page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      const ours = ORIGINS.includes(origin) || ["blob:", "data:"].includes(protocol);
      if (!ours) wrong.push(`left for ${request.url()}`);
    });
    try {
      await act(page);
      assert.deepEqual(wrong, []);
    } catch (error) {
      await page.context().close();
      throw error;
    }
    left = await emptied(page);
  });
}

/** What is waited for is seconds away, but for a machine on which much else runs. */
const PATIENCE_MS = 60_000;

/** A page in a profile of its own. @returns {Promise<Page>} */
async function fresh() {
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE_MS);
  return context.newPage();
}

/**
 * A page that is left for the next scenario, as a new one takes a process of the browser and the
 * third of a second. What the page keeps in a browser is forgotten.
 * @param {Page} page
 */
async function emptied(page) {
  for (const event of ["console", "pageerror", "request"]) page.removeAllListeners(event);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  for (const other of page.context().pages()) if (other !== page) await other.close();
  if (page.url().startsWith("http")) await page.evaluate(() => localStorage.clear());
  await page.goto("about:blank");
  return page;
}

/**
 * The browser logs every 4xx and 5xx, and what it cannot reach; a question that is refused, or not
 * taken for now, is one.
 * @param {import("playwright-core").ConsoleMessage} message
 */
function isRefusal(message) {
  const refused = /status of (4\d\d|503)|ERR_INTERNET_DISCONNECTED/.test(message.text());
  return refused && message.location().url.includes("/v1/");
}
