/** What a stage needs at its peak, component by component, and how each follows. */

import { Scroll } from "./scroll.js";
import { html } from "../vendor/htm-preact.js";
import { counted, gib, number, percent, plain, range, ratio } from "../words.js";
import { colourOf } from "./components.js";

/**
 * @typedef {import("trainfit").Stage} Stage
 * @typedef {import("trainfit").Component} Component
 */

/** @param {{stage: Stage}} props */
export function Composition({ stage }) {
  const whole = stage.device_bytes.expected;
  const totals = /** @type {const} */ ([
    ["allocated", stage.allocated_bytes, "tensors"],
    ["reserved", stage.reserved_bytes, "what PyTorch's allocator holds"],
    ["on the device", stage.device_bytes, "what nvidia-smi shows"],
  ]);
  return html`<${Scroll} label="Components"><table class="composition">
    <caption class="hidden">Components of stage ${stage.pp_rank} at its peak</caption>
    <thead><tr><th scope="col">component</th><th scope="col" class="figure">size</th>
      <th scope="col" class="figure">share</th><th scope="col">how it follows</th></tr></thead>
    <tbody>${stage.components.map(
      (component) => html`<tr key=${component.name}>
        <th scope="row"><svg width="12" height="12" aria-hidden="true"><rect width="12" height="12"
          rx="2"
          fill=${colourOf(component.name)} /></svg> ${plain(component.name)}</th>
        <td class="figure">${gib(component.bytes)}</td>
        <td class="figure">${percent(component.bytes / whole)}</td>
        <td>${reason(component, stage)}</td></tr>`,
    )}</tbody>
    <tfoot>${totals.map(
      ([name, bytes, meaning]) => html`<tr key=${name}><th scope="row">${name}</th>
        <td class="figure">${gib(bytes.expected)}</td><td></td>
        <td>${range(bytes.low, bytes.high)} · ${meaning}</td></tr>`,
    )}</tfoot>
  </table></${Scroll}>`;
}

/** @param {Component} component @param {Stage} stage */
function reason(component, stage) {
  const { peak } = stage;
  const operation = peak.operation ? `${plain(peak.operation)} in ` : "";
  switch (component.name) {
    case "activations":
      return `kept for backward, with up to ${inFlight(stage)} in flight`;
    case "workspace":
      return `borrowed at the peak by ${operation}${plain(peak.moment)}, and standing workspaces`;
    case "framework_buffers":
      return "buckets, gathered weights, and what the pipeline receives and sends";
    case "allocator_slack":
      return "reserved but not allocated";
    case "context_and_communicators":
      return "CUDA context and NCCL, outside PyTorch";
    default: {
      const count = number(component.parameter_count_per_gpu ?? 0);
      const which = component.name === "weights" ? "parameters" : "trained parameters";
      return `${count} ${which} × ${ratio(component.bytes_per_parameter ?? 0)} bytes`;
    }
  }
}

/** How much is kept for backward at most: a rank of several chunks keeps forwards of each.
 * @param {Stage} stage
 */
export function inFlight({ chunks, microbatches_in_flight }) {
  return counted(microbatches_in_flight, chunks.length > 1 ? "chunk" : "micro-batch");
}

/** The moment of the peak, in words. @param {Stage} stage */
export function moment({ peak }) {
  const layer = peak.layer === null ? "" : `, layer ${peak.layer}`;
  const batch = peak.microbatch === null ? "" : `, micro-batch ${peak.microbatch}`;
  return `${plain(peak.moment)}${layer}${batch}`;
}
