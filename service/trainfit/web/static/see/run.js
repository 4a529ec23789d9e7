/** The run that a report on paper is about: what was asked, field by field. */

import { nameOf } from "../job/said.js";
import { leaves } from "../job/pointer.js";
import { html } from "../vendor/htm-preact.js";

/** @param {import("trainfit").Json} value */
function written(value) {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** @param {{answer: import("../state.js").Answer}} props */
export function Run({ answer }) {
  const { model, calibration, ...parts } = answer.job;
  const { name, model_type, revision } = answer.estimate.model;
  const fields = Object.entries(parts).flatMap(([part, inner]) => leaves(inner, `/${part}`));
  return html`<section class="card report" aria-label="The run">
    <h2>The run</h2>
    <dl>
      <div><dt>model</dt><dd>
        ${name ?? `a ${model_type} of its own`}${revision && ` at ${revision}`}</dd></div>
      ${calibration &&
      html`<div><dt>calibration</dt><dd>${calibration.digest.slice(0, 12)}</dd></div>`}
      ${fields.map(
        ([pointer, value]) => html`<div key=${pointer}>
          <dt>${nameOf(pointer) || pointer.split("/")[1]}</dt>
          <dd>${Array.isArray(value) ? value.join(", ") : written(value)}</dd></div>`,
      )}
    </dl>
  </section>`;
}
