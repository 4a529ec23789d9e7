/** Takes the pictures of the page that the documentation shows, into the folder that is given. */

import { chip, launched, open, settled } from "./browser.js";

const [folder] = process.argv.slice(2);
const DESK = { width: 1360, height: 940 };
const PHONE = { width: 390, height: 844 };

const browser = await launched();

/**
 * @param {string} name
 * @param {import("playwright-core").BrowserContextOptions} options
 * @param {(page: import("playwright-core").Page) => Promise<void>} prepare
 */
async function picture(name, options, prepare) {
  const context = await browser.newContext({ deviceScaleFactor: 1.5, ...options });
  const page = await context.newPage();
  await open(page);
  await prepare(page);
  await settled(page);
  await page.locator(".chip.fits, .chip.tight, .chip.does_not_fit").first().waitFor();
  await page.getByText("Looking for changes").waitFor({ state: "hidden" });
  await page.waitForFunction(() => !document.querySelector(".stale"));
  await page.evaluate(() => /** @type {HTMLElement | null} */ (document.activeElement)?.blur());
  await page.waitForTimeout(500);
  await page.screenshot({ path: `${folder}/${name}.png` });
  await context.close();
}

/** @param {import("playwright-core").Page} page @param {string} name */
async function preset(page, name) {
  await page.selectOption("#preset", name);
  await settled(page);
  await page.locator("#timeline").waitFor();
}

/** @param {import("playwright-core").Page} page @param {string} title */
async function scrolledTo(page, title) {
  await page.getByRole("heading", { name: title }).evaluate((heading) => {
    const card = heading.closest("section");
    if (card) scrollTo(0, card.getBoundingClientRect().top + scrollY - 14);
  });
}

try {
  await picture("page", { viewport: DESK }, (page) => preset(page, "DeepSeek-V3, 128 GPUs"));
  await picture("page-compare", { viewport: DESK }, async (page) => {
    await preset(page, "Llama-3.1-405B, 1,024 H100");
    await page.getByRole("button", { name: "Pin this layout" }).click();
    await chip(page, "/parallelism/cp", 4).click();
    await settled(page);
    await page.getByRole("button", { name: "Pin this layout" }).click();
    await chip(page, "/parallelism/tp", 16).click();
    await settled(page);
    await page.getByRole("button", { name: "micro-batch × sequence" }).click();
    await page.getByText("42 layouts").waitFor();
    await scrolledTo(page, "Side by side");
  });
  await picture("page-stage", { viewport: DESK, colorScheme: "dark" }, async (page) => {
    await preset(page, "DeepSeek-V3, 1,024 H100");
    await scrolledTo(page, "One step of stage");
    await page.locator(".tree .twist").nth(1).click();
    await page.locator(".tree .twist").nth(2).click();
  });
  await picture("page-phone", { viewport: PHONE, colorScheme: "dark" }, (page) =>
    preset(page, "Qwen3-235B-A22B, 256 H100"),
  );
} finally {
  await browser.close();
}
