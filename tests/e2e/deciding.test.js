/** Comparing, applying a suggestion, and the map. */

import assert from "node:assert/strict";
import { chip, number, open, settled, verdict } from "./browser.js";
import { ALONE, DEEPSEEK } from "./runs.js";
import { scenario } from "./scenario.js";

scenario("three layouts stand side by side", async (page) => {
  await open(page);
  const pin = page.getByRole("button", { name: "Pin this layout" });
  await pin.click();
  await chip(page, "/parallelism/tp", 4).click();
  await settled(page);
  await pin.click();
  await chip(page, "/parallelism/tp", 8).click();
  await settled(page);
  const rows = page.locator(".comparison tbody tr");
  await rows.nth(2).getByText("fits", { exact: true }).waitFor();
  assert.equal(await rows.count(), 3);
  const differences = await page.locator(".comparison tbody td:nth-child(4)").allInnerTexts();
  assert.equal(differences[0], "–");
  const [less, least] = differences
    .slice(1)
    .map((text) => Number(/^−([\d.]+)\sGiB$/.exec(text)?.[1]));
  assert.ok(less && least && 0 < less && less < least, differences.join());
  assert.match(await rows.nth(2).innerText(), /tp 8/);
  await rows.nth(0).getByRole("button", { name: "Use tp 2" }).click();
  await settled(page);
  assert.equal(await number(page, "Tensor tp").inputValue(), "2");
});

scenario("a suggestion is applied with one click and taken back", async (page) => {
  await open(page, DEEPSEEK);
  assert.match(await verdict(page), /Does not fit/);
  const first = page.locator(".suggestions tbody tr").first();
  const promised = await first.locator(".outcome").innerText();
  assert.equal(promised, "fits");
  await first.getByRole("button", { name: /^Apply/ }).click();
  await page.locator(".verdict.fits").waitFor();
  await page.goBack();
  await page.locator(".verdict.does_not_fit").waitFor();
});

scenario("a service too busy to suggest is not one that found nothing", async (page) => {
  await page.route("**/v1/fit-check", async (route) => {
    if (!route.request().postDataJSON().suggest) return route.continue();
    const problem = {
      type: "/problems/overloaded",
      title: "The service is busy",
      status: 503,
      detail: "as many requests as the service takes are under way",
      instance: null,
      errors: [],
    };
    return route.fulfill({
      status: 503,
      contentType: "application/problem+json",
      body: JSON.stringify(problem),
    });
  });
  await open(page, DEEPSEEK);
  await page.getByText("The service did not say what would help.").waitFor();
  assert.equal(await page.getByText("No change was found").count(), 0);
});

scenario("the map fills, and a cell is used", async (page) => {
  await open(
    page,
    "model.hf_id=meta-llama/Llama-3.1-8B&parallelism.num_gpus=8&parallelism.tp=8" +
      "&gpu=H100-80GB-SXM&training.seq_length=8192",
  );
  await page.getByRole("button", { name: "micro-batch × sequence" }).click();
  await page.getByText("42 layouts").waitFor();
  const fitting = page
    .getByRole("table", { name: /GiB free/ })
    .getByRole("button", { name: /fits, / });
  assert.ok((await fitting.count()) > 3);
  await fitting.first().click();
  await page.locator(".verdict.fits").waitFor();
  assert.equal(await number(page, "Sequence s").inputValue(), "2048");
});

scenario("an error of a full memory is put beside the prediction, and explained", async (page) => {
  await open(page);
  const ran = page.locator(".ran");
  await ran
    .getByLabel("An error or a log of the run")
    .fill(
      "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 3 " +
        "has a total capacity of 79.11 GiB of which 1.23 GiB is free. Process 1172 has 77.88 " +
        "GiB memory in use. Of the allocated memory 73.10 GiB is allocated by PyTorch, and 1.94 " +
        "GiB is reserved by PyTorch but unallocated.",
    );
  await ran.getByRole("button", { name: "Put beside the prediction" }).click();
  await ran.getByText(/The card was full with 77\.9 GiB/).waitFor();
  await ran.getByText(/What holds the memory of stage 0: activations/).waitFor();
  await ran.getByRole("button", { name: "Apply: micro batch size 2" }).click();
  await page.locator(".verdict:not(.fits)").waitFor();
});

scenario("the allocator is replayed where it is asked for", async (page) => {
  await open(page, ALONE);
  await page.getByRole("button", { name: "Replay the allocator" }).click();
  const picture = page.locator("#trace");
  await picture.waitFor();
  assert.match((await picture.getAttribute("aria-label")) ?? "", /GiB allocated and .* reserved/s);
  await page.getByRole("rowheader", { name: "parameters and buffers" }).waitFor();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download a memory snapshot" }).click(),
  ]);
  assert.equal(file.suggestedFilename(), "predicted.pickle");
  await number(page, "GPUs").fill("2");
  await settled(page);
  assert.equal(await page.locator("#trace").count(), 0);
});
