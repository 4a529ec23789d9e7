/** The card that every rank runs on, and what is to stay free of it. */

import { html } from "../vendor/htm-preact.js";
import { gib } from "../words.js";
import { Findings } from "./field.js";

/**
 * @typedef {import("trainfit").Gpu} Gpu
 * @typedef {import("trainfit").Job["gpu"]} JobGpu
 * @typedef {import("./field.js").Context} Context
 */

/**
 * What the catalogue is to know a card by; undefined where its memory is given.
 * @param {JobGpu} gpu
 */
function nameOf(gpu) {
  if (gpu === null || typeof gpu !== "object") return gpu ?? undefined;
  return gpu.memory_bytes == null ? gpu.name : undefined;
}

/** The listed card that a job means. @param {Gpu[]} gpus @param {JobGpu} gpu */
export function listed(gpus, gpu) {
  const key = (/** @type {string} */ name) => name.toLowerCase().replace(/[ _-]/g, "");
  const named = nameOf(gpu);
  if (named === undefined) return undefined;
  return gpus.find((gpu) => [gpu.name, ...gpu.aliases].some((name) => key(name) === key(named)));
}

const CUSTOM = "custom";

/**
 * @param {{gpus: Gpu[], context: Context, headroom: number,
 *   setHeadroom: (ratio: number) => void}} props
 */
export function CardChoice({ gpus, context, headroom, setHeadroom }) {
  const { gpu } = context.job;
  const card = listed(gpus, gpu);
  const named = nameOf(gpu);
  const memory = gpu !== null && typeof gpu === "object" ? gpu.memory_bytes : undefined;
  const custom = memory !== undefined && memory !== null;
  const findings = context.findings.filter((finding) => finding.pointer.startsWith("/gpu"));
  const vendors = [...new Set(gpus.map((each) => each.vendor))];
  const choose = (/** @type {string} */ name) => {
    if (name === CUSTOM)
      context.set("/gpu", { memory_bytes: card?.reported_bytes ?? 80 * 2 ** 30 });
    else context.set("/gpu", name || undefined);
  };
  return html`<section class="card" aria-labelledby="card-title">
    <div class="card-head"><h2 id="card-title">GPU</h2></div>
    <div class="field field-row card-name">
      <label for="gpu">Card</label>
      <select id="gpu" class="wide" value=${custom ? CUSTOM : (card?.name ?? named ?? "")}
        onChange=${(/** @type {Event} */ event) =>
          choose(/** @type {HTMLSelectElement} */ (event.currentTarget).value)}>
        <option value="">none: no verdict</option>
        ${named && !card && html`<option value=${named}>${named}</option>`}
        ${vendors.map(
          (vendor) => html`<optgroup key=${vendor} label=${vendor}>
            ${gpus
              .filter((each) => each.vendor === vendor)
              .map(
                (each) => html`<option key=${each.name} value=${each.name}>
                  ${each.name} · ${gib(each.reported_bytes)}
                </option>`,
              )}
          </optgroup>`,
        )}
        <option value=${CUSTOM}>other, by its memory</option>
      </select>
    </div>
    ${custom &&
    html`<div class="field field-row">
      <label for="gpu-memory">Memory in GiB</label>
      <input id="gpu-memory" type="number" min="1" step="any" value=${memory / 2 ** 30}
        onInput=${(/** @type {Event} */ event) => {
          const gib = Number(/** @type {HTMLInputElement} */ (event.currentTarget).value);
          if (gib > 0) context.set("/gpu/memory_bytes", Math.round(gib * 2 ** 30));
        }} />
    </div>`}
    <div class="field field-row card-name">
      <label for="headroom"
        title="Share of the card's memory that is to stay free.">Keep free</label>
      <span class="with-unit"><input id="headroom" type="number" min="0" max="90" step="1"
        value=${Math.round(headroom * 1000) / 10}
        onInput=${(/** @type {Event} */ event) => {
          const percent = Number(/** @type {HTMLInputElement} */ (event.currentTarget).value);
          setHeadroom(Math.min(Math.max(percent, 0), 90) / 100);
        }} /> %</span>
    </div>
    <${Findings} ...${{ findings, id: "gpu-wrong", context }} />
  </section>`;
}
