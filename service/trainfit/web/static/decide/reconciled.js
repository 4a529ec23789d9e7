/** A run beside its prediction: each figure, what explains the difference, and what is found. */

import { inWords } from "../job/said.js";
import { Scroll } from "../see/scroll.js";
import { html } from "../vendor/htm-preact.js";
import {
  capital,
  gib,
  percent,
  plain,
  seconds,
  secondsRange,
  signed,
  size,
} from "../words.js";

/**
 * @typedef {import("trainfit").Reconciled} Reconciled
 * @typedef {import("trainfit").Speed} Speed
 * @typedef {{low: number, expected: number, high: number}} Bounds
 */

const MOST = 4;

/**
 * @param {{found: Reconciled, apply: import("./ran.js").Apply, speeds: Speed[],
 *   seconds: Bounds | null}} props `seconds`: predicted of a step
 */
export function Found({ found, apply, speeds, seconds: predicted }) {
  const { comparisons, explanations, findings, unread, attributions } = found;
  return html`<div role="status">
    ${!comparisons.length &&
    html`<p>No figure of memory was found${unread.length > 0 && `: ${unread[0]?.why}`}.</p>`}
    ${findings.map(({ message }) => html`<p key=${message}>${capital(message)}.</p>`)}
    ${comparisons.length > 0 && html`<p>${held(found)}</p><${Figures} found=${found} />`}
    <${Pace} ...${{ speeds, predicted }} />
    ${explanations.length > 0 && html`<${Explanations} ...${{ explanations, apply }} />`}
    ${comparisons.length > 0 && attributions.length > 0 && html`<${Parts} parts=${attributions} />`}
    ${found.snapshot && html`<p>${matched(found.snapshot)}</p>`}
    <p class="note">${seen(found)}</p>
    ${unread.length > 0 && html`<details><summary>Lines that were not read</summary>
      <ul>${unread.map(({ source, text, why }) => html`<li key=${source.line}>
        <code>${text}</code> <small>${source.name}:${source.line}, ${why}</small></li>`)}</ul>
    </details>`}
  </div>`;
}

/** @param {{found: Reconciled}} props */
function Figures({ found: { comparisons } }) {
  return html`<${Scroll} label="Measured beside predicted"><table class="reconciled">
    <thead><tr><th scope="col">bytes</th><th scope="col" class="figure">rank</th>
      <th scope="col" class="figure">low</th><th scope="col" class="figure">expected</th>
      <th scope="col" class="figure">high</th><th scope="col" class="figure">measured</th>
      <th scope="col" class="figure">off by</th><th scope="col">is</th></tr></thead>
    <tbody>${comparisons.map((each) => html`<tr key=${`${each.quantity} ${each.rank}`}>
      <th scope="row">${each.quantity} <small>line ${each.source.line}</small></th>
      <td class="figure">${each.rank ?? "–"}</td>
      ${["low", "expected", "high"].map((bound) => html`<td key=${bound} class="figure">
        ${each.predicted ? gib(each.predicted[/** @type {keyof Bounds} */ (bound)]) : "–"}</td>`)}
      <td class="figure">${each.at_least ? "≥ " : ""}${gib(each.measured_bytes)}</td>
      <td class="figure">${off(each)}</td>
      <td class=${`is ${each.verdict}`}>${each.why ?? plain(each.verdict)}</td></tr>`)}
    </tbody></table></${Scroll}>`;
}

/** What a run needed at least is off only as far as less was expected.
 * @param {Reconciled["comparisons"][number]} compared
 */
function off({ residual_bytes: bytes, at_least }) {
  return bytes === null || (at_least && bytes < 0) ? "–" : signed(bytes);
}

