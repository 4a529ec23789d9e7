/** What the answer rests on: what is taken for granted, and the values that were filled in. */

import { wayTo } from "../job/said.js";
import { Scroll } from "./scroll.js";
import { html } from "../vendor/htm-preact.js";
import { counted } from "../words.js";

/** @param {{estimate: import("trainfit").Estimate}} props */
export function Basis({ estimate }) {
  return html`<section class="card basis" aria-labelledby="basis-title">
    <div class="card-head"><h2 id="basis-title">What it rests on</h2></div>
    <dl class="assumptions">${estimate.assumptions.map(
      ({ id, text }) =>
        html`<div key=${id}><dt>${id.replaceAll("-", " ")}</dt><dd>${text}</dd></div>`,
    )}</dl>
    <details><summary>${counted(estimate.defaults.length, "value")} that you did not give</summary>
      <${Scroll} label="Values that were filled in"><table><thead><tr>
          ${["field", "value", "from", "why"].map((name) => html`<th key=${name}
            scope="col">${name}</th>`)}</tr></thead>
        <tbody>${estimate.defaults.map(
          (each) => html`<tr key=${each.pointer}><th scope="row">${wayTo(each.pointer)}</th>
            <td>${JSON.stringify(each.value)}</td><td>${each.origin}</td><td>${each.why}</td></tr>`,
        )}</tbody></table></${Scroll}>
    </details>
    <p class="note">Trainfit ${estimate.estimator_version}</p>
  </section>`;
}
