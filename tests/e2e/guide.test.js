/** The guide, as a reader meets it: from the page, by its search, on a desk and on a phone. */

import assert from "node:assert/strict";
import { open, ORIGIN, PHONE } from "./browser.js";
import { scenario } from "./scenario.js";

scenario("the guide opens from the page, and its search finds a word", async (page) => {
  await open(page);
  await page.getByRole("link", { name: "Guide" }).click();
  await page.getByRole("heading", { level: 1 }).waitFor();
  assert.equal(page.url(), `${ORIGIN}/guide/`);
  const query = page.getByRole("textbox", { name: "Search" });
  while (!(await query.evaluate((box) => box === document.activeElement))) {
    await page.keyboard.press("/"); // which nobody hears before the guide's script has run
    await page.waitForTimeout(100);
  }
  await query.fill("reserve");
  await page.keyboard.press("d");
  const found = page.locator(".md-search-result__link").filter({ hasText: "allocator" }).first();
  await found.click();
  await page.waitForURL(/allocator\.html/);
  assert.match(await page.getByRole("main").innerText(), /reserved/);
});

scenario(
  "the guide on a phone, in dark",
  async (page) => {
    await page.goto(`${ORIGIN}/guide/accuracy.html`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    const [scheme, width] = await page.evaluate(() => [
      document.body.dataset.mdColorScheme,
      document.documentElement.scrollWidth,
    ]);
    assert.equal(scheme, "slate");
    assert.ok(Number(width) <= PHONE.width);
  },
  { viewport: PHONE, colorScheme: "dark" },
);
