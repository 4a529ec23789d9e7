/** Debian's Chromium, and the page of a running service in it. */

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
/** Where one listens that answers callers with KEY only. */
export const ORIGIN_WITH_KEY = process.env.PAGE_ORIGIN_WITH_KEY ?? "";
export const KEY = process.env.PAGE_KEY ?? "";
/** Where one listens that takes a request a second of a caller, and four at once. */
export const ORIGIN_WITH_LIMIT = process.env.PAGE_ORIGIN_WITH_LIMIT ?? "";

/** The windows of a desk and of a phone. */
export const DESK = { width: 1360, height: 900 };
export const PHONE = { width: 390, height: 844 };

/** A new browser, with a profile of its own. */
export function launched() {
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
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

/**
 * What opens the other fields of a section.
 * @param {import("playwright-core").Page} page
 * @param {"Framework" | "Layout" | "Step"} section
 */
export function more(page, section) {
  return page.getByRole("region", { name: section, exact: true }).locator(".others > summary");
}

/**
 * The map has so many layouts.
 * @param {import("playwright-core").Page} page
 * @param {number} layouts
 */
export async function mapped(page, layouts) {
  await page.getByText(`${layouts} layouts`).waitFor();
}
