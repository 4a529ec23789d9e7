/** The state in the address, commands that ask the same, and files to take away. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { chip, mapped, number, open, ORIGIN, settled, verdict } from "./browser.js";
import { scenario } from "./scenario.js";

scenario("a shared address reopens the same state", async (page) => {
  await open(page);
  await page.selectOption("#preset", "Qwen3-235B-A22B, 256 H100");
  await settled(page);
  await page.getByRole("button", { name: "Pin this layout" }).click();
  await chip(page, "/training/micro_batch_size", 2).click();
  await settled(page);
  await page.getByLabel("Keep free").fill("5");
  await page.getByRole("button", { name: /^Stage 5:/ }).first().click();
  await page.getByRole("button", { name: "tp × pp" }).click();
  await mapped(page, 30);
  await settled(page);
  const shown = () => page.evaluate(() => document.querySelector("main")?.textContent);
  await page.getByText("One step of stage 5").waitFor();
  await page.locator("#timeline").waitFor();
  await page.locator(".suggestions tbody tr").first().waitFor();
  const before = await shown();
  const words = await verdict(page);
  const again = await page.context().newPage();
  await again.goto(page.url());
  await settled(again);
  await mapped(again, 30);
  await again.locator("#timeline").waitFor();
  await again.locator(".suggestions tbody tr").first().waitFor();
  assert.equal(await again.evaluate(() => document.querySelector("main")?.textContent), before);
  assert.equal(await verdict(again), words);
  assert.equal(await number(again, "Micro-batch b").inputValue(), "2");
  assert.equal(await again.getByLabel("Keep free").inputValue(), "5");
});

scenario("a pasted config.json is answered, and travels in the address", async (page) => {
  const config = {
    model_type: "llama",
    hidden_size: 2048,
    intermediate_size: 5632,
    num_hidden_layers: 22,
    num_attention_heads: 32,
    num_key_value_heads: 4,
    vocab_size: 32000,
  };
  await open(page);
  await page.getByRole("button", { name: "config.json" }).click();
  await page.getByLabel("Contents of config.json").fill(JSON.stringify(config));
  await page.getByText("1.1 B parameters").waitFor();
  await page.getByText("3 keys left to its class").click();
  await page.getByText("tie_word_embeddings").waitFor();
  await settled(page);
  const words = await verdict(page);
  const again = await page.context().newPage();
  await again.goto(page.url());
  await settled(again);
  assert.equal(await verdict(again), words);
});

scenario("layers and experts of a chosen model are changed in place", async (page) => {
  await open(page, "model.hf_id=openai/gpt-oss-20b&parallelism.num_gpus=8&gpu=H100-80GB-SXM");
  const words = await verdict(page);
  await page.getByRole("button", { name: "Change its layers, vocabulary or experts" }).click();
  await page.getByLabel("num local experts").fill("16");
  await page.getByLabel("num hidden layers").fill("12");
  await page.getByText("6.3 B parameters, 2.7 B active").waitFor();
  await settled(page);
  const text = await page.getByLabel("Contents of config.json").inputValue();
  assert.equal(JSON.parse(text).layer_types.length, 12);
  assert.notEqual(await verdict(page), words);
  await page.getByLabel("num hidden layers").fill("");
  await page.locator(".not-this-run").getByText("num hidden layers is not a number yet").waitFor();
  await page.goBack();
  await page.getByText("20.9 B parameters").waitFor();
});

scenario("the commands ask what the page asks", async (page) => {
  await open(page);
  await page.selectOption("#preset", "Kimi-K2, 1,024 H100");
  await settled(page);
  const told = page.locator(".share pre");
  const device = (/** @type {any} */ answer) => (answer.estimate ?? answer).binding.device_bytes;
  const run = (/** @type {string} */ command) => {
    const { stdout, stderr } = spawnSync("bash", ["-c", command], { encoding: "utf8" });
    assert.ok(stdout, stderr);
    return JSON.parse(stdout);
  };
  await page.getByRole("button", { name: "curl" }).click();
  const asked = run(await told.innerText());
  await page.getByRole("button", { name: "Command line" }).click();
  const command = await told.innerText();
  assert.match(command, /^trainfit estimate moonshotai\/Kimi-K2-Instruct --num-gpus 1024 --tp 8/);
  assert.deepEqual(device(run(`${command} --json`)), device(asked));
  assert.match(await verdict(page), new RegExp(`${(device(asked).expected / 2 ** 30).toFixed(1)}`));
});

