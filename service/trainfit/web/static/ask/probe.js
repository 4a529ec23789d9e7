/** What would become of the job with each of the values that one click sets. */

import { compared } from "../decide/compared.js";
import { QUICK } from "./controls.js";

/** @param {string} pointer @param {unknown} value */
export function probeId(pointer, value) {
  return `${pointer}=${value}`;
}

/**
 * @param {import("../state.js").Asked} asked
 * @param {AbortSignal} signal
 * @returns {Promise<Map<string, import("../decide/compared.js").Outlook>>} by probeId
 */
export function probe({ job, headroom }, signal) {
  const changes = QUICK.map(({ pointer, value }) => ({
    id: probeId(pointer, value),
    patch: [{ op: /** @type {const} */ ("add"), path: pointer, value }],
  }));
  return compared(job, changes, headroom, signal);
}
