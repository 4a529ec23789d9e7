/** The time of a step and what it is made of. */

import { html } from "../vendor/htm-preact.js";
import { capital, number, percent, plain, seconds, secondsRange } from "../words.js";
import { Entry } from "./timeline.js";
import { useWidth } from "./width.js";

/** @typedef {import("trainfit").StepParts} StepParts */

/**
 * Paul Tol's "muted" scheme, whose colours none of the components has: time is not memory. Grey is
 * when a GPU waits.
 * @type {Record<keyof StepParts, string>}
 */
export const PARTS = {
  compute_seconds: "#5a54b0",
  tensor_parallel_seconds: "#44aa99",
  context_parallel_seconds: "#88ccee",
  expert_parallel_seconds: "#999933",
  data_parallel_seconds: "#ddcc77",
  pipeline_parallel_seconds: "#cc6677",
  bubble_seconds: "#bbbbbb",
  optimizer_seconds: "#aa4499",
  offload_seconds: "#117733",
  host_seconds: "#882255",
  jitter_seconds: "#777777",
};
const HEIGHT = 22;
const NAMES = {
  bubble_seconds: "pipeline bubble",
  host_seconds: "waiting for the host",
  jitter_seconds: "uneven ranks",
  offload_seconds: "copies from the host",
};

/** @param {keyof StepParts} part */
function nameOf(part) {
  const name = plain(part.replace(/_seconds$/, ""));
  const own = NAMES[/** @type {keyof NAMES} */ (part)];
  return own ?? (name.endsWith("parallel") ? `${name} exchange` : name);
}

/** The parts that take any time, in the order of the bar. @param {StepParts} parts */
function taken(parts) {
  const names = /** @type {(keyof StepParts)[]} */ (Object.keys(PARTS));
  const whole = names.reduce((sum, name) => sum + parts[name], 0);
  return names
    .filter((name) => parts[name] > 0.0005 * whole)
    .map((name) => ({ name, time: parts[name], share: parts[name] / whole }));
}

/** @param {{parts: StepParts, width: number}} props */
export function TimeBar({ parts, width }) {
  const found = taken(parts);
  const words = found.map((each) => `${nameOf(each.name)} ${percent(each.share)}`).join(", ");
  let left = 0;
  return html`<svg width=${width} height=${HEIGHT} role="img" aria-label=${words}>
    <title>${words}</title>
    ${found.map(({ name, share }) => {
      const x = left;
      left += share * width;
      return html`<rect key=${name} x=${x} y="3" width=${share * width} height=${HEIGHT - 6}
        fill=${PARTS[name]} />`;
    })}
  </svg>`;
}

/** The colours of the parts that some of the bars have. @param {{of: StepParts[]}} props */
export function TimeLegend({ of }) {
  const found = new Set(of.flatMap((parts) => taken(parts).map(({ name }) => name)));
  const names = /** @type {(keyof StepParts)[]} */ (Object.keys(PARTS));
  return html`<ul class="legend">
    ${names
      .filter((name) => found.has(name))
      .map((name) => html`<${Entry} key=${name} colour=${PARTS[name]} words=${nameOf(name)} />`)}
  </ul>`;
}

const BASIS = {
  calibrated: "by your own runs of this model",
  known_stack: "by constants fitted to runs of this kind of card and software",
  extrapolated: "by the card's figures: no run of it was compared",
};

/** @param {{timed: import("../asked.js").Asked<"v1/estimate?replay=false">}} props */
export function StepTime({ timed: { answer, problem, stale } }) {
  const [ref, width] = useWidth(720);
  const { step, step_seconds: bounds, untimed } = answer ?? {};
  if (problem) return null;
  return html`<section class=${`card ${stale ? "stale" : ""}`} aria-labelledby="time-title">
    <div class="card-head"><h2 id="time-title">Time of a step</h2>
      <span class="note">${step ? BASIS[step.basis] : ""}</span></div>
    <div class="picture time" ref=${ref}>
    ${step && bounds
      ? html`<p><b>${seconds(bounds.expected)}</b> expected, within
          ${" "}${secondsRange(bounds)}: ${number(Math.round(step.tokens_per_second_per_gpu))}
          ${" "}tokens/s on each GPU, ${percent(step.model_flops_utilization_ratio)} of its peak in
          ${" "}bf16 (MFU)</p>
        <${TimeBar} parts=${step.parts} width=${width} />
        <${TimeLegend} of=${[step.parts]} />`
      : html`<p class="note">${capital(untimed ?? "")}</p>`}
    </div>
  </section>`;
}
