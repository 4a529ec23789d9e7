/** The sizes that follow from the layout, with how they follow; there even while it is invalid. */

import { at } from "../job/pointer.js";
import { html } from "../vendor/htm-preact.js";
import { number, ratio } from "../words.js";

/** @typedef {import("./field.js").Context} Context */

/** @param {{context: Context, estimate: import("trainfit").Estimate | undefined}} props */
export function Derived({ context, estimate }) {
  const size = (/** @type {string} */ name) => sizeOf(context, name);
  const gpus = size("num_gpus") ?? estimate?.parallelism.num_gpus;
  const [tp, pp, cp, ep] = ["tp", "pp", "cp", "ep"].map((name) => size(name) ?? 1);
  const megatron = (context.job.framework?.name ?? "megatron") === "megatron";
  const etp = size("etp") ?? (megatron ? tp : 1);
  return html`<dl class="derived" aria-live="polite">
    <${Share} name="dp" gpus=${gpus} by=${{ tp, pp, cp }} />
    <${Share} name="expert dp" gpus=${gpus} by=${{ pp, ep, etp }} />
    <div><dt>micro-batches</dt>
      <dd>${estimate ? number(estimate.parallelism.num_microbatches) : "–"}<small>
        a step</small></dd></div>
  </dl>`;
}

/** @param {Context} context @param {string} name @returns {number | undefined} */
function sizeOf(context, name) {
  const value = at(context.job, `/parallelism/${name}`);
  return typeof value === "number" && value > 0 ? value : undefined;
}

/** @param {{name: string, gpus: number | undefined, by: Record<string, number>}} props */
function Share({ name, gpus, by }) {
  const group = Object.values(by).reduce((product, size) => product * size, 1);
  const share = gpus === undefined ? undefined : gpus / group;
  const whole = share === undefined || Number.isInteger(share);
  const formula = `GPUs / (${Object.keys(by).join(" · ")}) = ${gpus ?? "?"} / ${group}`;
  return html`<div class=${whole ? "" : "wrong"} title=${formula}>
    <dt>${name}</dt>
    <dd>${share === undefined ? "–" : ratio(share)}<small>
      ${gpus ?? "?"} / (${Object.values(by).join("·")})</small></dd>
  </div>`;
}