/** @param {{explanations: Reconciled["explanations"], apply: import("./ran.js").Apply}} props */
function Explanations({ explanations, apply }) {
  return html`<${Scroll} label="What would explain it"><table>
    <thead><tr><th scope="col">what would explain it</th>
      <th scope="col" class="figure">bytes</th><th scope="col" class="figure">off by</th>
      <th scope="col">for and against it</th><td></td></tr></thead>
    <tbody>${explanations.map((each) => html`<tr key=${each.meaning}>
      <th scope="row">${each.meaning}</th><td class="figure">${size(each.bytes)}</td>
      <td class="figure">${percent(each.before_ratio)} → ${percent(each.after_ratio)}</td>
      <td>${each.speaks_for.join(", ")}${each.speaks_against.length > 0 &&
      html`<small>but not ${each.speaks_against.join(", ")}</small>`}</td>
      <td>${each.patch.length > 0 &&
      html`<button type="button" aria-label=${`Apply: ${inWords(each.patch)}`} disabled=${!apply}
        onClick=${() => apply?.(each.patch)}>Apply</button>`}</td></tr>`)}
    </tbody></table></${Scroll}>`;
}

const HOW = { measured: "measured", group: "measured as one", predicted: "predicted only" };

/** @param {{parts: Reconciled["attributions"]}} props */
function Parts({ parts }) {
  return html`<details><summary>Part by part</summary>
    <${Scroll} label="Parts of the stages"><table>
    <thead><tr><th scope="col">part</th><th scope="col" class="figure">stage</th>
      <th scope="col" class="figure">predicted</th><th scope="col" class="figure">measured</th>
      <th scope="col">how</th></tr></thead>
    <tbody>${parts.map((each) => html`<tr key=${`${each.part} ${each.pp_rank}`}>
      <th scope="row">${plain(each.part)}</th><td class="figure">${each.pp_rank}</td>
      <td class="figure">${size(each.predicted_bytes)}</td>
      <td class="figure">${each.measured_bytes === null ? "–" : size(each.measured_bytes)}</td>
      <td>${HOW[each.how]}</td></tr>`)}</tbody></table></${Scroll}></details>`;
}

/** How long steps took beside how long they were to take: the middle one, as the first are slower.
 * @param {{speeds: Speed[], predicted: Bounds | null}} props
 */
function Pace({ speeds, predicted }) {
  const times = speeds.flatMap((each) => each.seconds ?? []).sort((a, b) => a - b);
  const middle = times[Math.floor(times.length / 2)];
  if (middle === undefined) return null;
  const said = `A step took ${seconds(middle)}`;
  if (!predicted) return html`<p>${said}.</p>`;
  const off = percent(Math.abs(middle / predicted.expected - 1));
  const more = middle > predicted.expected ? "more" : "less";
  return html`<p>${said}, ${off} ${more} than the ${seconds(predicted.expected)} that are expected
    (${secondsRange(predicted)}).</p>`;
}

/** @param {NonNullable<Reconciled["snapshot"]>} snapshot */
function matched({ pp_rank, matched_bytes, unmatched_bytes }) {
  return `Of the recording of stage ${pp_rank}, ${gib(matched_bytes)} are tensors of the prediction,
    ${size(unmatched_bytes)} are not.`;
}

/** @param {Reconciled} found */
function seen({ coverage: { ranks, num_gpus, unseen_pp_ranks, binding_seen } }) {
  const which = `${ranks.length} of ${num_gpus} GPUs reported figures`;
  const stages = unseen_pp_ranks.length ? `, none of stage ${unseen_pp_ranks.join(", ")}` : "";
  return `${which}${stages}${binding_seen ? "" : "; not the stage that needs most"}.`;
}

/** What held the memory of the rank that said something, by what is predicted of its stage.
 * @param {Reconciled} found
 */
export function held({ comparisons, estimate }) {
  const rank = comparisons.find(({ pp_rank }) => pp_rank !== null)?.pp_rank;
  const stage = rank ?? estimate.binding.pp_rank;
  const components = estimate.stages[stage]?.components ?? [];
  const largest = components.toSorted((one, other) => other.bytes - one.bytes).slice(0, MOST);
  const parts = largest.map(({ name, bytes }) => `${plain(name)} ${gib(bytes)}`).join(", ");
  return `What holds the memory of stage ${stage}: ${parts}.`;
}
