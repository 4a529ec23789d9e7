/** What would become of the job with each of the values that one click sets: one comparison. */

import { ask } from "../api.js";
import { QUICK } from "./controls.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {object} Outlook
 * @property {import("trainfit").Verdict | null} verdict null where it names no card, or is refused
 * @property {number} needed Bytes expected on the device of the stage that needs most.
 * @property {string} [reason] Why the job would be refused.
 */

/** @param {string} pointer @param {unknown} value */
export function probeId(pointer, value) {
  return `${pointer}=${value}`;
}

/**
 * @param {import("../state.js").Asked} asked
 * @param {AbortSignal} signal
 * @returns {Promise<Map<string, Outlook>>} by probeId
 */
export async function probe({ job, headroom }, signal) {
  const changes = QUICK.map(({ pointer, value }) => ({
    id: probeId(pointer, value),
    patch: [{ op: /** @type {const} */ ("add"), path: pointer, value }],
  }));
  const policy = { headroom_ratio: headroom };
  const compared = await ask("v1/compare", { job: complete(job), changes, policy }, signal);
  return new Map(
    compared.jobs.map(({ id, comparison, problem }) => [
      id,
      {
        verdict: comparison?.verdict ?? null,
        needed: comparison?.binding.device_bytes.expected ?? 0,
        reason: problem?.detail,
      },
    ]),
  );
}

/** A patch adds fields only to parts that are there. @param {Job} job @returns {Job} */
export function complete(job) {
  return { ...job, parallelism: job.parallelism ?? {}, training: job.training ?? {} };
}
