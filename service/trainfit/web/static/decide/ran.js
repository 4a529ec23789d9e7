/** What the run has printed, an error of a full memory above all: what held it, and what helps. */

import { useAsked } from "../asked.js";
import { Scroll } from "../see/scroll.js";
import { html, useState } from "../vendor/htm-preact.js";
import { capital, gib, plain, range, size } from "../words.js";
import { inWords } from "./suggestions.js";

/**
 * @typedef {import("trainfit").Reconciled} Reconciled
 * @typedef {import("trainfit").Component} Component
 * @typedef {import("trainfit").Change} Change
 * @typedef {import("trainfit").Job} Job
 * @typedef {((patch: Change[]) => void) | null} Apply null while the job is another
 */

const MOST = 4;

/** @param {{job: Job, apply: Apply}} props */
export function Ran({ job, apply }) {
  const [text, setText] = useState("");
  const [said, setSaid] = useState("");
  const asked = said ? { ...job, run: { artifacts: [{ name: "pasted", text: said }] } } : null;
  const { answer, problem, stale } = useAsked("v1/reconcile", asked);
  const found = asked && !stale ? answer : null;
  return html`<section class=${`card ran ${said ? "" : "idle"}`} aria-labelledby="ran-title">
    <div class="card-head"><h2 id="ran-title">What the run said</h2></div>
    <p class="note">Paste its error or its log: what held the memory, and which changes make it
      fit.</p>
    <textarea aria-label="An error or a log of the run" rows="3" spellcheck="false" value=${text}
      placeholder="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate …"
      onInput=${(/** @type {Event} */ event) =>
        setText(/** @type {HTMLTextAreaElement} */ (event.currentTarget).value)}></textarea>
    <button type="button" disabled=${!text.trim()} onClick=${() => setSaid(text)}>
      Put beside the prediction</button>
    ${asked && !stale && problem && html`<p class="note">${capital(problem.detail)}.</p>`}
    ${found && html`<${Found} ...${{ found, apply }} />`}
  </section>`;
}

/** @param {{found: Reconciled, apply: Apply}} props */
function Found({ found, apply }) {
  const { comparisons, explanations, findings, unread } = found;
  return html`<div role="status">
    ${!comparisons.length &&
    html`<p>No figure of memory was found${unread.length > 0 && `: ${unread[0]?.why}`}.</p>`}
    ${findings.map(({ message }) => html`<p key=${message}>${capital(message)}.</p>`)}
    ${comparisons.length > 0 && html`<p>${held(found)}</p>
    <${Scroll} label="Measured beside predicted"><table>
      <thead><tr><th scope="col">bytes</th><th scope="col" class="figure">rank</th>
        <th scope="col" class="figure">measured</th><th scope="col" class="figure">predicted</th>
        <th scope="col">is</th></tr></thead>
      <tbody>${comparisons.map(
        ({ quantity, rank, measured_bytes, at_least, predicted, verdict, why }) => html`<tr
          key=${`${quantity} ${rank}`}><th scope="row">${quantity}</th>
          <td class="figure">${rank}</td>
          <td class="figure">${at_least ? "≥ " : ""}${gib(measured_bytes)}</td>
          <td class="figure">${predicted ? range(predicted.low, predicted.high) : ""}</td>
          <td>${why ?? plain(verdict)}</td></tr>`,
      )}</tbody></table></${Scroll}>`}
    ${explanations.length > 0 &&
    html`<${Scroll} label="What would explain it"><table>
      <thead><tr><th scope="col">what would explain it</th>
        <th scope="col" class="figure">bytes</th><td></td></tr></thead>
      <tbody>${explanations.map(
        ({ meaning, bytes, patch }) => html`<tr key=${meaning}>
          <th scope="row">${meaning}</th><td class="figure">${size(bytes)}</td>
          <td>${patch.length > 0 &&
          html`<button type="button" aria-label=${`Apply: ${inWords(patch)}`} disabled=${!apply}
            onClick=${() => apply?.(patch)}>Apply</button>`}</td></tr>`,
      )}</tbody></table></${Scroll}>`}
  </div>`;
}

/** What held the memory of the rank that said something, by what is predicted of its stage.
 * @param {Reconciled} found
 */
export function held({ comparisons, estimate }) {
  const seen = comparisons.find(({ pp_rank }) => pp_rank !== null)?.pp_rank;
  const rank = seen ?? estimate.binding.pp_rank;
  const components = estimate.stages[rank]?.components ?? [];
  const largest = components.toSorted((one, other) => other.bytes - one.bytes).slice(0, MOST);
  const parts = largest.map(({ name, bytes }) => `${plain(name)} ${gib(bytes)}`).join(", ");
  return `What holds the memory of stage ${rank}: ${parts}.`;
}
