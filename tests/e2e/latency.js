/**
 * Prints how long a key press takes until the answer to it is drawn, in milliseconds: a JSON list.
 * Each press changes the micro-batch of DeepSeek-V3 on 128 GPUs, from four stages to four others.
 */

import { DESK, launched, number, open } from "./browser.js";
import { DEEPSEEK } from "./runs.js";

const PRESSES = 60;

const browser = await launched();
try {
  const page = await browser.newPage({ viewport: DESK });
  await open(page, DEEPSEEK);
  await number(page, "Micro-batch b").focus();
  const taken = [];
  for (let press = 0; press < PRESSES; press += 1) {
    const drawn = page.evaluate(
      () =>
        new Promise((resolve) => {
          const verdict = /** @type {Element} */ (document.querySelector(".verdict"));
          const before = verdict.textContent;
          let pressed = 0;
          const press = (/** @type {KeyboardEvent} */ { key }) => {
            if (/\d/.test(key)) pressed = performance.now();
          };
          addEventListener("keydown", press, { capture: true });
          const look = () => {
            // What was changed before a frame is on the screen when that has been drawn.
            if (pressed && document.querySelector(".verdict")?.textContent !== before) {
              removeEventListener("keydown", press, { capture: true });
              requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - pressed)));
            } else requestAnimationFrame(look);
          };
          look();
        }),
    );
    await page.keyboard.press("Control+A");
    await page.keyboard.press(String((press % 8) + 2));
    taken.push(await drawn);
    await page.waitForTimeout(150);
  }
  console.log(JSON.stringify(taken));
} finally {
  await browser.close();
}
