/** Layouts that were pinned, beside the present one and what changed. */

import { useAsked } from "../asked.js";
import { differences } from "../job/difference.js";
import { colourOf } from "../see/components.js";
import { Scroll } from "../see/scroll.js";
import { html } from "../vendor/htm-preact.js";
import { gib, number, plain, signed, VERDICTS } from "../words.js";

/**
 * @typedef {import("../state.js").State} State
 * @typedef {import("../state.js").Pin} Pin
 * @typedef {import("trainfit").Comparison} Comparison
 */

const PRESENT = "present";
const BAR = 220;

/**
 * @param {{state: State, usable: number, pin: () => void, unpin: (index: number) => void,
 *   use: (job: State["job"]) => void}} props
 */
export function ComparisonTable({ state, usable, pin, unpin, use }) {
  const { pins, job } = state;
  const jobs = [...pins.map((each, index) => ({ id: `pin ${index}`, job: each.job })), { id: PRESENT, job }];
  const { answer: compared } = useAsked("v1/compare", pins.length ? { jobs } : null);
  const answers = new Map((compared?.jobs ?? []).map((each) => [each.id, each]));
  const found = [...answers.values()].flatMap(({ comparison }) => (comparison ? [comparison] : []));
  const most = Math.max(usable, ...found.map((each) => each.binding.device_bytes.high), 1);
  const first = pins[0];
  const row = (/** @type {string} */ id, /** @type {string} */ name, /** @type {State["job"]} */ of, /** @type {unknown} */ actions) => {
    const answer = answers.get(id);
    const changed = first && of !== first.job ? differences(of, first.job) : [];
    return html`<tr key=${id} class=${id === PRESENT ? "present" : ""}>
      <th scope="row">${name}<small>${first && of !== first.job ? changed.join(", ") || "nothing changed" : "the others are compared to it"}</small></th>
      <${Figures} comparison=${answer?.comparison ?? null} problem=${answer?.problem ?? null} most=${most} usable=${usable} />
      <td class="actions">${actions}</td>
    </tr>`;
  };
  return html`<section class=${`card ${pins.length ? "" : "idle"}`} aria-labelledby="comparison-title">
    <div class="card-head"><h2 id="comparison-title">Side by side</h2>
      <button type="button" onClick=${pin}>Pin this layout</button></div>
    ${!pins.length && html`<p class="note">Pin a layout, change it, and see what the change saves.</p>`}
    ${pins.length > 0 &&
    html`<${Scroll} label="Layouts side by side"><table class="comparison">
      <thead><tr><th scope="col">layout</th><th scope="col">stage that needs most</th>
        <th scope="col" class="figure">needs</th><th scope="col" class="figure">difference</th>
        <th scope="col" class="figure">dp</th><th scope="col">verdict</th><td></td></tr></thead>
      <tbody>
        ${pins.map((each, index) =>
          row(`pin ${index}`, each.name, each.job, html`
            <button type="button" aria-label=${`Use ${each.name}`} onClick=${() => use(each.job)}>Use</button>
            <button type="button" aria-label=${`Remove ${each.name}`} onClick=${() => unpin(index)}>Remove</button>`),
        )}
        ${row(PRESENT, "Now", job, null)}
      </tbody></table></${Scroll}>`}
  </section>`;
}

/** @param {{comparison: Comparison | null, problem: import("trainfit").Problem | null, most: number, usable: number}} props */
function Figures({ comparison, problem, most, usable }) {
  if (problem) return html`<td colspan="5">${problem.detail}</td>`;
  if (!comparison) return html`<td colspan="5"></td>`;
  const { binding, difference_bytes, parallelism, verdict } = comparison;
  const stage = comparison.stages[binding.pp_rank];
  let left = 0;
  return html`<td><svg width=${BAR} height="20" role="img"
      aria-label=${`stage ${binding.pp_rank}: ${(stage?.components ?? []).map((each) => `${plain(each.name)} ${gib(each.bytes)}`).join(", ")}`}>
      ${stage?.components.map((component) => {
        const x = left;
        const width = (component.bytes / most) * BAR;
        left += width;
        return html`<rect key=${component.name} x=${x} y="3" width=${width} height="14" fill=${colourOf(component.name)}>
          <title>${plain(component.name)}: ${gib(component.bytes)}</title></rect>`;
      })}
      ${usable > 0 && html`<line class="limit" x1=${(usable / most) * BAR} x2=${(usable / most) * BAR} y1="0" y2="20" />`}
    </svg></td>
    <td class="figure">${gib(binding.device_bytes.expected)}</td>
    <td class="figure">${difference_bytes ? signed(difference_bytes) : "–"}</td>
    <td class="figure">${number(parallelism.dp)}</td>
    <td class=${`outcome ${verdict ?? ""}`}>${verdict ? VERDICTS[verdict] : "–"}</td>`;
}
