/** Where the service limits how often it is asked: waits, and lets the page say so. */

import { Store } from "./state.js";

/** How many questions wait to be asked again. */
export const limit = new Store({ waiting: 0 });

/** For a limit whose answer gives no time. */
const USUAL_SECONDS = 1;

/**
 * Waits as long as a refused question has to.
 * @param {Response} response
 * @param {AbortSignal} [signal]
 * @throws an AbortError where the signal ended it
 */
export async function waited(response, signal) {
  const seconds = Number(response.headers.get("retry-after") ?? USUAL_SECONDS);
  limit.update({ waiting: limit.value.waiting + 1 });
  try {
    await slept(1000 * seconds, signal);
  } finally {
    limit.update({ waiting: limit.value.waiting - 1 });
  }
}

/** @param {number} milliseconds @param {AbortSignal} [signal] @returns {Promise<void>} */
function slept(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    const ended = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    if (signal?.aborted) ended();
    signal?.addEventListener("abort", ended, { once: true });
  });
}
