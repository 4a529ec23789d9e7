/** The verdict in words: whether it fits, by how much, and what binds. */

import { html } from "../vendor/htm-preact.js";
import { capital, gib, plain, range, VERDICTS } from "../words.js";

/**
 * @typedef {import("trainfit").Estimate} Estimate
 * @typedef {import("trainfit").FitCheck} FitCheck
 */

/** The assumption that is told where a calibration does not count. */
const UNUSED = "calibration-unused";
const SIGNS = { fits: "✓", tight: "≈", does_not_fit: "✗", unknown: "?" };

/**
 * A first look is labelled as one, and said aloud by nobody: the exact answer is.
 * @param {{answer: import("../state.js").Answer, cardName: string, waiting: boolean}} props
 */
export function Verdict({ answer: { estimate, fit, first }, cardName, waiting }) {
  const { binding, stages } = estimate;
  const stage = stages[binding.pp_rank];
  const { low, expected, high } = binding.device_bytes;
  const where = stages.length > 1 ? `Stage ${binding.pp_rank} needs most: ` : "Each GPU needs ";
  const unused = estimate.assumptions.find(({ id }) => id === UNUSED);
  const bare = stage?.uncalibrated_device_bytes;
  const layer = stage?.peak.layer;
  const ofLayer = layer !== null && layer !== undefined ? ` of layer ${layer}` : "";
  const open = first && fit?.verdict === "tight";
  return html`<div class=${`verdict ${(!open && fit?.verdict) || "none"}`} role="status"
    aria-atomic="true" aria-live=${first ? "off" : "polite"}>
    ${first &&
    html`<p class="first-look">First look${waiting && ": exact figures are coming"}</p>`}
    <p class="headline">
      ${fit
        ? html`<span class="sign" aria-hidden="true">${SIGNS[fit.verdict]}</span>
            <strong>${open
              ? `Too close to tell at a first look whether it fits ${cardName}`
              : sentence(fit, cardName)}</strong>`
        : html`<strong>${gib(expected)} on the GPU that needs most</strong>`}
      ${fit && html` <span class="margin">${margin(fit)}</span>`}
    </p>
    <p>${where}<b>${gib(expected)}</b> on the device (${range(low, high)}), at
      ${" "}${plain(binding.moment)}${ofLayer},
      most of it ${plain(binding.component)}.</p>
    ${bare && html`<p class="bare">Without your calibration: ${gib(bare.expected)}
      ${" "}(${range(bare.low, bare.high)})${fit?.uncalibrated_verdict &&
      `, ${VERDICTS[fit.uncalibrated_verdict]}`}.</p>`}
    ${unused && html`<p class="bare">${unused.text}</p>`}
    ${estimate.warnings.map((warning) => html`<p key=${warning} class="warnings">${warning}</p>`)}
  </div>`;
}

/** The verdict in a line. @param {FitCheck} fit @param {string} cardName */
export function told(fit, cardName) {
  const usable = `${gib(fit.usable_bytes)} usable`;
  return `${sentence(fit, cardName)} (${usable}): ${margin(fit)}`;
}

/** @param {FitCheck} fit @param {string} cardName */
function sentence(fit, cardName) {
  if (fit.verdict === "unknown") return `Unknown whether it fits ${cardName}`;
  if (fit.verdict === "tight") return `Tight on ${cardName}: it may fit and may not`;
  return `${capital(VERDICTS[fit.verdict])} ${cardName}`;
}

/** Bytes expected to be free on the stage that needs most. @param {FitCheck} fit */
export function leastFree({ stages }) {
  return Math.min(...stages.map(({ margin_bytes }) => margin_bytes.expected));
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
