/** Comparing, applying a suggestion, and the map. */

import assert from "node:assert/strict";
import { chip, mapped, number, open, settled, verdict } from "./browser.js";
import { ALONE, DEEPSEEK, PIPELINE, SHORT } from "./runs.js";
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
  await page.locator(".card:not(.stale) tr.present").getByText("fits", { exact: true }).waitFor();
  assert.equal(await rows.count(), 3);
  const differences = await page.locator(".comparison tbody td:nth-child(5)").allInnerTexts();
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

scenario("layouts side by side have cards, names and times of their own", async (page) => {
  await open(page);
  await page.getByRole("button", { name: "Pin this layout" }).click();
  await page.getByLabel("Name of layout 1").fill("two by two | as it was");
  await page.selectOption("#gpu", "B200");
  await number(page, "GPUs").fill("16");
  await settled(page);
  const present = page.locator(".card:not(.stale) tr.present");
  await present.getByText("16 × B200").waitFor();
  const rows = page.locator(".comparison tbody tr");
  assert.match(await rows.nth(0).innerText(), /8 × H100-80GB-SXM\s+79\.1\sGiB each, dp 4/);
  assert.match(await present.innerText(), /B200\s+1\d\d\.\d\sGiB each/);
  for (const row of [rows.nth(0), present])
    assert.match(await row.innerText(), /[\d.]+–[\d.]+\sGiB[^]*[\d.]+\ss\s+[\d.]+–[\d.]+\ss/);
  assert.match(page.url(), /pin=two\+by\+two/);
  await page.getByRole("button", { name: "Copy as Markdown" }).click();
  await page.getByText(/^(Copied|Selected)/).waitFor();
  const lines = (await page.locator("section pre").first().textContent())?.split("\n") ?? [];
  assert.match(lines[0] ?? "", /^\| layout \| changes \| GPUs \| needs/);
  assert.match(lines[2] ?? "", /^\| two by two \\\| as it was \|.*\| 8 × H100-80GB-SXM \| 59/);
  assert.match(lines[3] ?? "", /^\| Now \| 16 GPUs, B200 \| 16 × B200 \|.*\| fits \|$/);
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
  let busy = true;
  await page.route("**/v1/fit-check", async (route) => {
    if (!busy || !route.request().postDataJSON().suggest) return route.continue();
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
  await page.getByText("The service had no time to look for changes.").waitFor();
  assert.equal(await page.getByText("No change was found").count(), 0);
  await page.locator(".chip.fits, .chip.tight, .chip.does_not_fit").first().waitFor();
  busy = false;
  await page.getByRole("button", { name: "Look again" }).click();
  await page.locator(".suggestions tbody tr").first().waitFor();
});

scenario("the map fills, and a cell is used", async (page) => {
  await open(
    page,
    "model.hf_id=meta-llama/Llama-3.1-8B&parallelism.num_gpus=8&parallelism.tp=8" +
      "&gpu=H100-80GB-SXM&training.seq_length=8192",
  );
  let comparisons = 0;
  page.on("request", (request) => {
    if (request.url().endsWith("/v1/compare") && request.postDataJSON().changes.length === 42)
      comparisons += 1;
  });
  await page.getByRole("button", { name: "micro-batch × sequence" }).click();
  await mapped(page, 42);
  const fitting = page
    .getByRole("table", { name: /GiB free/ })
    .getByRole("button", { name: /fits, / });
  assert.ok((await fitting.count()) > 3);
  await fitting.first().click();
  await page.locator(".verdict.fits").waitFor();
  assert.equal(await number(page, "Sequence s").inputValue(), "2048");
  assert.equal(comparisons, 1, "of the same map");
});

scenario("the map is coloured by time as well, with a key, and a link keeps that", async (page) => {
  await open(page, PIPELINE);
  await mapped(page, 30);
  const key = page.locator(".map-key");
  assert.match(await key.innerText(), /79\.1\sGiB free.*as much missing/s);
  await page.getByRole("button", { name: "time", exact: true }).click();
  assert.match(await key.innerText(), /fast.*slow, [\d.]+–[\d.]+\ss/s);
  const times = page.getByRole("table", { name: "Time of a step of what fits" });
  const fitting = times.getByRole("button", { name: /fits, .* a step/ });
  assert.ok((await fitting.count()) > 3);
  const grounds = await fitting.evaluateAll((all) => all.map((each) => each.style.backgroundColor));
  assert.ok(new Set(grounds).size > 1, grounds.join());
  assert.match(page.url(), /map=\/parallelism\/tp,\/parallelism\/pp,time/);
});

scenario("a value that needs another split is offered with it", async (page) => {
  await open(page, DEEPSEEK.replace("num_gpus=128", "num_gpus=1024"));
  const eight = chip(page, "/parallelism/pp", 8);
  await page.locator('[data-pointer="/parallelism/pp"] .chip:not(.asked)').first().waitFor();
  assert.doesNotMatch((await eight.getAttribute("class")) ?? "", /refused/);
  assert.match(
    (await eight.getAttribute("title")) ?? "",
    /with num layers in first pipeline stage 7, num layers in last pipeline stage 6/,
  );
  await eight.click();
  await settled(page);
  assert.equal(await page.locator(".verdict.problem").count(), 0);
  assert.equal(await number(page, "Pipeline pp").inputValue(), "8");
  await page.getByRole("button", { name: "tp × pp" }).click();
  await mapped(page, 30);
  const refused = await page.locator(".map .cell.refused").count();
  assert.ok(refused <= 12, `${refused} of 30 cells are refused`);
  await page.getByText("÷ with another split").waitFor();
  const cut = await page
    .locator(".map .cell")
    .evaluateAll((all) => all.filter((each) => each.scrollHeight > each.clientHeight).length);
  assert.equal(cut, 0, "figures that do not fit their cells");
});

scenario("the largest micro-batch and sequence that fit are set with one click", async (page) => {
  await open(page, SHORT);
  for (const pointer of ["/training/micro_batch_size", "/training/seq_length"]) {
    const field = page.locator(`[data-pointer="${pointer}"]`);
    const input = field.getByRole("spinbutton");
    const before = await input.inputValue();
    await field.getByRole("button", { name: "largest that fits" }).click();
    await page.waitForFunction(
      ([at_, from]) => {
        const found = document.querySelector(`[data-pointer="${at_}"] input`);
        return /** @type {HTMLInputElement} */ (found).value !== from;
      },
      [pointer, before],
    );
    await settled(page);
    await page.locator(".verdict.fits").waitFor();
    const value = Number(await input.inputValue());
    assert.ok(value > Number(before), `${value} is not above ${before}`);
    await input.fill(String(2 * value));
    await page.locator(".verdict:not(.fits)").waitFor();
    await input.fill(before);
    await page.locator(".verdict.fits").waitFor();
  }
});

scenario("the time of a step is told with what it is made of", async (page) => {
  await open(page);
  const card = page.getByRole("region", { name: "Time of a step" });
  await card.getByText(/tokens\/s on each GPU, \d+% of its peak/).waitFor();
  await card.getByRole("img", { name: /^compute \d+%, tensor parallel exchange/ }).waitFor();
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
  await ran.getByRole("button", { name: "Apply: micro-batch 2" }).click();
  await page.locator(".verdict:not(.fits)").waitFor();
  await ran.getByRole("button", { name: "Put beside the prediction" }).click();
  const had = ran.getByText(/^≥ 77\.9/);
  await had.locator("xpath=following-sibling::td[1]").getByText("–").waitFor();
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
