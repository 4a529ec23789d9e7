/** What would become of a job with each of some changes. */

import { ask } from "../api.js";
import { inWords, reasons } from "../job/said.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("trainfit").Change} Change
 * @typedef {{id: string, patch: Change[]}} NamedChange
 * @typedef {object} Outlook
 * @property {import("trainfit").Verdict | null} verdict null where it names no card, or is refused
 * @property {number} needed Bytes expected on the device of the stage that needs most.
 * @property {number | null} time Seconds that a step is expected to take, where that is known.
 * @property {string} [reason] Why the job would be refused.
 * @property {Change[]} patch What leads there.
 * @property {string} [split] How layers or experts are shared out otherwise than the job says, in
 *   words.
 */

/**
 * @param {Job} job
 * @param {NamedChange[]} changes
 * @param {number} headroom
 * @param {AbortSignal} [signal]
 * @returns {Promise<Map<string, Outlook>>} by id; a change that needs another split of layers or of
 *   experts with that split
 */
export async function compared(job, changes, headroom, signal) {
  const found = await asked(job, changes, headroom, signal);
  const uneven = found.flatMap(({ id, problem, patch }) => {
    const splits = (problem?.errors ?? []).map(splitFor);
    const split = splits.flat();
    const undone = patch.some(({ path }) => split.some((each) => each.path === path));
    if (!split.length || undone || splits.some((each) => !each.length)) return [];
    return [{ id, patch: [...patch, ...split], split: inWords(split) }];
  });
  const again = uneven.length ? await asked(job, uneven, headroom, signal) : [];
  const splits = new Map(uneven.map(({ id, split }) => [id, split]));
  /** @type {Map<string, Outlook>} */
  const outlooks = new Map(found.map((each) => [each.id, outlook(each)]));
  for (const each of again)
    if (!each.problem) outlooks.set(each.id, { ...outlook(each), split: splits.get(each.id) });
  return outlooks;
}

/** How to share out what does not divide: layers unevenly, experts whole.
 * @param {import("trainfit").Finding} finding
 * @returns {Change[]} none where that does not help
 */
function splitFor({ code, pointer, suggestion }) {
  if (code === "layers_not_divisible")
    return suggestion?.length ? suggestion : [{ op: "remove", path: pointer }];
  return code === "world_not_divisible" ? [{ op: "add", path: "/parallelism/etp", value: 1 }] : [];
}

/**
 * @param {Job} job
 * @param {NamedChange[]} changes
 * @param {number} headroom
 * @param {AbortSignal} [signal]
 */
async function asked(job, changes, headroom, signal) {
  const question = {
    job: complete(job),
    changes: changes.map(({ id, patch }) => ({ id, patch })),
    policy: { headroom_ratio: headroom },
    // A ratio is a hundredth of the work, so that no verdict waits.
    replay: false,
  };
  const { jobs } = await ask("v1/compare", question, signal);
  const patches = new Map(changes.map(({ id, patch }) => [id, patch]));
  // The job itself stands before its changes.
  return jobs.flatMap((each) => {
    const patch = patches.get(each.id);
    return patch ? [{ ...each, patch }] : [];
  });
}

/** @param {import("trainfit").ComparedJob & {patch: Change[]}} answer @returns {Outlook} */
function outlook({ comparison, problem, patch }) {
  return {
    verdict: comparison?.verdict ?? null,
    needed: comparison?.binding.device_bytes.expected ?? 0,
    time: comparison?.step_seconds?.expected ?? null,
    reason: problem ? reasons(problem).join("; ") : undefined,
    patch,
  };
}

/** A patch adds fields only to parts that are there. @param {Job} job @returns {Job} */
function complete(job) {
  return { ...job, parallelism: job.parallelism ?? {}, training: job.training ?? {} };
}
