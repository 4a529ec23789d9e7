/** Launch files: what they leave open is asked for beside them. */

import assert from "node:assert/strict";
import { violations } from "./axe.js";
import { number, open, settled, verdict } from "./browser.js";
import { scenario } from "./scenario.js";

/** @typedef {import("playwright-core").Page} Page */

const SIZES =
  "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --max-position-embeddings 4096 " +
  "--tokenizer-type HuggingFaceTokenizer --tokenizer-model /data/t --micro-batch-size 1 --bf16";
const LACKING = `python pretrain_gpt.py ${SIZES} --seq-length 4096`;
const OF_VARIABLES =
  `torchrun --nproc_per_node 8 pretrain_gpt.py ${SIZES} --vocab-size 32000 --seq-length $LENGTH ` +
  "--global-batch-size $BATCH --tensor-model-parallel-size $1 --pipeline-model-parallel-size $2";

/** @param {Page} page @param {string} content @param {string} [name] */
async function chosen(page, content, name = "train.sh") {
  await page.getByText("Launch files", { exact: true }).click();
  await page
    .getByLabel("Launch files", { exact: true })
    .setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(content) });
}

/** What is asked for beside the files. @param {Page} page */
function facts(page) {
  return page.getByRole("group", { name: /^What train.sh leaves open/ });
}

/** @param {Page} page */
function readAgain(page) {
  return page.getByRole("button", { name: "Read it with these" });
}

scenario("a script that lacks facts gets a verdict by the keyboard alone", async (page) => {
  await open(page);
  await chosen(page, LACKING);
  const group = facts(page);
  await group.waitFor();
  assert.deepEqual(await group.locator("label").allInnerTexts(), ["Vocabulary", "GPUs"]);
  assert.equal(await page.getByText("overrides").count(), 0);
  await page.getByLabel("Launch files", { exact: true }).focus();
  await page.keyboard.press("Tab");
  await page.keyboard.type("32000");
  await page.keyboard.press("Enter");
  await page.locator(".not-this-run").getByText("train.sh is not taken over").waitFor();
  assert.equal(await group.getByLabel("Vocabulary").inputValue(), "32000");
  await page.keyboard.press("Tab");
  await page.keyboard.type("16");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByText("Read as megatron.").waitFor();
  await settled(page);
  assert.match(await verdict(page), /H100-80GB-SXM/);
  assert.equal(await number(page, "GPUs").last().inputValue(), "16");
  const focused = await page.evaluate(() => document.activeElement?.textContent);
  assert.equal(focused, "Read it with these");
});

scenario("facts of a launch are in the link, for curl and on the command line", async (page) => {
  await open(page);
  await chosen(page, LACKING);
  await facts(page).getByLabel("GPUs").fill("16");
  await facts(page).getByLabel("Vocabulary").fill("32000");
  await readAgain(page).click();
  await page.getByText("Read as megatron.").waitFor();
  await settled(page);
  const words = await verdict(page);
  assert.match(page.url(), /parallelism\.num_gpus=16&/);
  assert.match(decodeURIComponent(page.url()), /"vocab_size":32000/);
  for (const way of ["curl", "Command line"]) {
    await page.getByRole("button", { name: way }).click();
    const told = await page.locator(".share pre").innerText();
    assert.match(told, /"num_gpus": 16[^]*|"vocab_size": 32000/);
    assert.match(told, /"vocab_size": 32000/);
  }
  const again = await page.context().newPage();
  await again.goto(page.url());
  await settled(again);
  assert.equal(await verdict(again), words);
});

scenario("variables and arguments of a script are given as they are named", async (page) => {
  await open(page);
  await chosen(page, OF_VARIABLES);
  const group = facts(page);
  await group.waitFor();
  assert.deepEqual(await group.locator("label").allInnerTexts(), [
    "Arguments of the script",
    " none",
    "Sequence",
    "Global batch",
  ]);
  assert.deepEqual(await page.locator(".launch .findings li").allInnerTexts(), [
    "train.sh:1: --tensor-model-parallel-size: ${1} is not known: $1 is not given; give the " +
      "arguments of the script below.",
    "train.sh:1: --pipeline-model-parallel-size: ${2} is not known: $2 is not given; give the " +
      "arguments of the script below.",
    "train.sh:1: --seq-length: ${LENGTH} is not known: LENGTH is not set; give Sequence below.",
    "train.sh:1: --global-batch-size: ${BATCH} is not known: BATCH is not set; give Global batch " +
      "below.",
  ]);
  const asked = page.waitForRequest(/from-launch$/);
  await group.getByLabel("Arguments of the script").fill("4 2");
  await group.getByLabel("Sequence").fill("2048");
  await group.getByLabel("Global batch").fill("64");
  await readAgain(page).click();
  const { argv, overrides } = (await asked).postDataJSON();
  assert.equal(argv, "4 2");
  assert.deepEqual(overrides, { training: { seq_length: 2048, global_batch_size: 64 } });
  await page.getByText("Read as megatron.").waitFor();
  await settled(page);
  assert.match(page.url(), /parallelism\.tp=4&parallelism\.pp=2/);
  assert.match(page.url(), /training\.seq_length=2048/);
});

