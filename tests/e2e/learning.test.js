/** What a run has said: beside its prediction, and kept for the next one. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { violations } from "./axe.js";
import { open, PHONE, settled, verdict } from "./browser.js";
import { scenario } from "./scenario.js";

/** @typedef {import("playwright-core").Page} Page */

const FULL =
  "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 3 has a " +
  "total capacity of 79.11 GiB of which 1.23 GiB is free. Process 1172 has 77.88 GiB memory in " +
  "use. Of the allocated memory 73.10 GiB is allocated by PyTorch, and 1.94 GiB is reserved by " +
  "PyTorch but unallocated.";
const LOG =
  "[Rank 0] (after 2 iterations) memory (MB) | allocated: 35412.18 | max allocated: 72601.27 | " +
  "reserved: 75712.00 | max reserved: 75712.00\n" +
  " iteration 3/ 10 | consumed samples: 384 | elapsed time per iteration (ms): 14312.0 |\n" +
  " the memory of this line is what nobody reads: 3.1 GB\n";

/** @param {Page} page @param {string} text */
async function said(page, text) {
  const ran = page.locator(".ran");
  await ran.getByLabel("An error or a log of the run").fill(text);
  await ran.getByRole("button", { name: "Put beside the prediction" }).click();
  await ran.getByRole("table").first().waitFor();
  return ran;
}

scenario("each figure of a log stands beside its bounds, with what explains it", async (page) => {
  await open(page);
  const ran = await said(page, LOG);
  const rows = ran.locator(".reconciled tbody tr");
  const cells = (/** @type {number} */ index) => rows.nth(index).locator("th, td").allInnerTexts();
  const [bytes, rank, low, expected, high, measured, off, is] = await cells(0);
  assert.match(bytes ?? "", /^resident/);
  assert.equal(rank, "0");
  for (const size of [low, expected, high, measured]) assert.match(size ?? "", /^3\d\.\d\sGiB$/);
  assert.match(off ?? "", /^\+[\d.]+\sMiB$/);
  assert.equal(is, "within");
  assert.match((await cells(1)).join(" "), /allocated.*\+1[\d.]+\sGiB above/s);
  await ran.getByRole("rowheader", { name: "micro-batches have 2 samples" }).waitFor();
  await ran.getByText("resident of rank 0, allocated of rank 0").first().waitFor();
  await ran.getByText(/A step took 14\.3\ss, \d+% (more|less) than the [\d.]+\ss/).waitFor();
  await ran.getByText("Part by part").click();
  await ran.getByRole("rowheader", { name: "allocator slack" }).waitFor();
  await ran.getByText("1 of 8 GPUs reported figures.").waitFor();
  assert.deepEqual(await violations(page), []);
});

scenario("logs are chosen as files, too", async (page) => {
  await open(page);
  const ran = page.locator(".ran");
  await ran
    .getByLabel("Logs, or a summary of a snapshot")
    .setInputFiles({ name: "train.log", mimeType: "text/plain", buffer: Buffer.from(LOG) });
  await ran.getByRole("button", { name: "Put beside the prediction" }).click();
  await ran.getByRole("rowheader", { name: /^resident/ }).waitFor();
});

scenario("a run is learned from, and the next is answered with it and without", async (page) => {
  await open(page);
  const before = await verdict(page);
  const ran = await said(page, FULL);
  await ran.getByLabel("driver").fill("570.86.15");
  await ran.getByRole("button", { name: "Calibrate" }).click();
  await page.locator(".verdict .bare").getByText("Without your calibration").waitFor();
  await settled(page);
  await ran.getByText("1 run learned from").waitFor();
  const needed = /Each GPU needs ([\d.]+)/.exec(before)?.[1] ?? "?";
  const words = await verdict(page);
  assert.ok(words.includes(`Without your calibration: ${needed}`), words);
  assert.doesNotMatch(words, new RegExp(`Each GPU needs ${needed}`));
  const choice = page.getByLabel("Calibrated");
  assert.match(await choice.locator("option:checked").innerText(), /H100.*570\.86\.15: 1 run/);
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download" }).click(),
  ]);
  const document_ = JSON.parse(String(await readFile(await file.path())));
  assert.match(document_.digest, /^[0-9a-f]{64}$/);
  const asked = page.waitForRequest(/\/v1\/search$/);
  await page.locator(".find").getByRole("button", { name: "Find", exact: true }).click();
  assert.equal((await asked).postDataJSON().calibration.digest, document_.digest);

  const again = await page.context().newPage();
  await again.goto(page.url());
  await settled(again);
  assert.equal(await verdict(again), words, "a link has the calibration");
  await choice.selectOption("by no run of yours");
  await page.locator(".verdict .bare").waitFor({ state: "detached" });
  await settled(page);
  assert.equal(await verdict(page), before);
  await page.reload();
  await settled(page);
  await choice.selectOption({ index: 1 });
  await page.locator(".verdict .bare").waitFor();
  await page.selectOption("#gpu", "H200-141GB");
  await page.locator(".verdict .bare").getByText("The calibration is of another GPU").waitFor();
  await page.getByRole("button", { name: "Forget it" }).click();
  await settled(page);
  assert.equal(await choice.count(), 0);
  await page
    .locator(".kept input[type=file]")
    .setInputFiles({ name: "c.json", mimeType: "text/json", buffer: Buffer.from("{}") });
  await page.getByText("That file is no calibration.").waitFor();
  await page.locator(".kept input[type=file]").setInputFiles(await file.path());
  await choice.waitFor();
});

scenario("a run that says nothing of its cluster is not learned from", async (page) => {
  await open(page);
  const ran = await said(page, LOG.split("\n")[0] ?? "");
  await ran.getByRole("button", { name: "Calibrate" }).click();
  await ran.getByText("No rank tells what its card holds").waitFor();
}, { colorScheme: "dark", viewport: PHONE });
