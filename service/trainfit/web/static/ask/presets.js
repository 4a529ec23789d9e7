/** Well-known runs to start from. */

import { html } from "../vendor/htm-preact.js";

/**
 * @typedef {{name: string, source: string, job: import("trainfit").Job}} Preset
 */

/**
 * @param {{presets: Preset[], job: import("trainfit").Job,
 *   use: (job: Preset["job"]) => void}} props
 */
export function Presets({ presets, job, use }) {
  const present = JSON.stringify(job);
  const chosen = presets.find((preset) => JSON.stringify(preset.job) === present);
  return html`<div class="field presets">
    <label class="hidden" for="preset">Start from a well-known run</label>
    <select id="preset" class="wide" value=${chosen?.name ?? ""}
      onChange=${(/** @type {Event} */ event) => {
        const { value } = /** @type {HTMLSelectElement} */ (event.currentTarget);
        const preset = presets.find((each) => each.name === value);
        if (preset) use(preset.job);
      }}>
      <option value="">Start from a well-known run …</option>
      ${presets.map(({ name }) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select>
    <p class="note">${chosen ? `Source: ${chosen.source}.` : null}</p>
  </div>`;
}
