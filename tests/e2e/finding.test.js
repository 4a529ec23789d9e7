/** Finding a layout. */

import assert from "node:assert/strict";
import { violations } from "./axe.js";
import { number, open, PHONE, settled } from "./browser.js";
import { scenario } from "./scenario.js";

/** @typedef {import("playwright-core").Page} Page */

/** Llama 3.1 70B on 64 GPUs, in a layout that does not fit. */
const LLAMA =
  "model.hf_id=meta-llama/Llama-3.1-70B&parallelism.num_gpus=64&parallelism.tp=4" +
  "&training.global_batch_size=128&training.seq_length=8192&gpu=H100-80GB-SXM";

/** @param {Page} page */
function card(page) {
  return page.locator(".find");
}

/** @param {Page} page */
async function found(page) {
  await card(page).getByRole("button", { name: "Find", exact: true }).click();
  await card(page).locator("tbody tr").first().waitFor();
}

scenario("the fastest layout is found, told and taken over", async (page) => {
  await open(page, LLAMA);
  await page.locator(".verdict.does_not_fit").waitFor();
  await found(page);
  const told = await card(page).locator(".found p").first().innerText();
  assert.match(told, /^Best: .* on 64 GPUs, [\d.]+\ss a step\. \d+ are a tie/);
  const rows = card(page).locator("tbody tr");
  assert.equal(await rows.count(), 5);
  assert.match(await rows.first().innerText(), /fits\s+[\d.]+\sGiB\s+[\d.]+\ss[^]*\d+%/);
  await rows.first().getByRole("img", { name: /^compute \d+%/ }).waitFor();
  const points = card(page).locator("#scatter circle");
  assert.ok((await points.count()) > 5);
  assert.equal(await card(page).locator("#scatter path.front").count(), 1);
  assert.equal(await card(page).locator("#scatter path.own").count(), 1);
  await card(page).getByText("Why the others fell").click();
  await card(page).getByText("Does not fit with its activations").waitFor();
  const time = await rows.first().locator("td").nth(2).innerText();
  await rows.first().getByRole("button", { name: /^Use / }).click();
  await page.locator(".verdict.fits").waitFor();
  await settled(page);
  const step = page.getByRole("region", { name: "Time of a step" });
  await step.getByText(time.split("\n")[0] ?? "").first().waitFor();
  assert.equal(await card(page).locator(".not").count(), 0, "it is still the same task");
  await page.goBack();
  await page.locator(".verdict.does_not_fit").waitFor();
  await number(page, "Sequence s").fill("4096");
  await card(page).getByText("not this question").waitFor();
});

scenario("a point of the picture leads to its layout", async (page) => {
  await open(page, LLAMA);
  await found(page);
  const last = card(page).locator("#scatter circle").last();
  await last.focus();
  await page.keyboard.press("Enter");
  const name = (await last.getAttribute("aria-label")) ?? "";
  const row = card(page).locator("tr.selected");
  assert.match(await row.innerText(), new RegExp(name.split(" on ")[0] ?? ""));
  await row.getByRole("button", { name: /^Pin / }).click();
  await page.locator(".comparison tbody tr").nth(1).waitFor();
});

scenario("the fewest GPUs are sought within limits", async (page) => {
  await open(page, LLAMA.replace("Llama-3.1-70B", "Llama-3.1-8B"));
  const find = card(page);
  await find.getByLabel("Seek").selectOption("the fewest GPUs");
  assert.equal(await find.getByLabel("number of GPUs").isChecked(), true);
  assert.equal(await find.getByLabel("number of GPUs").isDisabled(), true);
  await find.getByText("within limits").click();
  await find.getByLabel("at most so many GPUs").fill("16");
  const asked = page.waitForRequest(/\/v1\/search$/);
  await found(page);
  const { objective, max_gpus, parallelism } = (await asked).postDataJSON();
  assert.deepEqual([objective, max_gpus, parallelism], ["fewest_gpus", 16, undefined]);
  assert.match(await find.locator("tbody tr").first().innerText(), /on [124]\b/);
});

scenario("a search says how far it is, and is ended by hand", async (page) => {
  await open(page, LLAMA.replace("&parallelism.num_gpus=64&parallelism.tp=4", ""));
  const find = card(page);
  await find.getByLabel("number of GPUs").check();
  const asked = page.waitForRequest(/\/v1\/search$/);
  await find.getByRole("button", { name: "Find", exact: true }).click();
  const ended = new Promise((resolve) => page.once("requestfailed", resolve));
  await asked;
  await find.getByText(/layouts looked at|begun/).waitFor();
  await find.getByRole("button", { name: "Cancel" }).click();
  await ended;
  assert.equal(await find.locator("progress").count(), 0);
  await find.getByRole("button", { name: "Find", exact: true }).waitFor();
});

scenario("a search that is refused says why", async (page) => {
  await open(page, LLAMA.replace("training.global_batch_size=128&", ""));
  const find = card(page);
  await find.getByRole("button", { name: "Find", exact: true }).click();
  await find.locator(".findings li").first().waitFor();
  assert.match(await find.locator(".findings").innerText(), /global.batch/i);
});

/** @param {Page} page */
async function accessible(page) {
  await open(page, LLAMA);
  await found(page);
  await card(page).getByText("within limits").click();
  await card(page).getByRole("button", { name: /more$/ }).click();
  assert.deepEqual(await violations(page), []);
  const [wide, window_] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    innerWidth,
  ]);
  assert.ok(wide && window_ && wide <= window_, "the page is wider than its window");
}

scenario("what is found is accessible in light", accessible);

scenario("what is found is accessible on a dark phone", accessible, {
  colorScheme: "dark",
  viewport: PHONE,
});
