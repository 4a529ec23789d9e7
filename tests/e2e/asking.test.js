/** Asking by clicking, and what is said of an inconsistent layout. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { chip, more, number, open, settled, verdict } from "./browser.js";
import { scenario } from "./scenario.js";

const DOCUMENT = new URL("../../openapi/openapi.json", import.meta.url);
const { schemas } = JSON.parse(await readFile(DOCUMENT, "utf8")).components;
const FRAMEWORKS = schemas.Framework.oneOf.map(
  (/** @type {{$ref: string}} */ part) =>
    schemas[part.$ref.split("/").at(-1) ?? ""].properties.name.const,
);

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
  await more(page, "Layout").click();
  await number(page, "num layers in last pipeline stage").fill("16");
  await number(page, "Global batch").fill("");
  await number(page, "Sequence s").fill("4096");
  await page.getByText("Does not fit H100-80GB-SXM").waitFor();
  await settled(page);
  const words = await verdict(page);
  assert.match(words, /Stage 1 needs most: 138\.9\sGiB on the device \(133\.1–153\.9\sGiB\)/);
  assert.equal(await page.locator("#stage-bars .bar").count(), 4);
  const derived = await page.locator(".derived dd").allInnerTexts();
  assert.deepEqual(derived.map((text) => text.split("\n")[0]), ["8", "1", "12"]);
});

scenario("models that are used most are found first, with their size", async (page) => {
  await open(page);
  const search = page.getByRole("combobox", { name: "Model" });
  const found = page.locator("#model-list").getByRole("option");
  await search.fill("deepseek");
  const first = await found.first().innerText();
  assert.match(first, /^deepseek-ai\/DeepSeek-V3\s+deepseek_v3 · 671\.0\sB/);
  await search.fill("llama");
  assert.match(await found.first().innerText(), /^meta-llama\/Llama-3\.1-8B\s/);
  await search.fill("mixtral 8x22");
  assert.match(await found.first().innerText(), /8x22B/);
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

scenario("another framework is chosen, and keeps what both have", async (page) => {
  const recompute = "&training.recompute.granularity=full&training.recompute.method=uniform";
  await open(
    page,
    "model.hf_id=Qwen/Qwen3-8B&parallelism.num_gpus=8&parallelism.tp=2&gpu=H100-80GB-SXM" +
      "&training.seq_length=8192&training.optimizer.precision_aware=true" +
      `&framework.name=megatron&framework.deterministic_mode=true${recompute}`,
  );
  const framework = page.getByRole("combobox", { name: "Framework" });
  const offered = await framework.locator("option").allInnerTexts();
  assert.deepEqual(offered.slice(1), FRAMEWORKS);
  await framework.selectOption("torchtitan");
  await page.getByText("torchtitan with it is not modelled: precision-aware optimizer").waitFor();
  await settled(page);
  assert.equal(await page.locator(".verdict.problem").count(), 0);
  await more(page, "Framework").click();
  assert.equal(await page.getByText("deterministic mode").count(), 0);
  await page.getByLabel("collect outputs").selectOption("yes");
  await page.getByLabel("compile").selectOption("yes");
  await framework.selectOption("transformers");
  await settled(page);
  const kept = new URLSearchParams(new URL(page.url()).hash.slice(1));
  assert.deepEqual(Object.fromEntries(kept), {
    "model.hf_id": "Qwen/Qwen3-8B",
    "parallelism.num_gpus": "8",
    "parallelism.tp": "2",
    "training.seq_length": "8192",
    "training.recompute.granularity": "full",
    "training.recompute.method": "uniform",
    "framework.name": "transformers",
    "framework.compile": "true",
    gpu: "H100-80GB-SXM",
  });
});

scenario("the framework stands first, and what it does not honour is hidden", async (page) => {
  await open(page);
  const first = page.locator("form.ask h2").first();
  assert.equal(await first.innerText(), "Framework");
  await more(page, "Step").click();
  const modules = page.locator('[data-pointer="/training/recompute/modules"]');
  const frozen = page.locator('[data-pointer="/training/num_frozen_layers"]');
  const method = page.locator('[data-pointer="/training/recompute/method"] option');
  await modules.waitFor();
  assert.equal(await frozen.count(), 0);
  assert.ok((await method.allInnerTexts()).includes("block"));
  await page.getByRole("combobox", { name: "Framework" }).selectOption("transformers");
  await frozen.waitFor();
  assert.equal(await modules.count(), 0);
  assert.equal((await method.allInnerTexts()).includes("block"), false);
  await page.evaluate(() => (location.hash += "&training.recompute.modules=[\"mlp\"]"));
  await modules.locator(".findings").waitFor();
});

scenario("adapters are chosen and described", async (page) => {
  await open(
    page,
    "model.hf_id=meta-llama/Llama-3.1-8B&parallelism.num_gpus=8&training.seq_length=2048" +
      "&framework.name=transformers&gpu=L40S",
  );
  const before = await verdict(page);
  await more(page, "Step").click();
  const peft = page.getByLabel("peft", { exact: true });
  assert.equal(await peft.locator("option:checked").innerText(), "none");
  await peft.selectOption("lora");
  await settled(page);
  assert.notEqual(await verdict(page), before);
  const group = page.getByRole("group", { name: "Fields of peft" });
  await group.getByLabel("target modules").selectOption("a list");
  await group.getByLabel("a list").fill("q_proj, v_proj");
  await group.getByLabel("quantization", { exact: true }).selectOption("nf4");
  await settled(page);
  assert.match(await page.locator(".verdict.fits").innerText(), /Fits L40S/);
  assert.match(page.url(), /training\.peft\.target_modules=%5B%22q_proj%22,%22v_proj%22%5D/);
  await peft.selectOption("prompt_tuning");
  await group.getByText("is needed and missing").waitFor();
  await number(page, "num virtual tokens").fill("20");
  await settled(page);
  assert.equal(await page.locator(".verdict.problem").count(), 0);
  assert.match(page.url(), /quantization=nf4/);
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

scenario("a change by itself is asked before it is drawn, and a burst once", async (page) => {
  await open(page);
  const asked = await number(page, "Micro-batch b").evaluate((field) => {
    const { fetch } = window;
    let count = 0;
    // However busy the machine is, a burst takes no time.
    const now = performance.now();
    performance.now = () => now;
    window.fetch = (...question) => {
      count += 1;
      return fetch(...question);
    };
    return ["2", "4", "8"].map((text) => {
      /** @type {HTMLInputElement} */ (field).value = text;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      return count;
    });
  });
  assert.deepEqual(asked, [1, 1, 1]);
  await page.locator("main:not(.stale)").waitFor();
  assert.match(page.url(), /micro_batch_size=8&/);
});
