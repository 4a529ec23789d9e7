/** What axe-core finds: where everything is shown, and where there is no answer. */

import assert from "node:assert/strict";
import { mapped, more, number, open, ORIGIN, PHONE, settled } from "./browser.js";
import { violations } from "./axe.js";
import { dropped } from "./dropped.js";
import { held } from "./held.js";
import { PIPELINE } from "./runs.js";
import { scenario } from "./scenario.js";

/** Everything is shown, also what is wrong. @param {import("playwright-core").Page} page */
async function accessible(page) {
  await open(page, PIPELINE);
  await mapped(page, 30);
  await page.getByRole("button", { name: "Pin this layout" }).click();
  await page.locator("#timeline").waitFor();
  await page.locator(".tree .twist").nth(1).click();
  await more(page, "Layout").click();
  await number(page, "Tensor tp").fill("3");
  await page.locator(".findings").first().waitFor();
  assert.deepEqual(await violations(page), []);
  const [page_, window_] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    innerWidth,
  ]);
  assert.ok(
    page_ !== undefined && window_ !== undefined && page_ <= window_,
    "the page is wider than its window",
  );
}

scenario("axe-core finds nothing serious in light", accessible);

scenario("axe-core finds nothing serious in dark", accessible, { colorScheme: "dark" });

scenario("axe-core finds nothing serious on a phone in light", accessible, { viewport: PHONE });

scenario("axe-core finds nothing serious on a phone in dark", accessible, {
  colorScheme: "dark",
  viewport: PHONE,
});

const SCRIPT =
  "torchrun --nproc_per_node $GPUS pretrain_gpt.py --num-layers 32 --hidden-size 4096 --bf16 " +
  "--num-attention-heads 32 --max-position-embeddings 4096 --seq-length 4096 " +
  "--tokenizer-type HuggingFaceTokenizer --tokenizer-model /data/$1 --micro-batch-size $2";

/** What stands there while there is no answer, or only one to another question.
 * @param {import("playwright-core").Page} page
 */
async function unanswered(page) {
  const none = await held(page);
  await page.goto(`${ORIGIN}/#${PIPELINE}`);
  await page.locator(".not-this-run").getByText("on the way").waitFor();
  assert.deepEqual(await violations(page), [], "nothing is answered yet");
  none();
  await settled(page);
  await page.locator("#timeline").waitFor();
  await page.getByRole("button", { name: "Pin this layout" }).click();
  const another = await held(page);
  await number(page, "Micro-batch b").fill("16");
  await page.locator(".not-this-run").getByText("Not this run").waitFor();
  assert.deepEqual(await violations(page), [], "the answer is on the way");
  another();
  await page.locator("main:not(.stale)").waitFor();
  await page.getByRole("combobox", { name: "Model" }).fill("qwen3");
  await page.locator("main.stale").waitFor();
  assert.deepEqual(await violations(page), [], "half a model");
  await page.keyboard.press("Escape");
  await page.locator("main:not(.stale)").waitFor();
  await dropped(page, "train.sh", SCRIPT);
  const facts = page.getByRole("group", { name: "What train.sh leaves open" });
  await facts.waitFor();
  assert.deepEqual(await violations(page), [], "facts are asked for");
  await facts.getByLabel("GPUs").fill("-8");
  await facts.getByLabel("Vocabulary").fill("32000");
  await facts.getByLabel("Micro-batch").fill("1");
  await page.getByRole("button", { name: "Read it with these" }).click();
  await facts.getByText("must be at least 1").waitFor();
  assert.deepEqual(await violations(page), [], "a fact that is wrong");
  await page.getByRole("button", { name: "Go on with the form" }).click();
  await dropped(page, "train.sh", `${SCRIPT} --foo 1`.replace(/\$\w+/g, "8"));
  await facts.waitFor();
  await facts.getByLabel("Vocabulary").fill("32000");
  await page.getByRole("button", { name: "Read it with these" }).click();
  await page.getByText("1 key not supported").waitFor();
  assert.deepEqual(await violations(page), [], "a file that is not taken over");
  await page.route(/\/v1\/(fit-check|estimate)$/, (route) =>
    route.fulfill({ status: 503, contentType: "text/html", body: "<h1>Bad gateway</h1>" }),
  );
  await page.getByRole("button", { name: "Use the run without them" }).click();
  await page.getByText("answered with status 503").waitFor();
  assert.deepEqual(await violations(page), [], "a service that fails");
}

scenario("axe-core finds nothing serious where there is no answer, in light", unanswered);

scenario("axe-core finds nothing serious where there is no answer, in dark", unanswered, {
  colorScheme: "dark",
});

scenario("axe-core finds nothing serious where there is no answer, on a dark phone", unanswered, {
  colorScheme: "dark",
  viewport: PHONE,
});