scenario("the run is written as launch flags, which the page reads again", async (page) => {
  await open(page);
  await page.getByRole("button", { name: "Launch flags" }).click();
  const told = page.locator(".share pre");
  await told.getByText("--tensor-model-parallel-size 2").waitFor();
  const script = `torchrun --nproc_per_node 8 pretrain_gpt.py ${await told.innerText()}`;
  const words = await verdict(page);
  await number(page, "Tensor tp").fill("4");
  await settled(page);
  assert.notEqual(await verdict(page), words);
  await page.getByRole("button", { name: "Launch files" }).click();
  await page
    .getByLabel("Launch files")
    .setInputFiles({ name: "train.sh", mimeType: "text/x-sh", buffer: Buffer.from(script) });
  await page.getByText("Read as megatron.").waitFor();
  await settled(page);
  assert.equal(await verdict(page), words);
});

scenario("a fine-tuning is written as arguments and a file, or told why not", async (page) => {
  await open(page);
  await page.selectOption("#preset", "Llama-3.1-8B LoRA, 1 L40S");
  await settled(page);
  await page.getByRole("button", { name: "Launch flags" }).click();
  await page.getByText("with accelerate's config").waitFor();
  const told = await page.locator(".share pre").innerText();
  const [words, file] = told.split("\n\n# accelerate.yaml\n");
  assert.match(words ?? "", /^--model_name_or_path meta-llama\/Llama-3.1-8B [^]*--use_peft True/);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download accelerate.yaml" }).click(),
  ]);
  assert.equal(download.suggestedFilename(), "accelerate.yaml");
  assert.equal(String(await readFile(await download.path())).trimEnd(), file);
  await page.selectOption("#preset", "Llama-2-70B QLoRA, 1 RTX A6000");
  await page.locator(".share .findings").getByText("adapter dtype: adapters are").waitFor();
  assert.equal(await page.getByRole("button", { name: "Copy" }).count(), 0);
});

scenario("what DeepSpeed runs is written with its config", async (page) => {
  await open(
    page,
    "model.hf_id=Qwen/Qwen3-8B&parallelism.num_gpus=8&training.seq_length=4096&gpu=H100-80GB-SXM" +
      "&framework.name=transformers&framework.data_parallel_engine=deepspeed",
  );
  await page.getByRole("button", { name: "Launch flags" }).click();
  await page.getByText("with DeepSpeed's config").waitFor();
  const told = await page.locator(".share pre").innerText();
  const [words, file] = told.split("\n\n# ds_config.json\n");
  assert.match(words ?? "", /--deepspeed ds_config\.json$/);
  assert.equal(JSON.parse(file ?? "").zero_optimization.stage, 3);
});

scenario("the answer is taken away as JSON, CSV, SVG and PNG", async (page) => {
  await open(page);
  const taken = async (/** @type {string} */ name) => {
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name, exact: true }).click(),
    ]);
    return readFile(await download.path());
  };
  const answer = JSON.parse(String(await taken("JSON")));
  assert.equal(answer.verdict, "fits");
  const [head, row] = String(await taken("CSV"))
    .trim()
    .split("\r\n")
    .map((line) => line.split(","));
  const column = head?.indexOf("device_expected_bytes") ?? -1;
  assert.equal(Number(row?.[column]), answer.estimate.stages[0].device_bytes.expected);
  const svg = String(await taken("SVG"));
  assert.match(svg, /^<svg xmlns/);
  for (const part of ["Fits H100-80GB-SXM (79.1", "optimizer states", "context and communicators"])
    assert.ok(svg.includes(part), `the picture lacks ${part}`);
  assert.match(svg, /paint-order="stroke"/);
  assert.doesNotMatch(svg, /class=|var\(/);
  assert.deepEqual([...(await taken("PNG")).subarray(1, 4)], [...Buffer.from("PNG")]);
});

scenario("the API's own page renders, and links lead to it", async (page) => {
  await open(page);
  await page.getByRole("navigation").getByRole("link", { name: "API" }).click();
  await page.getByText("/v1/fit-check").first().waitFor();
  assert.equal(page.url(), `${ORIGIN}/docs`);
  await page.getByText("Estimate the memory of every pipeline rank").click();
  await page.getByRole("button", { name: "Execute" }).click();
  await page.getByText('"estimator_version"').first().waitFor();
});
