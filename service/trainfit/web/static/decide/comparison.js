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
 * @typedef {import("trainfit").ComparedJob} ComparedJob
 * @typedef {import("trainfit").Comparison["stages"][number]} ComparedStage
 */

const PRESENT = "present";
const BAR = 220;

/**
 * @param {{state: State, usable: number | null, pin: () => void, unpin: (index: number) => void,
 *   use: (job: State["job"]) => void}} props
 */
export function ComparisonTable({ state, usable, pin, unpin, use }) {
  const { pins, job } = state;
  const pinned = pins.map((each, index) => ({ id: idOf(index), job: each.job }));
  const jobs = [...pinned, { id: PRESENT, job }];
  const policy = { headroom_ratio: state.headroom };
  const { answer: compared, stale } = useAsked(
    "v1/compare",
    pins.length ? { jobs, policy } : null,
  );
  const answers = new Map((compared?.jobs ?? []).map((each) => [each.id, each]));
  const found = [...answers.values()].flatMap(({ comparison }) => (comparison ? [comparison] : []));
  const most = Math.max(usable ?? 0, ...found.map((each) => each.binding.device_bytes.high), 1);
  const scale = { most, usable: usable ?? 0 };
  const outdated = pins.length > 0 && compared !== null && stale;
  return html`<section class=${`card ${pins.length ? "" : "idle"} ${outdated ? "stale" : ""}`}
    aria-labelledby="comparison-title">
    <div class="card-head"><h2 id="comparison-title">Side by side</h2>
      ${outdated && html`<strong class="not">not these runs</strong>`}
      <button type="button" onClick=${pin}>Pin this layout</button></div>
    ${!pins.length &&
    html`<p class="note">Pin a layout, change it, and see what the change saves.</p>`}
    ${pins.length > 0 &&
    html`<${Scroll} label="Layouts side by side"><table class="comparison">
      <thead><tr><th scope="col">layout</th><th scope="col">stage that needs most</th>
        <th scope="col" class="figure">needs</th><th scope="col" class="figure">difference</th>
        <th scope="col" class="figure">dp</th><th scope="col">verdict</th><td></td></tr></thead>
      <tbody>
        ${pins.map(
          (each, index) => html`<tr key=${index}>
            <${Name} name=${each.name} job=${each.job} baseline=${pins[0]?.job} />
            <${Figures} answer=${answers.get(idOf(index))} ...${scale} />
            <td class="actions">
              <button type="button" aria-label=${`Use ${each.name}`}
                onClick=${() => use(each.job)}>Use</button>
              <button type="button" aria-label=${`Remove ${each.name}`}
                onClick=${() => unpin(index)}>Remove</button>
            </td></tr>`,
        )}
        <tr class="present">
          <${Name} name="Now" job=${job} baseline=${pins[0]?.job} />
          <${Figures} answer=${answers.get(PRESENT)} ...${scale} /><td></td></tr>
      </tbody></table></${Scroll}>`}
  </section>`;
}

/** @param {number} index */
function idOf(index) {
  return `pin ${index}`;
}

/**
 * What a layout is called, and what it changes.
 * @param {{name: string, job: State["job"], baseline: State["job"]}} props
 */
function Name({ name, job, baseline }) {
  const changed = differences(job, baseline).join(", ") || "nothing changed";
  return html`<th scope="row">${name}<small>
    ${job === baseline ? "the others are compared to it" : changed}</small></th>`;
}

/** @param {{answer: ComparedJob | undefined, most: number, usable: number}} props */
function Figures({ answer, most, usable }) {
  if (answer?.problem) return html`<td colspan="5">${answer.problem.detail}</td>`;
  if (!answer?.comparison) return html`<td colspan="5"></td>`;
  const { binding, difference_bytes, parallelism, stages, verdict } = answer.comparison;
  return html`<td><${ComponentBar} stage=${stages[binding.pp_rank]} ...${{ most, usable }} /></td>
    <td class="figure">${gib(binding.device_bytes.expected)}</td>
    <td class="figure">${difference_bytes ? signed(difference_bytes) : "–"}</td>
    <td class="figure">${number(parallelism.dp)}</td>
    <td class=${`outcome ${verdict ?? ""}`}>${verdict ? VERDICTS[verdict] : "–"}</td>`;
}

/** @param {{stage: ComparedStage, most: number, usable: number}} props */
function ComponentBar({ stage, most, usable }) {
  const scale = BAR / most;
  const words = stage.components.map((each) => `${plain(each.name)} ${gib(each.bytes)}`).join(", ");
  let left = 0;
  const parts = stage.components.map((component) => {
    const x = left;
    left += component.bytes * scale;
    return { component, x };
  });
  return html`<svg width=${BAR} height="20" role="img"
    aria-label=${`stage ${stage.pp_rank}: ${words}`}>
    <title>${words}</title>
    ${parts.map(
      ({ component: { name, bytes }, x }) => html`<rect key=${name} x=${x} y="3"
        width=${bytes * scale}
        height="14" fill=${colourOf(name)} />`,
    )}
    ${usable > 0 &&
    html`<line class="limit" x1=${usable * scale} x2=${usable * scale} y1="0" y2="20" />`}
  </svg>`;
}
