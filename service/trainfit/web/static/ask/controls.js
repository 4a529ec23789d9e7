/** Which fields of a job the form shows, in what order, and the values that one click sets. */

/**
 * @typedef {object} Control
 * @property {string} pointer
 * @property {string} label
 * @property {string} [symbol] The field's short name, where the field of work has one.
 * @property {number[]} [quick] Values to choose with one click.
 */

/**
 * @typedef {object} Section
 * @property {string} title
 * @property {Control[]} controls Shown at once.
 * @property {string[]} parts Pointers to parts of a job whose other fields are shown on request.
 */

const LENGTHS = [4096, 8192, 32768, 131072];

/** @type {Section} */
export const LAYOUT = {
  title: "Layout",
  controls: [
    { pointer: "/parallelism/num_gpus", label: "GPUs", quick: [8, 16, 64, 128, 512] },
    { pointer: "/parallelism/tp", label: "Tensor", symbol: "tp", quick: [1, 2, 4, 8, 16] },
    { pointer: "/parallelism/pp", label: "Pipeline", symbol: "pp", quick: [1, 2, 4, 8, 16] },
    { pointer: "/parallelism/vpp", label: "Chunks", symbol: "vpp", quick: [1, 2, 3, 4, 8] },
    { pointer: "/parallelism/cp", label: "Context", symbol: "cp", quick: [1, 2, 4, 8, 16] },
    { pointer: "/parallelism/ep", label: "Expert", symbol: "ep", quick: [1, 4, 8, 16, 32, 64] },
    { pointer: "/parallelism/etp", label: "Expert tensor", symbol: "etp", quick: [1, 2, 4, 8] },
    { pointer: "/parallelism/data_parallel_sharding_strategy", label: "Shared over dp" },
  ],
  parts: ["/parallelism"],
};

/** @type {Section} */
export const STEP = {
  title: "Step",
  controls: [
    {
      pointer: "/training/micro_batch_size",
      label: "Micro-batch",
      symbol: "b",
      quick: [1, 2, 4, 8, 16],
    },
    { pointer: "/training/global_batch_size", label: "Global batch" },
    { pointer: "/training/seq_length", label: "Sequence", symbol: "s", quick: LENGTHS },
    { pointer: "/training/recompute/granularity", label: "Recompute" },
    { pointer: "/training/recompute/method", label: "by method" },
    { pointer: "/training/recompute/modules", label: "of modules" },
    { pointer: "/training/precision", label: "Precision" },
    { pointer: "/training/optimizer/name", label: "Optimizer" },
  ],
  parts: ["/training"],
};

/** @type {Section} */
export const FRAMEWORK = {
  title: "Framework",
  controls: [{ pointer: "/framework", label: "Framework" }],
  parts: ["/framework", "/estimator_version"],
};

/** @type {Section} */
export const SPEED = {
  title: "Speed",
  controls: [{ pointer: "/speed/stack", label: "Software" }],
  parts: ["/speed"],
};

export const SECTIONS = [FRAMEWORK, LAYOUT, STEP, SPEED];

/** The names of fields on the form, by their pointers. */
export const LABELS = new Map([
  ...SECTIONS.flatMap((section) => section.controls).map(
    ({ pointer, label }) => /** @type {[string, string]} */ ([pointer, label]),
  ),
  ["/model/hf_id", "Model"],
  ["/model/hf_config", "or its config.json"],
  ["/model/spec/vocab_size", "Vocabulary"],
]);

/** Every value that one click sets, as the patch that sets it. */
export const QUICK = SECTIONS.flatMap((section) => section.controls).flatMap((control) =>
  (control.quick ?? []).map((value) => ({ pointer: control.pointer, value })),
);

/** @param {number} value */
export function abbreviated(value) {
  return value >= 2048 && value % 1024 === 0 ? `${value / 1024}k` : String(value);
}