scenario("facts that are changed are no part of the answer until they are read", async (page) => {
  await open(page);
  await chosen(page, LACKING);
  await facts(page).getByLabel("GPUs").fill("16");
  await facts(page).getByLabel("Vocabulary").fill("32000");
  await readAgain(page).click();
  await page.getByText("Read as megatron.").waitFor();
  await settled(page);
  await page.locator("main:not(.stale)").waitFor();
  await facts(page).getByLabel("GPUs").fill("8");
  await page.locator(".not-this-run").getByText("train.sh is not read with that yet").waitFor();
  assert.equal(await page.locator("main.stale").count(), 1);
  assert.match(page.url(), /num_gpus=16&/);
  await readAgain(page).click();
  await page.locator("main:not(.stale)").waitFor();
  assert.match(page.url(), /num_gpus=8&/);
  await facts(page).getByLabel("GPUs").fill("-3");
  await readAgain(page).click();
  await facts(page).locator(".findings").getByText("must be at least 1").waitFor();
  assert.equal(await page.locator("main.stale").count(), 1);
});

scenario("a launch that can be of several releases is answered as the one chosen", async (page) => {
  await open(page);
  const script =
    "accelerate launch --num_processes 8 trl/scripts/sft.py --model_name_or_path Qwen/Qwen3-8B " +
    "--dataset_name x --max_seq_length 4096 --per_device_train_batch_size 1 --bf16 true";
  await chosen(page, script);
  await page.getByText("2 releases possible, and memory differs").waitFor();
  assert.equal(await page.locator("main.stale").count(), 1);
  await page.getByText('training › optimizer › implementation "foreach"').waitFor();
  await page.getByRole("button", { name: /^Use it as transformers from 4.51/ }).click();
  await settled(page);
  await page.locator("main:not(.stale)").waitFor();
  assert.match(page.url(), /optimizer\.implementation=foreach/);
});

scenario("what makes a verdict unknown is asked for where it can be given", async (page) => {
  await open(page);
  await chosen(
    page,
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.max_prompt_length=512 " +
      "data.max_response_length=512 actor_rollout_ref.model.path=Qwen/Qwen3-8B " +
      "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 " +
      "actor_rollout_ref.rollout.name=sglang " +
      "actor_rollout_ref.rollout.free_cache_engine=False trainer.n_gpus_per_node=8",
  );
  await page.getByText("1 key not supported").waitFor();
  assert.equal(await page.locator("main.stale").count(), 1);
  await facts(page).getByLabel("reserved other in GiB").fill("30");
  await readAgain(page).click();
  await page.locator("main:not(.stale)").waitFor();
  assert.match(page.url(), /gpu\.reserved_other_bytes=32212254720/);
});

scenario("files that are too long, or too many, are named and not sent", async (page) => {
  await open(page);
  let sent = 0;
  page.on("request", (request) => (sent += Number(request.url().endsWith("from-launch"))));
  await chosen(page, "# a\n".repeat(70_000), "long.sh");
  await page.getByText("long.sh is longer than a launch file may be: 262,144 char").waitFor();
  await page.locator("main.stale").waitFor();
  await chosen(page, "# b\n".repeat(2_000_000), "huge.sh");
  await page.getByText("huge.sh is longer than a launch file may be").waitFor();
  const many = Array.from({ length: 17 }, (_, index) => ({
    name: `${index}.sh`,
    mimeType: "text/plain",
    buffer: Buffer.from("true"),
  }));
  await page.getByLabel("Launch files", { exact: true }).setInputFiles(many);
  await page.getByText("17 files are more than the 16 that a launch may have").waitFor();
  assert.equal(sent, 0);
});

const OF_NOBODY =
  "python train.py --model_name Qwen/Qwen3-8B --batch_size 4 --max_length 2048 --lora_rank 16\n" +
  "python train.py --micro_batch_size 8 --micro_batch_size 4\n";

scenario("a launch that no reader knows becomes a draft to confirm", async (page) => {
  await open(page);
  await chosen(page, OF_NOBODY);
  const draft = page.getByRole("region", { name: "Draft of train.sh" });
  await draft.getByText("No reader knows train.py.").waitFor();
  await page.locator(".not-this-run").getByText("train.sh is not taken over").waitFor();
  const words = await draft.locator("tbody tr").allInnerTexts();
  assert.match(words.join("\n"), /model_name Qwen\/Qwen3-8B\s+train\.sh:1\s+Model/);
  assert.match(words.join("\n"), /max_length 2048\s+train\.sh:1\s+Sequence/);
  assert.deepEqual(await violations(page), []);
  await draft.getByLabel("Take lora_rank").uncheck();
  await draft.getByLabel("GPUs").fill("2");
  await page.locator("main.stale").waitFor();
  await draft.getByLabel("Micro-batch").fill("1");
  await draft.getByRole("button", { name: "Take it over as a draft" }).click();
  await page.locator("main:not(.stale)").waitFor();
  await settled(page);
  const said = new URLSearchParams(new URL(page.url()).hash.slice(1));
  assert.equal(said.get("model.hf_id"), "Qwen/Qwen3-8B");
  assert.equal(said.get("parallelism.num_gpus"), "2");
  assert.equal(said.get("training.seq_length"), "2048");
  assert.equal(said.get("framework.name"), "megatron");
  assert.equal([...said.keys()].some((key) => key.includes("peft")), false);
});

scenario("names and contents of files are shown as they are, and run nothing", async (page) => {
  await open(page);
  const name = "<img src=x onerror=alert(1)>.sh";
  const script = `torchrun --nproc_per_node $X pretrain_gpt.py ${SIZES} --seq-length "<b>"`;
  await chosen(page, script, name);
  await page.locator(".facts legend").getByText(`What ${name} leaves open`).waitFor();
  await page.locator(".launch .findings").getByText("<b>").waitFor();
  assert.equal(await page.locator("main img, .launch img, .launch b").count(), 0);
});
