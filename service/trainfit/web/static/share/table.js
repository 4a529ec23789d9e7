/** The answer as CSV (RFC 4180): a row for each stage, sizes in bytes. */

/** @param {import("trainfit").Estimate} estimate */
export function csv(estimate) {
  const names = estimate.stages[0]?.components.map((component) => component.name) ?? [];
  const totals = /** @type {const} */ (["allocated_bytes", "reserved_bytes", "device_bytes"]);
  const bounds = /** @type {const} */ (["low", "expected", "high"]);
  const head = [
    "pp_rank",
    "layers",
    "microbatches_in_flight",
    "peak_moment",
    ...names.map((name) => `${name}_bytes`),
    ...totals.flatMap((total) =>
      bounds.map((bound) => `${total.replace("_bytes", "")}_${bound}_bytes`),
    ),
  ];
  const rows = estimate.stages.map((stage) => [
    stage.pp_rank,
    stage.chunks.reduce((sum, chunk) => sum + chunk.layers.length, 0),
    stage.microbatches_in_flight,
    stage.peak.moment,
    ...stage.components.map((component) => component.bytes),
    ...totals.flatMap((total) => bounds.map((bound) => stage[total][bound])),
  ]);
  return [head, ...rows].map((row) => `${row.join(",")}\r\n`).join("");
}
