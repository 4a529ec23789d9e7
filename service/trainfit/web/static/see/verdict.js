/** The verdict in words: whether it fits, by how much, and what binds. */

import { html } from "../vendor/htm-preact.js";
import { capital, gib, plain, range, VERDICTS } from "../words.js";

/**
 * @typedef {import("trainfit").Estimate} Estimate
 * @typedef {import("trainfit").FitCheck} FitCheck
 */

const SIGNS = { fits: "✓", tight: "≈", does_not_fit: "✗", unknown: "?" };

/** @param {{estimate: Estimate, fit: FitCheck | null, cardName: string}} props */
export function Verdict({ estimate, fit, cardName }) {
  const { binding, stages } = estimate;
  const stage = stages[binding.pp_rank];
  const { low, expected, high } = binding.device_bytes;
  const where = stages.length > 1 ? `Stage ${binding.pp_rank} needs most: ` : "Each GPU needs ";
  const layer = stage?.peak.layer;
  const ofLayer = layer !== null && layer !== undefined ? ` of layer ${layer}` : "";
  return html`<div class=${`verdict ${fit?.verdict ?? "none"}`} role="status" aria-atomic="true">
    <p class="headline">
      ${fit
        ? html`<span class="sign" aria-hidden="true">${SIGNS[fit.verdict]}</span>
            <strong>${sentence(fit, cardName)}</strong>`
        : html`<strong>${gib(expected)} on the GPU that needs most</strong>`}
      ${fit && html` <span class="margin">${margin(fit)}</span>`}
    </p>
    <p>${where}<b>${gib(expected)}</b> on the device (${range(low, high)}), at
      ${" "}${plain(binding.moment)}${ofLayer},
      most of it ${plain(binding.component)}.</p>
    ${estimate.warnings.map((warning) => html`<p key=${warning} class="warnings">${warning}</p>`)}
  </div>`;
}

/** @param {FitCheck} fit @param {string} cardName */
function sentence(fit, cardName) {
  if (fit.verdict === "unknown") return `Unknown whether it fits ${cardName}`;
  if (fit.verdict === "tight") return `Tight on ${cardName}: it may fit and may not`;
  return `${capital(VERDICTS[fit.verdict])} ${cardName}`;
}

/** What is free, or missing, on the stage that needs most. @param {FitCheck} fit */
function margin(fit) {
  const margins = fit.stages.map((stage) => stage.margin_bytes);
  const [low, high] = [
    Math.min(...margins.map((each) => each.low)),
    Math.min(...margins.map((each) => each.high)),
  ];
  if (low >= 0) return `${range(low, high)} free`;
  if (high < 0) return `${range(-high, -low)} missing`;
  return `between ${gib(-low)} missing and ${gib(high)} free`;
}
