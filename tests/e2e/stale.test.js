/** No answer is shown as one to another question. */

import assert from "node:assert/strict";
import { chip, mapped, more, number, open, settled, verdict } from "./browser.js";
import { dropped } from "./dropped.js";
import { held } from "./held.js";
import { scenario } from "./scenario.js";

/** @typedef {import("playwright-core").Page} Page */

/** What stands over an answer to another question.
 * @param {Page} page
 * @param {string | RegExp} why
 */
async function notThisRun(page, why) {
  await page.locator(".not-this-run").getByText(why).waitFor();
  assert.equal(await page.locator("main.stale").count(), 1);
  await page.locator(".card:has(#stage-bars)").getByText("not this run").waitFor();
  const filters = await page
    .locator("main > .verdict:not(.problem), main > .card:has(#stage-bars)")
    .evaluateAll((all) => all.map((each) => getComputedStyle(each).filter));
  assert.ok(filters.length && filters.every((filter) => filter === "grayscale(1)"), filters.join());
}

/** Nothing of the sort. @param {Page} page */
async function thisRun(page) {
  await page.locator("main:not(.stale)").waitFor();
  await page.locator(".not-this-run:empty").waitFor({ state: "attached" });
  assert.equal(await page.getByText("not this run", { exact: false }).count(), 0);
}

/** @param {Page} page @param {number} status */
async function failing(page, status) {
  await page.route(/\/v1\/(fit-check|estimate)(\?|$)/, (route) =>
    route.fulfill({ status, contentType: "text/html", body: "<h1>Bad gateway</h1>" }),
  );
}

scenario("while an answer is on the way, the one before is not this run", async (page) => {
  await open(page);
  await thisRun(page);
  const words = await verdict(page);
  const letGo = await held(page);
  await number(page, "Micro-batch b").fill("16");
  await notThisRun(page, "Not this run: its answer is on the way.");
  assert.equal(await verdict(page), words);
  letGo();
  await page.locator(".verdict.does_not_fit").waitFor();
  await thisRun(page);
});

scenario("a card whose answer has not come has not the memory of the last", async (page) => {
  await open(page);
  const letGo = await held(page);
  await page.getByRole("button", { name: "micro-batch × sequence" }).click();
  await mapped(page, 42);
  await page.selectOption("#gpu", "B200");
  await notThisRun(page, /on the way/);
  const legend = page.locator(".note.capacity");
  assert.match(await legend.innerText(), /^H100-80GB-SXM: 79\.1/);
  assert.equal(await page.locator(".map-axes progress").count(), 1);
  letGo();
  await thisRun(page);
  assert.match(await legend.innerText(), /^B200: 1\d\d\.\d/);
});

scenario("a service that fails has not answered this run", async (page) => {
  await open(page);
  await failing(page, 503);
  await chip(page, "/parallelism/tp", 4).click();
  await page.getByText("answered with status 503").waitFor();
  const bars = page.locator(".card", { has: page.locator("#stage-bars") });
  await bars.getByText("not this run").waitFor();
  assert.equal(await page.locator(".verdict.fits").count(), 0);
  assert.equal(await page.getByRole("button", { name: "JSON", exact: true }).isDisabled(), true);
  await page.unroute(/\/v1\/(fit-check|estimate)(\?|$)/);
  await page.getByRole("button", { name: "Ask again" }).click();
  await page.locator(".verdict.fits").waitFor();
  await thisRun(page);
});

