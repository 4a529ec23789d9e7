/** What every scenario starts from, and what it may never do. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launched, ORIGIN, ORIGIN_WITH_KEY, ORIGIN_WITH_LIMIT } from "./browser.js";

const ORIGINS = [ORIGIN, ORIGIN_WITH_KEY, ORIGIN_WITH_LIMIT];

/** @type {import("playwright-core").Browser} */
let browser;
before(async () => {
  browser = await launched();
});
after(() => browser?.close());

/**
 * A scenario in a fresh profile. Whatever else it shows, it fails by an error on the console, and
 * by a request that leaves the origin.
 * @param {string} name
 * @param {(page: import("playwright-core").Page) => Promise<void>} act
 * @param {import("playwright-core").BrowserContextOptions} [options]
 */
export function scenario(name, act, options = {}) {
  test(name, async () => {
    const context = await browser.newContext({
      viewport: { width: 1360, height: 900 },
      ...options,
    });
    context.setDefaultTimeout(15_000);
    const page = await context.newPage();
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
    } finally {
      await context.close();
    }
  });
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
