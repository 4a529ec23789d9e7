/** What one job says otherwise than another, in a few words. */

import { leaves } from "./pointer.js";

/** @typedef {import("trainfit").Job} Job */

/** Fields that are called by their own name, without that of the part they stand in. */
const SHORT = {
  "/framework/name": "",
  "/gpu": "",
  "/model/hf_id": "",
  "/training/recompute/granularity": "recompute",
};

/** @param {string} pointer */
export function nameOf(pointer) {
  return (
    SHORT[/** @type {keyof SHORT} */ (pointer)] ??
    (pointer.split("/").pop() ?? "").replaceAll("_", " ")
  );
}

/** @param {string} pointer @param {unknown} value */
export function said(pointer, value) {
  if (typeof value === "boolean") return value ? nameOf(pointer) : `no ${nameOf(pointer)}`;
  const text = Array.isArray(value)
    ? value.join(", ")
    : typeof value === "object" && value
      ? "…"
      : String(value);
  return `${nameOf(pointer)} ${text}`.trim();
}

/**
 * @param {Job} job
 * @param {Job} baseline
 * @returns {string[]} one entry for each field that differs
 */
export function differences(job, baseline) {
  const before = fields(baseline);
  const after = fields(job);
  const pointers = [...new Set([...before.keys(), ...after.keys()])];
  return pointers
    .filter((pointer) => JSON.stringify(before.get(pointer)) !== JSON.stringify(after.get(pointer)))
    .map((pointer) =>
      after.has(pointer)
        ? said(pointer, after.get(pointer))
        : `${nameOf(pointer) || pointer.split("/")[1]} unset`,
    );
}

/** @param {Job} job */
function fields(job) {
  return new Map(leaves(job).filter(([pointer]) => !pointer.startsWith("/model/hf_config/")));
}

/** The layout in a few words. @param {Job} job */
export function layoutOf(job) {
  const sizes = job.parallelism ?? {};
  const named = /** @type {const} */ (["tp", "pp", "vpp", "cp", "ep", "etp"]).flatMap((name) =>
    sizes[name] && sizes[name] !== 1 ? [`${name} ${sizes[name]}`] : [],
  );
  return named.join(" · ") || "one GPU each";
}
