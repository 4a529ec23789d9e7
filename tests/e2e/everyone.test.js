/** For everyone: the keyboard alone, a dark phone, what axe-core finds, and answers at once. */

import assert from "node:assert/strict";
import {
  KEY,
  number,
  open,
  ORIGIN,
  ORIGIN_WITH_KEY,
  ORIGIN_WITH_LIMIT,
  settled,
  verdict,
} from "./browser.js";
import { violations } from "./axe.js";
import { dropped } from "./dropped.js";
import { held } from "./held.js";
import { scenario } from "./scenario.js";

const PIPELINE =
  "model.hf_id=Qwen/Qwen3-30B-A3B&parallelism.num_gpus=64&parallelism.pp=4&parallelism.vpp=2" +
  "&parallelism.ep=8&gpu=H100-80GB-SXM&map=/parallelism/tp,/parallelism/pp";

/** Everything is shown, also what is wrong. @param {import("playwright-core").Page} page */
async function accessible(page) {
  await open(page, PIPELINE);
  await page.getByText("30 layouts").waitFor();
  await page.getByRole("button", { name: "Pin this layout" }).click();
  await page.locator("#timeline").waitFor();
  await page.locator(".tree .twist").nth(1).click();
  await page.locator("details.others summary").first().click();
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

const PHONE = { width: 390, height: 844 };

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

scenario("the keyboard is enough", async (page) => {
  await open(page);
  const focused = () =>
    page.evaluate(
      () => document.activeElement?.id || document.activeElement?.getAttribute("aria-label"),
    );
  const tabTo = async (/** @type {string | RegExp} */ wanted) => {
    for (let count = 0; count < 120; count += 1) {
      await page.keyboard.press("Tab");
      const name = (await focused()) ?? "";
      if (typeof wanted === "string" ? name === wanted : wanted.test(name)) return;
    }
    assert.fail(`no way to ${wanted} by tab`);
  };
  await tabTo("model-search");
  await page.keyboard.type("qwen3 30b");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.getByText("30.5 B parameters").waitFor();
  await tabTo("field-parallelism-pp");
  await page.keyboard.type("2");
  await tabTo("field-parallelism-ep");
  await page.keyboard.type("2");
  await settled(page);
  await tabTo(/^Stage 1:/);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Stage 1 at its peak" }).waitFor();
  assert.match(await verdict(page), /Stage \d needs most/);
});

scenario("a dark phone shows the whole answer", async (page) => {
  await open(page, PIPELINE);
  await page.locator("#timeline").waitFor();
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(background, "rgb(22, 24, 26)");
  for (const id of ["#stage-bars", "#timeline", "#pipeline"]) {
    const box = await page.locator(id).boundingBox();
    assert.ok(box && box.x >= 0 && box.x + box.width <= 390, `${id} is cut off`);
  }
  const picture = await page.screenshot({ fullPage: true });
  assert.ok(picture.length > 20_000);
}, { colorScheme: "dark", viewport: PHONE });

scenario("a service that wants a key asks for it", async (page) => {
  await page.goto(`${ORIGIN_WITH_KEY}/`);
  await page.getByText("A key is needed").waitFor();
  await page.getByLabel("Key").fill("another key");
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByText("A key is needed").waitFor();
  await page.getByLabel("Key").fill(KEY);
  await page.getByRole("button", { name: "Open" }).click();
  await settled(page);
  assert.match(await verdict(page), /Fits/);
  assert.doesNotMatch(page.url(), /key/);
});

scenario("the report on paper says what was asked", async (page) => {
  await open(page, PIPELINE);
  await page.locator("#timeline").waitFor();
  await page.emulateMedia({ media: "print" });
  const report = page.locator(".report");
  await report.waitFor();
  assert.match(await report.innerText(), /Qwen\/Qwen3-30B-A3B[^]*num gpus\s+64[^]*vpp\s+2/);
  assert.equal(await page.locator("form.ask").isVisible(), false);
  const pages = await page.pdf({ format: "A4" });
  assert.ok(pages.length > 20_000);
});

scenario("what a limit refuses is asked again when it may", async (page) => {
  await page.goto(`${ORIGIN_WITH_LIMIT}/#${PIPELINE}&training.seq_length=131072`);
  await page.getByText("The service limits how often it is asked").waitFor();
  await page.locator(".suggestions tbody tr").first().waitFor();
  await page.locator(".chip.does_not_fit").first().waitFor();
  await page.locator(".limited:empty").waitFor({ state: "attached" });
  assert.match(await verdict(page), /Does not fit/);
});
