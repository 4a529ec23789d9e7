/** What became of every key of launch files, or why they are no run. */

import { html } from "../vendor/htm-preact.js";
import { capital, counted } from "../words.js";

/**
 * @typedef {import("trainfit").JobFromLaunch} JobFromLaunch
 * @typedef {import("trainfit").Problem} Problem
 */

/** @param {{problem: Problem | string}} props */
export function Refused({ problem }) {
  const { detail, errors } =
    typeof problem === "string" ? { detail: problem, errors: [] } : problem;
  return html`<div class="findings" role="alert">
    <p>${capital(detail)}.</p>
    ${errors.length > 0 &&
    html`<ul>${errors.map(({ message }, index) => html`<li key=${index}>
      ${capital(message)}.</li>`)}</ul>`}
  </div>`;
}

/** What is not modelled is accepted by hand: no verdict on the rest would be certain.
 * @param {{read: JobFromLaunch, use: (() => void) | null}} props `use`: null
 *   where its run is the one that is asked about
 */
export function Account({ read, use }) {
  const { recognised, irrelevant, defaulted, unsupported } = read.account;
  return html`<div class="account" aria-live="polite">
    <p class="note">Read as ${read.format.replaceAll("_", " ")}.</p>
    ${unsupported.length > 0 &&
    html`<details open>
      <summary class="wrong">
        ${counted(unsupported.length, "key")} not supported:
        ${" "}no verdict is certain while they count</summary>
      <ul>${unsupported.map((each, index) => html`<${Key} key=${index} of=${each}>
        ${each.why}</${Key}>`)}</ul>
      ${use && html`<button type="button" onClick=${use}>Use the run without them</button>`}
    </details>`}
    <details>
      <summary>${counted(recognised.length, "key")} recognised</summary>
      <ul>${recognised.map((each, index) => html`<${Key} key=${index} of=${each}>
        ${became(each.became)}</${Key}>`)}</ul>
    </details>
    <details>
      <summary>${counted(irrelevant.length, "key")} without effect on memory</summary>
      <ul>${irrelevant.map((each, index) => html`<${Key} key=${index} of=${each} />`)}</ul>
    </details>
    <details>
      <summary>${counted(defaulted.length, "default")} of the launcher</summary>
      <ul>${defaulted.map(
        ({ pointer, value, whose }) => html`<li key=${pointer}>
          ${pointer} ${JSON.stringify(value)} <small>${whose}</small></li>`,
      )}</ul>
    </details>
  </div>`;
}

/** @param {{of: {key: string, file: string, line: number | null}, children?: unknown}} props */
function Key({ of: { key, file, line }, children }) {
  const place = line === null ? file : `${file}:${line}`;
  return html`<li><code>${key}</code> ${children} <small>${place}</small></li>`;
}

/** @param {JobFromLaunch["account"]["recognised"][number]["became"]} fields */
function became(fields) {
  const said = fields.map(({ pointer, value }) => `${pointer} ${JSON.stringify(value)}`);
  return `became ${[...new Set(said)].join(", ")}`;
}
