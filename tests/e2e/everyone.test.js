/** For everyone: the keyboard alone, a dark phone, paper, and who must wait or have a key. */

import assert from "node:assert/strict";
import {
  KEY,
  open,
  ORIGIN_WITH_KEY,
  ORIGIN_WITH_LIMIT,
  PHONE,
  settled,
  verdict,
} from "./browser.js";
import { PIPELINE } from "./runs.js";
import { scenario } from "./scenario.js";

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
