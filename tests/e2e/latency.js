/**
 * Prints how long a key press takes until the answer to it is drawn, in milliseconds, as JSON.
 * Each press changes the micro-batch of DeepSeek-V3 on 128 GPUs, from four stages to four others:
 * first of runs that nobody has asked about, then of the same again, which the service remembers.
 */

import { DESK, launched, number, open, settled } from "./browser.js";
import { DEEPSEEK } from "./runs.js";

const SIZES = [2, 3, 4, 5, 6, 7, 8, 9];
const LENGTHS = [4224, 4352, 4480];

const browser = await launched();
try {
  const page = await browser.newPage({ viewport: DESK });
  await open(page, DEEPSEEK);
  const pressed = async (/** @type {number} */ size) => {
    await number(page, "Micro-batch b").focus();
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
    await page.keyboard.press(String(size));
    const taken = await drawn;
    await settled(page);
    await page.waitForTimeout(150);
    return taken;
  };
  const rounds = { new: /** @type {number[]} */ ([]), remembered: /** @type {number[]} */ ([]) };
  for (const round of /** @type {const} */ (["new", "remembered"]))
    for (const length of LENGTHS) {
      await number(page, "Sequence s").fill(String(length));
      await settled(page);
      for (const size of SIZES) rounds[round].push(await pressed(size));
    }
  console.log(JSON.stringify(rounds));
} finally {
  await browser.close();
}
