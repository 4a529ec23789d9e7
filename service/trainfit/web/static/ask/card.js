/** The card that every rank runs on, and what is to stay free of it. */

import { html } from "../vendor/htm-preact.js";
import { gib } from "../words.js";
import { CalibratedBy } from "./calibration.js";
import { useDraft } from "./drafts.js";
import { belongsTo, Findings } from "./field.js";
import { textOf, Wrong } from "./input.js";
import { controlOf, Part } from "./parts.js";

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
  const name = gpu !== null && typeof gpu === "object" && gpu.memory_bytes == null ? gpu.name : gpu;
  return typeof name === "string" ? name : undefined;
}

/** The listed card that a job means. @param {Gpu[]} gpus @param {JobGpu} gpu */
export function listed(gpus, gpu) {
  const key = (/** @type {string} */ name) => name.toLowerCase().replace(/[ _-]/g, "");
  const named = nameOf(gpu);
  if (named === undefined) return undefined;
  return gpus.find((gpu) => [gpu.name, ...gpu.aliases].some((name) => key(name) === key(named)));
}

const CUSTOM = "custom";
const USUAL_BYTES = 80 * 2 ** 30;

/** @param {{gpus: Gpu[], context: Context, headroom: number, keepFree: (ratio: number) => void}}
 *   props
 */
export function CardChoice({ gpus, context, headroom, keepFree }) {
  const { gpu } = context.job;
  const card = listed(gpus, gpu);
  const named = nameOf(gpu);
  const fields = context.schema.inside("/gpu", context.job);
  const findings = context.findings.filter(
    ({ pointer }) =>
      belongsTo(pointer, "/gpu") && !fields.some((field) => belongsTo(pointer, field)),
  );
  const vendors = [...new Set(gpus.map((each) => each.vendor))];
  const choose = (/** @type {string} */ name) => {
    if (name === CUSTOM) context.set("/gpu", { memory_bytes: card?.reported_bytes ?? USUAL_BYTES });
    else context.set("/gpu", name || undefined);
  };
  return html`<section class="card" aria-labelledby="card-title">
    <div class="card-head"><h2 id="card-title">GPU</h2></div>
    <div class="field field-row card-name">
      <label for="gpu">Card</label>
      <select id="gpu" class="wide"
        value=${card?.name ?? named ?? (gpu ? CUSTOM : "")}
        onChange=${textOf(choose)}>
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
    ${fields.map((pointer) => html`<${Part} key=${pointer} control=${controlOf(pointer)}
      context=${context} />`)}
    <${CalibratedBy} context=${context} />
    <${KeepFree} ...${{ headroom, keepFree, job: context.job }} />
    <${Findings} ...${{ findings, id: "gpu-wrong", context }} />
  </section>`;
}

/** In percent. Of the answer, not of the job.
 * @param {{headroom: number, keepFree: (ratio: number) => void, job: unknown}} props
 */
function KeepFree({ headroom, keepFree, job }) {
  const { draft, write, hold, leave } = useDraft("headroom", "", job);
  const onInput = textOf((text) => {
    const percent = Number(text);
    if (text === "" || !(percent >= 0 && percent <= 90))
      return hold(text, "what is kept free is not between 0 and 90 %");
    keepFree(percent / 100);
    return write(text, job);
  });
  return html`<div class="field field-row card-name">
      <label for="headroom"
        title="Share of the card's memory that is to stay free.">Keep free</label>
      <span class="with-unit"><input id="headroom" type="number" min="0" max="90" step="1"
        aria-invalid=${draft?.wrong ? "true" : undefined} onInput=${onInput} onBlur=${leave}
        value=${draft?.text ?? Number((100 * headroom).toPrecision(10))} /> %</span>
    </div>
    <${Wrong} of=${draft?.wrong} />`;
}
