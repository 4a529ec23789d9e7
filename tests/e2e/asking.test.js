/** Asking by clicking, and what is said of a layout that does not hold together. */

import assert from "node:assert/strict";
import { chip, number, open, settled, verdict } from "./browser.js";
import { scenario } from "./scenario.js";

scenario("DeepSeek-V3 is asked for and answered by clicking", async (page) => {
  await open(page);
  await page.getByRole("combobox", { name: "Model" }).fill("deepseek v3");
  await page
    .getByRole("option", { name: "deepseek-ai/DeepSeek-V3 ", exact: false })
    .first()
    .click();
  await number(page, "GPUs").fill("128");
  await chip(page, "/parallelism/tp", 4).click();
  await chip(page, "/parallelism/pp", 4).click();
  await chip(page, "/parallelism/ep", 8).click();
  await page.locator("details.others summary").first().click();
  await number(page, "num layers in last pipeline stage").fill("16");
  await number(page, "Global batch").fill("");
  await number(page, "Sequence s").fill("4096");
  await page.getByText("Does not fit H100-80GB-SXM").waitFor();
  await settled(page);
  const words = await verdict(page);
  assert.match(words, /Stage 1 needs most: 142\.3\sGiB on the device \(131\.2–165\.6\sGiB\)/);
  assert.equal(await page.locator("#stage-bars .bar").count(), 4);
  const derived = await page.locator(".derived dd").allInnerTexts();
  assert.deepEqual(derived.map((text) => text.split("\n")[0]), ["8", "1", "12"]);
});

scenario("a layout that does not hold together is explained where it stands", async (page) => {
  await open(page);
  await number(page, "Tensor tp").fill("3");
  const field = page.locator('[data-pointer="/parallelism/tp"]');
  await field.getByText("32 attention heads do not divide by tp = 3").waitFor();
  assert.match(await page.locator(".derived .wrong").first().innerText(), /dp\s+2\.667/);
  await field.getByRole("button", { name: "Set tp to 2" }).first().click();
  await page.locator(".verdict.fits").waitFor();
  assert.equal(await field.locator(".findings").count(), 0);
});

scenario("a launch file is read, with an account of its keys", async (page) => {
  await open(page);
  await page.getByRole("button", { name: "Launch files" }).click();
  const script = [
    "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --use-mcore-models --bf16",
    "--lr 1e-4 --foo-bar 3",
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32",
    "--max-position-embeddings 4096 --vocab-size 32000",
    "--seq-length 4096 --tensor-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 64",
  ].join(" \\\n  ");
  await page
    .getByLabel("Launch files")
    .setInputFiles({ name: "train.sh", mimeType: "text/x-sh", buffer: Buffer.from(script) });
  await page.getByText("Read as megatron.").waitFor();
  const account = page.locator(".account");
  assert.match(await account.innerText(), /1 key not supported/);
  assert.match(await account.locator("details[open]").innerText(), /--foo-bar/);
  assert.notEqual(await number(page, "Tensor tp").inputValue(), "4");
  await account.getByRole("button", { name: "Use the run without them" }).click();
  await settled(page);
  assert.equal(await number(page, "Tensor tp").inputValue(), "4");
  assert.equal(await number(page, "GPUs").inputValue(), "16");
  await account.getByText(/keys recognised/).click();
  await account.getByText("--tensor-model-parallel-size").waitFor();
});
