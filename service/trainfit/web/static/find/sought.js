/** What a search is asked for: the job without what is left open of it, and what is sought. */

import { at, put } from "../job/pointer.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("trainfit").SearchRequest} SearchRequest
 * @typedef {NonNullable<SearchRequest["objective"]>} Objective
 */

/** Fields of a job that a search chooses where they are not given, by what a person calls them. */
export const OPEN = {
  gpus: { label: "number of GPUs", pointers: ["/parallelism/num_gpus"] },
  layout: {
    label: "layout",
    pointers: [
      ...["tp", "pp", "vpp", "cp", "ep", "etp"],
      ...["num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"],
      ...["account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"],
      ...["pipeline_model_parallel_layout", "sequence_parallel"],
      ...["data_parallel_sharding_strategy", "use_distributed_optimizer"],
    ].map((name) => `/parallelism/${name}`),
  },
  batch: { label: "micro-batch", pointers: ["/training/micro_batch_size"] },
  recompute: {
    label: "recompute and offload",
    pointers: [
      "/training/recompute",
      "/training/offload_activations",
      "/training/optimizer/cpu_offload_fraction",
    ],
  },
};

/** @typedef {keyof typeof OPEN} Part */

/** @type {Record<Objective, {label: string, opens: Part[]}>} */
export const OBJECTIVES = {
  fastest: { label: "the fastest", opens: [] },
  fewest_gpus: { label: "the fewest GPUs", opens: ["gpus"] },
  cheapest: { label: "the cheapest tokens", opens: [] },
  most_headroom: { label: "most memory free", opens: [] },
  longest_sequence: { label: "the longest sequence", opens: [] },
  largest_micro_batch: { label: "the largest micro-batch", opens: ["batch"] },
};

/** Objectives that the time of a step decides. @type {Objective[]} */
export const BY_TIME = ["fastest", "fewest_gpus", "cheapest"];

/**
 * @typedef {object} Seeking
 * @property {Objective} objective
 * @property {Part[]} open What is left open beside what the objective opens.
 * @property {string[]} cards To choose from; none: the job's.
 * @property {boolean} tight Whether a layout may be tight.
 * @property {Partial<Record<Limit, number>>} limits
 * @typedef {"max_gpus" | "max_tp" | "min_tokens_per_second" | "price_per_gpu_hour"} Limit
 */

/** @type {Seeking} */
export const USUAL = {
  objective: "fastest",
  open: ["layout", "batch", "recompute"],
  cards: [],
  tight: false,
  limits: {},
};

/** How many layouts are answered: a picture shows more than a table. */
const BEST = 20;

/** What is left open. @param {Seeking} seeking @returns {Part[]} */
export function opened({ objective, open }) {
  return [...new Set([...open, ...OBJECTIVES[objective].opens])];
}

/** The limits that count for what is sought. @param {Seeking} seeking @returns {Limit[]} */
export function limitsOf(seeking) {
  const { objective } = seeking;
  return [
    ...(opened(seeking).includes("gpus") ? [/** @type {const} */ ("max_gpus")] : []),
    ...(opened(seeking).includes("layout") ? [/** @type {const} */ ("max_tp")] : []),
    ...(BY_TIME.includes(objective) ? [/** @type {const} */ ("min_tokens_per_second")] : []),
    ...(objective === "cheapest" ? [/** @type {const} */ ("price_per_gpu_hour")] : []),
  ];
}

/**
 * @param {Job} job
 * @param {number} headroom
 * @param {Seeking} seeking
 * @returns {SearchRequest}
 */
export function sought(job, headroom, seeking) {
  const { gpu, ...task } = opened(seeking)
    .flatMap((part) => pointersOf(part, job))
    .reduce((left, pointer) => put(left, pointer, undefined), job);
  const limits = limitsOf(seeking).map((name) => [name, seeking.limits[name]]);
  return {
    ...task,
    ...(seeking.cards.length ? { gpus: seeking.cards } : { gpu }),
    ...Object.fromEntries(limits.filter(([, value]) => value !== undefined)),
    objective: seeking.objective,
    accept: seeking.tight ? "tight" : "fits",
    policy: { headroom_ratio: headroom },
    best: BEST,
  };
}

/** What waits on the host comes with an optimizer that knows its precision.
 * @param {Part} part
 * @param {Job} job
 */
function pointersOf(part, job) {
  const offloads = part === "recompute" && at(job, "/training/optimizer/cpu_offload_fraction");
  return [...OPEN[part].pointers, ...(offloads ? ["/training/optimizer/precision_aware"] : [])];
}
