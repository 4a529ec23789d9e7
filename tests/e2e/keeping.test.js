/** Runs that the browser keeps from one visit to the next. */

import assert from "node:assert/strict";
import { violations } from "./axe.js";
import { KEY, number, open, ORIGIN_WITH_KEY, PHONE, settled, verdict } from "./browser.js";
import { scenario } from "./scenario.js";

const SAVED = "Saved runs";

/** @param {import("playwright-core").Page} page */
async function opened(page) {
  await page.getByText("Saved runs and history").click();
  return page.getByRole("list", { name: SAVED, exact: true }).getByRole("listitem");
}

scenario("a run is saved, named, opened again, compared and deleted", async (page) => {
  await open(page);
  const runs = await opened(page);
  const save = page.getByRole("button", { name: "Save this run" });
  await page.getByLabel("Keep free").fill("5");
  await settled(page);
  const words = await verdict(page);
  await save.click();
  await runs.getByRole("textbox").fill("before");
  await number(page, "Tensor tp").fill("4");
  await page.getByLabel("Keep free").fill("0");
  await settled(page);
  await save.click();
  assert.notEqual(await verdict(page), words);

  await page.reload();
  await settled(page);
  assert.equal(await (await opened(page)).count(), 2);
  await page.getByRole("button", { name: "Open before" }).click();
  await settled(page);
  assert.equal(await verdict(page), words);
  assert.equal(await number(page, "Tensor tp").inputValue(), "2");
  assert.equal(await page.getByLabel("Keep free").inputValue(), "5");

  for (const box of await runs.getByRole("checkbox").all()) await box.check();
  await page.getByRole("button", { name: "Compare the chosen" }).click();
  const layouts = page.locator(".comparison tbody tr");
  await layouts.nth(2).locator(".outcome").waitFor();
  assert.equal(await layouts.first().getByRole("textbox").inputValue(), "before");
  assert.match(await layouts.nth(1).innerText(), /tensor|tp/i);

  await page.getByRole("button", { name: "Delete before" }).click();
  assert.equal(await runs.count(), 1);
});

scenario("what is looked at for a while is found again, and can be forgotten", async (page) => {
  await open(page);
  await opened(page);
  const lately = page.getByRole("list", { name: "Looked at lately" }).getByRole("button");
  await lately.first().waitFor();
  await number(page, "Tensor tp").fill("8");
  await settled(page);
  await lately.nth(1).waitFor();
  assert.match(await lately.first().innerText(), /Llama-3\.1-8B, 8 GPUs: tp 8/);
  await lately.nth(1).click();
  await settled(page);
  assert.equal(await number(page, "Tensor tp").inputValue(), "2");
  await page.getByRole("button", { name: "Forget these" }).click();
  assert.equal(await lately.count(), 0);
});

scenario("no key is kept with a run", async (page) => {
  await page.goto(ORIGIN_WITH_KEY);
  await page.getByLabel("Key").fill(KEY);
  await page.getByRole("button", { name: "Open", exact: true }).click();
  await settled(page);
  await opened(page);
  await page.getByRole("button", { name: "Save this run" }).click();
  const kept = await page.evaluate(() => JSON.stringify(localStorage));
  assert.match(kept, /Llama-3\.1-8B/);
  assert.ok(!kept.includes(KEY));
});

/** @param {import("playwright-core").Page} page */
async function accessible(page) {
  await open(page);
  await opened(page);
  await page.getByRole("button", { name: "Save this run" }).click();
  await page.getByRole("list", { name: "Looked at lately" }).waitFor();
  assert.deepEqual(await violations(page), []);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= PHONE.width, `${wide} px wide`);
}

scenario("saved runs are accessible on a phone", accessible, { viewport: PHONE });

scenario("saved runs are accessible on a phone, in dark", accessible, {
  viewport: PHONE,
  colorScheme: "dark",
});