scenario("a network that is gone has not answered this run", async (page) => {
  await open(page);
  await page.route(/\/v1\//, (route) => route.abort("internetdisconnected"));
  await number(page, "Sequence s").fill("4096");
  await page.getByText("The service cannot be reached").waitFor();
  assert.equal(await page.locator("main.stale").count(), 1);
  await page.unroute(/\/v1\//);
  await page.getByRole("button", { name: "Ask again" }).click();
  await settled(page);
  await thisRun(page);
});

scenario("a refusal is not one of what is asked since", async (page) => {
  await open(page);
  await number(page, "Tensor tp").fill("3");
  await page.getByText("do not divide by tp = 3").first().waitFor();
  await page.locator(".card:has(#stage-bars)").getByText("not this run").waitFor();
  const letGo = await held(page);
  await number(page, "Tensor tp").fill("4");
  await page.locator(".not-this-run").getByText("on the way").waitFor();
  letGo();
  await thisRun(page);
});

scenario("what is no number yet is no part of an answer", async (page) => {
  await open(page);
  const field = number(page, "Micro-batch b");
  await field.focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("1e");
  await notThisRun(page, "Not this run: micro-batch is not a number yet.");
  await page.getByText("Micro-batch is not a number yet.", { exact: true }).waitFor();
  await page.keyboard.type("0");
  await settled(page);
  await thisRun(page);
  assert.match(page.url(), /micro_batch_size=1&/);
  await field.focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("1e999");
  await notThisRun(page, /is not a number yet/);
  await chip(page, "/training/micro_batch_size", 2).click();
  await settled(page);
  await thisRun(page);
  assert.equal(await field.inputValue(), "2");
});

scenario("fractions are typed as they are written", async (page) => {
  await open(page);
  await more(page, "Step").click();
  const field = number(page, "imbalance factor");
  await field.focus();
  await page.keyboard.type("1.25");
  await settled(page);
  assert.equal(await field.inputValue(), "1.25");
  assert.match(page.url(), /training\.moe\.imbalance_factor=1\.25/);
});

scenario("a model that is searched, and half a config.json, are not answered", async (page) => {
  await open(page);
  await page.getByRole("combobox", { name: "Model" }).fill("qwen3");
  await notThisRun(page, "Not this run: no model is chosen yet.");
  await page.keyboard.press("Escape");
  await thisRun(page);
  await page.getByRole("button", { name: "config.json" }).click();
  await page.getByText("the run has meta-llama/Llama-3.1-8B").waitFor();
  const text = page.getByLabel("Contents of config.json");
  await text.fill('{"model_type": "llama"');
  await notThisRun(page, "Not this run: config.json is not a JSON object yet.");
  await text.fill("");
  await thisRun(page);
});

const SCRIPT = [
  "torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py --use-mcore-models --bf16 --foo-bar 3",
  "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --max-position-embeddings 4096",
  "--vocab-size 32000 --seq-length 4096 --micro-batch-size 1 --global-batch-size 64",
].join(" ");

scenario("a file that is not taken over is not answered", async (page) => {
  await open(page);
  await dropped(page, "train.sh", SCRIPT);
  await notThisRun(page, "Not this run: train.sh is not taken over.");
  await page.getByText("1 key not supported").waitFor();
  await number(page, "Micro-batch b").fill("2");
  await settled(page);
  await notThisRun(page, "Not this run: train.sh is not taken over.");
  await page.getByRole("button", { name: "Go on with the form" }).click();
  await thisRun(page);
  await dropped(page, "train.sh", SCRIPT);
  await notThisRun(page, /train\.sh/);
  await page.getByRole("button", { name: "Use the run without them" }).click();
  await page.getByRole("button", { name: "Use the run" }).waitFor({ state: "detached" });
  await settled(page);
  assert.match(page.url(), /model\.spec=/);
  await thisRun(page);
});

scenario("a file that is refused, or still read, is not answered", async (page) => {
  await open(page);
  await dropped(page, "paper.pdf", Buffer.from([0x25, 0x50, 0x44, 0x46, 0, 255, 254, 10, 128]));
  await notThisRun(page, "Not this run: paper.pdf is not taken over.");
  await page.locator(".launch .findings").waitFor();
  await page.getByRole("button", { name: "Go on with the form" }).click();
  await thisRun(page);
  let letGo = () => {};
  const gone = new Promise((resolve) => (letGo = () => resolve(undefined)));
  await page.route(/from-launch$/, async (route) => {
    await gone;
    await route.continue();
  });
  await dropped(page, "train.sh", SCRIPT.replace("--foo-bar 3", ""));
  await notThisRun(page, "Not this run: train.sh is being read.");
  letGo();
  await page.getByText("Read as megatron.").waitFor();
  await settled(page);
  await thisRun(page);
});

scenario("a config.json that is dropped is the model", async (page) => {
  await open(page);
  const config = { model_type: "llama", hidden_size: 2048, intermediate_size: 5632 };
  const more = { num_hidden_layers: 22, num_attention_heads: 32, vocab_size: 32000 };
  const whole = { ...config, ...more, num_key_value_heads: 4 };
  await dropped(page, "config.json", JSON.stringify(whole));
  await page.getByText("1.1 B parameters").waitFor();
  await settled(page);
  await thisRun(page);
});

scenario("a link that is opened is not answered by what was shown before", async (page) => {
  await open(page);
  const letGo = await held(page);
  await page.evaluate(() => {
    location.hash = "model.hf_id=Qwen/Qwen3-8B&parallelism.num_gpus=8&gpu=H100-80GB-SXM";
  });
  await notThisRun(page, /on the way/);
  assert.equal(await page.getByText("8.0 B parameters").count(), 0);
  letGo();
  await page.getByText("8.2 B parameters").waitFor();
  await thisRun(page);
});

scenario("what is kept free counts for every verdict", async (page) => {
  await open(page);
  await page.locator('.chip.fits[data-value="2"][aria-pressed="true"]').first().waitFor();
  await page.getByLabel("Keep free").fill("20");
  await page.locator(".verdict.tight").waitFor();
  await page.locator('.chip.tight[data-value="2"][aria-pressed="true"]').first().waitFor();
  await page.getByLabel("Keep free").fill("101");
  await notThisRun(page, "Not this run: what is kept free is not between 0 and 90 %.");
});

scenario("a proxy may refuse in words of its own", async (page) => {
  await open(page);
  await page.route(/\/v1\/(fit-check|estimate)(\?|$)/, (route) =>
    route.fulfill({ status: 503, json: { error: "upstream connect error" } }),
  );
  await chip(page, "/parallelism/tp", 4).click();
  await page.getByText("answered with status 503").waitFor();
  assert.equal(await page.locator("main.stale").count(), 1);
});

scenario("links that say nonsense are refused, and break nothing", async (page) => {
  await open(page);
  for (const nonsense of [
    "model=1",
    "model.hf_id=5",
    "model.hf_id=gpt2&parallelism=5",
    "model.hf_id=gpt2&parallelism.tp=abc",
    "model.hf_id=gpt2&gpu=[1]",
    'model.hf_id=gpt2&gpu={"memory_bytes":"x"}',
    "model.hf_id=gpt2&framework=x",
    "model.hf_id=gpt2&framework.name=torchtitan&framework.deterministic_mode=true",
    "model.hf_id=gpt2&training.precision=7",
    "model.hf_id=gpt2&training.peft=lora",
    "model.hf_id=gpt2&training.recompute.modules=mlp",
  ]) {
    await page.evaluate((hash) => (location.hash = hash), nonsense);
    await page.locator(".verdict.problem").waitFor();
    await settled(page);
    assert.equal(await page.locator("main.stale").count(), 1, nonsense);
    await page.evaluate(() => (location.hash = "model.hf_id=gpt2"));
    await thisRun(page);
  }
});
