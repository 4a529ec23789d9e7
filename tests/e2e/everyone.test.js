/** For everyone: the keyboard alone, a dark phone, paper, and who must wait or have a key. */

import assert from "node:assert/strict";
import {
  KEY,
  mapped,
  number,
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
  await onTwoSheets(page);
  await page.emulateMedia({ media: null });
  await page.selectOption("#preset", "DeepSeek-V3, 1,024 H100");
  await mapped(page, 30);
  await page.locator(".suggestions tbody tr").first().waitFor();
  await page.locator(".time > svg").waitFor();
  await page.getByText("One step of stage 1").waitFor();
  await page.locator("#timeline").waitFor();
  await onTwoSheets(page);
});

/** @param {import("playwright-core").Page} page */
async function onTwoSheets(page) {
  const paper = await page.pdf({ format: "A4", printBackground: true });
  assert.ok(paper.length > 20_000);
  const sheets = paper.toString("latin1").match(/\/Type \/Page\b/g)?.length ?? 0;
  assert.ok(sheets === 1 || sheets === 2, `${sheets} sheets`);
}

/** Buttons that are too small for a finger. @param {import("playwright-core").Page} page */
function small(page) {
  return page.evaluate(() =>
    [...document.querySelectorAll("button, summary, select, input:not([type=checkbox])")]
      .map((each) => ({ each, box: each.getBoundingClientRect() }))
      .filter(({ each, box }) => box.width > 0 && !each.classList.contains("hidden"))
      .filter(({ box }) => box.width < 23.9 || box.height < 23.9)
      .map(({ each, box }) => `${each.outerHTML.slice(0, 90)} ${box.width} x ${box.height}`),
  );
}

scenario("buttons and chips are large enough, and wide windows align", async (page) => {
  await open(page, PIPELINE);
  await mapped(page, 30);
  await page.locator("#timeline").waitFor();
  assert.deepEqual(await small(page), []);
  await page.setViewportSize({ width: 1920, height: 1080 });
  const lefts = await page.evaluate(() =>
    [".top h1", "form.ask .card", ".top nav", "main .verdict"].map((each) => {
      const { left, right } = /** @type {Element} */ (document.querySelector(each))
        .getBoundingClientRect();
      return [left, right];
    }),
  );
  assert.ok(Math.abs((lefts[0]?.[0] ?? 0) - (lefts[1]?.[0] ?? 99)) <= 1, lefts.join());
  assert.ok(Math.abs((lefts[2]?.[1] ?? 0) - (lefts[3]?.[1] ?? 99)) <= 1, lefts.join());
});

scenario("a phone has buttons for fingers, and tables say that they scroll", async (page) => {
  await open(page, PIPELINE);
  await mapped(page, 30);
  await page.locator("#timeline").waitFor();
  assert.deepEqual(await small(page), []);
  const tree = page.getByRole("region", { name: "Modules", exact: true });
  const hint = await tree.evaluate((each) => getComputedStyle(each, "::after").content);
  assert.match(hint, /scroll sideways/);
}, { viewport: PHONE });

scenario("what a field is can be touched", async (page) => {
  const browser = /** @type {import("playwright-core").Browser} */ (page.context().browser());
  const context = await browser.newContext({ viewport: PHONE, hasTouch: true, isMobile: true });
  const phone = await context.newPage();
  await open(phone);
  const field = phone.locator('[data-pointer="/parallelism/tp"]');
  const about = field.locator("[id$=-about]");
  const words = (await about.textContent()) ?? "";
  assert.ok(words.length > 10);
  assert.deepEqual((await about.boundingBox())?.width, 1);
  await field.getByRole("button", { name: "Help" }).tap();
  assert.ok(((await about.boundingBox())?.width ?? 0) > 100);
  assert.deepEqual(await small(phone), []);
  await context.close();
});

scenario("no pointer is shown to people", async (page) => {
  await open(page, PIPELINE);
  await page.locator("#timeline").waitFor();
  for (const details of await page.locator("main details").all())
    await details.evaluate((each) => each.setAttribute("open", ""));
  await number(page, "Tensor tp").fill("3");
  await page.locator(".verdict.problem").waitFor();
  const text = (await page.evaluate(() => document.body.innerText)).replace(/^http.*$/m, "");
  assert.deepEqual(text.match(/.*\/(parallelism|training|framework|model)\/\w.*/g), null);
  assert.equal(await page.getByText("It fits as it is").count(), 0);
  assert.equal(await page.getByText("No change was found").count(), 0);
  const remedy = page.locator(".verdict.problem").getByRole("button", { name: /^Set tp to/ });
  await remedy.first().click();
  await page.locator("main:not(.stale)").waitFor();
});

scenario("what a limit refuses is asked again when it may", async (page) => {
  await page.goto(`${ORIGIN_WITH_LIMIT}/#${PIPELINE}&training.seq_length=131072`);
  await page.getByText("The service limits how often it is asked").waitFor();
  await page.locator(".suggestions tbody tr").first().waitFor();
  await page.locator(".chip.does_not_fit").first().waitFor();
  await page.locator(".limited:empty").waitFor({ state: "attached" });
  assert.match(await verdict(page), /Does not fit/);
});
