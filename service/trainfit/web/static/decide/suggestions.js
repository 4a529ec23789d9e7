/** Changes that help where a job does not simply fit, each applied with one click. */

import { inWords } from "../job/said.js";
import { Scroll } from "../see/scroll.js";
import { html, useState } from "../vendor/htm-preact.js";
import { gib, VERDICTS } from "../words.js";

/**
 * @typedef {import("trainfit").Suggestion} Suggestion
 * @typedef {import("trainfit").Change} Change
 */

const FEW = 4;

/**
 * @param {{suggestions: Suggestion[] | "unanswered" | null,
 *   verdict: import("trainfit").Verdict, apply: ((patch: Change[]) => void) | null,
 *   again: () => void}} props `apply`: null while the job is another
 */
export function Suggestions({ suggestions: found, verdict, apply, again }) {
  const [all, setAll] = useState(false);
  const suggestions = found === "unanswered" ? null : found;
  return html`<section class=${`card suggestions ${verdict === "fits" ? "idle" : "roomy"}`}
    aria-labelledby="suggestions-title">
    <div class="card-head"><h2 id="suggestions-title">What would help</h2></div>
    ${verdict === "fits" && html`<p class="note">It fits as it is.</p>`}
    ${verdict !== "fits" && suggestions === null &&
    html`<p class="note" role="status">${found === null
      ? "Looking for changes …"
      : html`The service had no time to look for changes.
        ${" "}<button type="button" disabled=${!apply} onClick=${again}>Look again</button>`}</p>`}
    ${verdict !== "fits" && suggestions?.length === 0 &&
    html`<p class="note">No change was found that saves memory.</p>`}
    ${suggestions !== null &&
    suggestions.length > 0 &&
    html`<${Scroll} label="Changes that help"><table>
      <thead><tr><th scope="col">change</th>
        <th scope="col" class="figure">saves</th><th scope="col">then it</th>
        <th scope="col">what it costs</th><td></td></tr></thead>
      <tbody>${suggestions.slice(0, all ? undefined : FEW).map(
        (suggestion) => html`<tr key=${inWords(suggestion.patch)}>
          <th scope="row">${inWords(suggestion.patch)}</th>
          <td class="figure">${gib(suggestion.saves_bytes)}</td>
          <td class=${`outcome ${suggestion.verdict}`}>${outcome(suggestion.verdict)}</td>
          <td>${suggestion.cost}</td>
          <td><button type="button" aria-label=${`Apply: ${inWords(suggestion.patch)}`}
            disabled=${!apply}
            onClick=${() => apply?.(suggestion.patch)}>Apply</button></td></tr>`,
      )}</tbody></table></${Scroll}>
      ${suggestions.length > FEW &&
      html`<button type="button" class="link" aria-expanded=${all} onClick=${() => setAll(!all)}>
        ${all ? "Fewer" : `${suggestions.length - FEW} more`}</button>`}`}
  </section>`;
}

/** @param {import("trainfit").Verdict} verdict */
function outcome(verdict) {
  return verdict === "tight"
    ? "is tight"
    : verdict === "unknown"
      ? "is unknown"
      : VERDICTS[verdict];
}
