/** What fields of a job say, in the words of those who set them. */

import { leaves, steps } from "./pointer.js";

/** @typedef {import("trainfit").Json} Json */
/** @typedef {import("trainfit").Change} Change */

/** Fields that are called by their own name, without that of the part they stand in. */
const SHORT = {
  "/framework/name": "",
  "/gpu": "",
  "/model/hf_id": "",
  "/training/micro_batch_size": "micro-batch",
  "/training/global_batch_size": "global batch",
  "/training/seq_length": "sequence",
  "/training/recompute/granularity": "recompute",
  "/training/offload_activations": "activations on the host",
  "/training/optimizer/precision_aware": "precision-aware optimizer",
  "/training/precision/gradients": "gradients in",
  "/framework/compile": "torch.compile",
  "/training/peft/r": "rank of the adapters",
  "/calibration/digest": "calibration",
};

/** Values that say all by themselves. @type {Record<string, Record<string, string>>} */
const VALUES = {
  "/parallelism/data_parallel_sharding_strategy": {
    no_shard: "nothing sharded over dp",
    optim: "optimizer states sharded over dp",
    optim_grads: "optimizer states and gradients sharded over dp",
    optim_grads_params: "weights, gradients and optimizer states sharded over dp",
  },
  "/training/loss/cross_entropy": {
    unfused: "the loss unfused",
    native_fused: "Megatron's fused loss",
    te_fused: "TransformerEngine's fused loss",
    chunked: "the loss in chunks",
  },
};

const LAYOUT = "/parallelism/pipeline_model_parallel_layout";
const RECOMPUTE = "/training/recompute/";
/** Fields of it that one phrase says. */
const PHRASED = ["granularity", "method", "num_layers", "modules", "every_nth_layer"];

/** @param {string} pointer */
export function nameOf(pointer) {
  return (
    SHORT[/** @type {keyof SHORT} */ (pointer)] ??
    (pointer.split("/").pop() ?? "").replaceAll("_", " ")
  );
}

/** Where a field stands: training › optimizer › name. @param {string} pointer */
export function wayTo(pointer) {
  return steps(pointer).join(" › ").replaceAll("_", " ");
}

/** What is wrong, thing by thing, each by the name of its field.
 * @param {import("trainfit").Problem} problem
 * @returns {string[]}
 */
export function reasons({ detail, errors }) {
  if (!errors.length) return [detail];
  return errors.map(({ pointer, message }) => {
    const field = nameOf(pointer) || wayTo(pointer);
    return field ? `${field}: ${message}` : message;
  });
}

/**
 * What fields say, a phrase for each, and one for all that say what is recomputed.
 * @param {readonly [string, Json][]} fields with their pointers
 * @returns {string[]}
 */
export function phrases(fields) {
  const of = (/** @type {[string, Json]} */ [pointer]) =>
    PHRASED.some((name) => pointer === RECOMPUTE + name);
  const inner = fields
    .filter(of)
    .map(([pointer, value]) => [pointer.slice(RECOMPUTE.length), value]);
  const recompute = recomputed(Object.fromEntries(inner));
  if (recompute === null) return fields.map(([pointer, value]) => said(pointer, value));
  const others = fields.filter((each) => !of(each));
  return [...others.map(([pointer, value]) => said(pointer, value)), recompute];
}

/** What a patch changes. @param {readonly Change[]} patch */
export function inWords(patch) {
  const gone = patch.filter(({ op }) => op === "remove");
  const given = patch.filter(({ op }) => op !== "remove");
  return [
    ...phrases(given.flatMap(({ value, path }) => leaves(value, path))),
    ...gone.map(({ path }) => `without ${nameOf(path)}`),
  ].join(", ");
}

/** @param {Record<string, Json>} fields @returns {string | null} null where words are lacking */
function recomputed({ granularity, method, num_layers = 1, modules, every_nth_layer = 1 }) {
  if (granularity === "full") {
    if (method === "block") return `recompute ${num_layers} layers a chunk`;
    if (every_nth_layer !== 1) return `recompute one layer in ${every_nth_layer}`;
    return num_layers === 1 ? "recompute every layer" : `recompute ${num_layers} layers at once`;
  }
  if (Array.isArray(modules)) return `recompute ${modules.join(", ")}`;
  return granularity === "selective" ? "recompute a part of every layer" : null;
}

/** Of a part of Megatron's layout, as Et*3. @param {string} part */
function layersOf(part) {
  return [...part.matchAll(/t(?:\*(\d+))?/g)].reduce((sum, [, many = 1]) => sum + Number(many), 0);
}

/** @param {string} pointer @param {unknown} value */
function said(pointer, value) {
  const whole = VALUES[pointer]?.[String(value)];
  if (whole) return whole;
  if (pointer === "/parallelism/num_gpus") return `${value} GPUs`;
  if (pointer === LAYOUT && typeof value === "string" && !value.includes("("))
    return `layers split ${value.split("|").map(layersOf).join(" + ")}`;
  if (pointer === "/training/optimizer/cpu_offload_fraction" && value === 1)
    return "the optimizer on the host";
  if (typeof value === "boolean") return value ? nameOf(pointer) : `no ${nameOf(pointer)}`;
  const listed = Array.isArray(value) ? value : [value];
  const nested = listed.some((each) => typeof each === "object" && each);
  const text = nested ? "…" : listed.map(String).join(", ");
  return `${nameOf(pointer)} ${text}`.trim();
}
