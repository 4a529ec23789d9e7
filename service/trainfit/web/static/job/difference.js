/** What one job says otherwise than another, in a few words. */

import { leaves } from "./pointer.js";
import { nameOf, phrases } from "./said.js";

/** @typedef {import("trainfit").Job} Job */
/** @typedef {import("trainfit").Json} Json */

/**
 * @param {Job} job
 * @param {Job} baseline
 * @returns {string[]} what is given otherwise, and then what is given no longer
 */
export function differences(job, baseline) {
  const before = fields(baseline);
  const after = fields(job);
  const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
    (pointer) => JSON.stringify(before.get(pointer)) !== JSON.stringify(after.get(pointer)),
  );
  const given = changed.flatMap((pointer) => {
    const value = after.get(pointer);
    return value === undefined ? [] : [/** @type {[string, Json]} */ ([pointer, value])];
  });
  const unset = changed.filter((pointer) => !after.has(pointer));
  return [
    ...phrases(given),
    ...unset.map((pointer) => `${nameOf(pointer) || pointer.split("/")[1]} unset`),
  ];
}

/** @param {Job} job */
function fields(job) {
  const told = (/** @type {[string, Json]} */ [pointer]) =>
    !pointer.startsWith("/model/hf_config/") && !/^\/calibration\/(?!digest)/.test(pointer);
  return new Map(leaves(job).filter(told));
}

/** The layout in a few words. @param {Job} job */
export function layoutOf(job) {
  const sizes = job.parallelism ?? {};
  const named = /** @type {const} */ (["tp", "pp", "vpp", "cp", "ep", "etp"]).flatMap((name) =>
    sizes[name] && sizes[name] !== 1 ? [`${name} ${sizes[name]}`] : [],
  );
  return named.join(" · ") || "one GPU each";
}
