/**
 * Prints how long a key press takes until an answer to it is drawn, a first look or the exact one,
 * and until the exact one is, in milliseconds, as JSON.
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
          const before = document.querySelector(".verdict")?.textContent;
          let pressed = 0;
          /** @type {number | undefined} */
          let first;
          const press = (/** @type {KeyboardEvent} */ { key }) => {
            if (/\d/.test(key)) pressed = performance.now();
          };
          addEventListener("keydown", press, { capture: true });
          // What was changed before a frame is on the screen when that has been drawn.
          const look = () => requestAnimationFrame(() => setTimeout(see));
          const see = () => {
            const changed = pressed && document.querySelector(".verdict")?.textContent !== before;
            if (changed) first ??= performance.now() - pressed;
            if (!changed || document.querySelector("main[aria-busy=true]")) return look();
            removeEventListener("keydown", press, { capture: true });
            resolve({ first, exact: performance.now() - pressed });
          };
          look();
        }),
    );
    await page.keyboard.press("Control+A");
    await page.keyboard.press(String(size));
    const taken = /** @type {Record<string, number>} */ (await drawn);
    await settled(page);
    await page.waitForTimeout(150);
    return taken;
  };
  /** @type {Record<string, number[]>} */
  const rounds = {};
  for (const round of ["new", "remembered"])
    for (const length of LENGTHS) {
      await number(page, "Sequence s").fill(String(length));
      await settled(page);
      for (const size of SIZES)
        for (const [which, taken] of Object.entries(await pressed(size)))
          (rounds[`${round}, ${which}`] ??= []).push(taken);
    }
  console.log(JSON.stringify(rounds));
} finally {
  await browser.close();
}
