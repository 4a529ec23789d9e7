/** Debian's Chromium with the page of a running service: what every scenario starts from. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Where the service listens. */
export const ORIGIN = process.env.PAGE_ORIGIN ?? "";

/** @type {import("playwright-core").Browser} */
let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
});
after(() => browser.close());

/**
 * A scenario in a fresh profile. Whatever else it shows, it fails by an error on the console, and by
 * a request that leaves the origin.
 * @param {string} name
 * @param {(page: import("playwright-core").Page) => Promise<void>} act
 * @param {import("playwright-core").BrowserContextOptions} [options]
 */
export function scenario(name, act, options = {}) {
  test(name, async () => {
    const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, ...options });
    context.setDefaultTimeout(15_000);
    const page = await context.newPage();
    /** @type {string[]} */
    const wrong = [];
    page.on("pageerror", (error) => wrong.push(String(error)));
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type()) && !isRefusal(message)) wrong.push(message.text());
    });
    page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== ORIGIN && !["blob:", "data:"].includes(protocol)) wrong.push(`left for ${request.url()}`);
    });
    try {
      await act(page);
      assert.deepEqual(wrong, []);
    } finally {
      await context.close();
    }
  });
}

/** The browser logs every 4xx; a refused question is one. @param {import("playwright-core").ConsoleMessage} message */
function isRefusal(message) {
  return /status of 4\d\d/.test(message.text()) && message.location().url.includes("/v1/");
}

/**
 * Opens the page and waits for its first answer.
 * @param {import("playwright-core").Page} page
 * @param {string} [address] what follows the #
 */
export async function open(page, address = "") {
  await page.goto(`${ORIGIN}/${address && `#${address}`}`);
  await settled(page);
}

/** Waits until the answer belongs to the question. @param {import("playwright-core").Page} page */
export async function settled(page) {
  await page.locator('main[aria-busy="false"]').waitFor();
}

/** The verdict in words. @param {import("playwright-core").Page} page */
export function verdict(page) {
  return page.locator(".verdict").innerText();
}

/**
 * The field for a number, by its label.
 * @param {import("playwright-core").Page} page
 * @param {string} name
 */
export function number(page, name) {
  return page.getByRole("spinbutton", { name, exact: true });
}

/**
 * The value of a field that one click sets.
 * @param {import("playwright-core").Page} page
 * @param {string} pointer
 * @param {number} value
 */
export function chip(page, pointer, value) {
  return page.locator(`[data-pointer="${pointer}"] .chip[data-value="${value}"]`);
}
