/** What was measured on a cluster and counts for the next run there: kept in the browser. */

import { kept } from "../kept.js";
import { save } from "../share/save.js";
import { useStore } from "../stored.js";
import { html, useState } from "../vendor/htm-preact.js";
import { counted } from "../words.js";
import { objectOf } from "./config.js";
import { textOf } from "./input.js";

/**
 * @typedef {import("trainfit").Calibration} Calibration
 * @typedef {{name: string, document: Calibration}} Kept
 */

/** @type {import("../state.js").Store<{list: Kept[]}>} */
const calibrations = kept("calibrations");

/** Keeps a document, once. @param {Calibration} document_ */
export function keep(document_) {
  const others = calibrations.value.list.filter(
    ({ document: { digest } }) => digest !== document_.digest,
  );
  calibrations.update({ list: [...others, { name: nameOf(document_), document: document_ }] });
}

/** @param {Calibration} document_ */
function nameOf({ cluster: { gpu_name, framework_name, driver }, runs }) {
  const where = [framework_name, gpu_name, ...(driver ? [`driver ${driver}`] : [])].join(", ");
  return `${where}: ${counted(runs, "run")}`;
}

/** @param {{context: import("./field.js").Context}} props */
export function CalibratedBy({ context }) {
  const { list } = useStore(calibrations);
  const [said, say] = useState("");
  const present = context.job.calibration ?? null;
  const known = list.some(({ document: { digest } }) => digest === present?.digest);
  if (!list.length && !present) return html`<${FromFile} ...${{ context, say, said }} />`;
  const all = present && !known ? [...list, { name: nameOf(present), document: present }] : list;
  const choose = textOf((digest) =>
    context.set("/calibration", /** @type {any} */ (
      all.find((each) => each.document.digest === digest)?.document)));
  const forget = () => {
    calibrations.update({
      list: list.filter(({ document: { digest } }) => digest !== present?.digest),
    });
    context.set("/calibration", undefined);
  };
  return html`<div class="field field-row card-name">
      <label for="calibration">Calibrated</label>
      <select id="calibration" class="wide" value=${present?.digest ?? ""} onChange=${choose}>
        <option value="">by no run of yours</option>
        ${all.map(({ name, document: { digest } }) => html`<option key=${digest} value=${digest}>
          ${name}</option>`)}
      </select>
    </div>
    <div class="row kept">${present && html`
      <button type="button" class="link" onClick=${() =>
        save(JSON.stringify(present, null, 2), "application/json", "calibration.json")}>
        Download</button>
      <button type="button" class="link" onClick=${forget}>Forget it</button>`}
      <${FromFile} ...${{ context, say, said }} /></div>`;
}

/** @param {{context: import("./field.js").Context, said: string, say: (words: string) => void}}
 *   props
 */
function FromFile({ context, said, say }) {
  const take = async (/** @type {Event} */ event) => {
    const input = /** @type {HTMLInputElement} */ (event.currentTarget);
    const text = (await input.files?.[0]?.text()) ?? "";
    input.value = "";
    const found = objectOf(text);
    const given = /** @type {any} */ (found?.calibration ?? found);
    if (!given?.digest || !given.cluster) return say("That file is no calibration.");
    say("");
    keep(given);
    context.set("/calibration", given);
  };
  return html`<label class="link kept">Open a calibration …
      <input type="file" accept=".json" class="hidden" onChange=${take} /></label>
    <span role="status">${said}</span>`;
}
