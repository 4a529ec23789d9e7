/** What became of every key of launch files, or why they are no run. */

import { put } from "../job/pointer.js";
import { wayTo } from "../job/said.js";
import { html } from "../vendor/htm-preact.js";
import { capital, counted } from "../words.js";
import { below } from "./facts.js";

/**
 * @typedef {import("trainfit").JobFromLaunch} JobFromLaunch
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("trainfit").Json} Json
 * @typedef {import("trainfit").Problem} Problem
 */

/**
 * @param {{problem: Problem | string, pointers: string[]}} props `pointers`: to what is asked for
 */
export function Refused({ problem, pointers }) {
  const { detail, errors } =
    typeof problem === "string" ? { detail: problem, errors: [] } : problem;
  return html`<div class="findings" role="alert">
    ${errors.length > 0 || html`<p>${capital(detail)}.</p>`}
    ${errors.length > 0 &&
    html`<ul>${errors.map(({ message, missing = [] }, index) => html`<li key=${index}>
      ${capital(below(message, missing, pointers))}.</li>`)}</ul>`}
  </div>`;
}

/** What is not modelled is accepted by hand, as no verdict on the rest would be certain; and so is
 * a release where the files do not tell which.
 * @param {{read: JobFromLaunch, use: ((job: Job) => void) | null, pointers: string[]}} props
 *   `use`: null where its run is the one that is asked about
 */
export function Account({ read, use, pointers }) {
  const { recognised, irrelevant, defaulted, unsupported, replaced } = read.account;
  const bounded = read.account.bounded ?? [];
  return html`<div class="account" aria-live="polite">
    <p class="note">Read as ${read.format.replaceAll("_", " ")}.</p>
    ${unsupported.length > 0 &&
    html`<details open>
      <summary class="wrong">
        ${counted(unsupported.length, "key")} not supported:
        ${" "}no verdict is certain while they count</summary>
      <ul>${unsupported.map((each, index) => html`<${Key} key=${index} of=${each}>
        ${below(each.why, each.missing ?? [], pointers)}</${Key}>`)}</ul>
      ${use && !read.variants.length &&
      html`<button type="button" onClick=${() => use(read.job)}>
        Use the run without them</button>`}
    </details>`}
    ${bounded.length > 0 &&
    html`<details open>
      <summary class="wrong">
        ${counted(bounded.length, "key")} not modelled, but bounded:
        ${" "}the bounds of an answer to the files take them in, those of the form do not</summary>
      <ul>${bounded.map((each, index) => html`<${Key} key=${index} of=${each}>
        ${each.direction === "either" ? "moves" : each.direction} the peak: ${each.why}
        </${Key}>`)}</ul>
      ${use && !read.variants.length && !unsupported.length &&
      html`<button type="button" onClick=${() => use(read.job)}>
        Use the run without them</button>`}
    </details>`}
    ${read.variants.length > 0 && html`<${Releases} ...${{ read, use }} />`}
    <details>
      <summary>${counted(recognised.length, "key")} recognised</summary>
      <ul>${recognised.map((each, index) => html`<${Key} key=${index} of=${each}>
        ${became(each.became)}</${Key}>`)}</ul>
    </details>
    <details>
      <summary>${counted(irrelevant.length, "key")} without effect on memory</summary>
      <ul>${irrelevant.map((each, index) => html`<${Key} key=${index} of=${each} />`)}</ul>
    </details>
    ${(replaced ?? []).length > 0 &&
    html`<details>
      <summary>${counted((replaced ?? []).length, "field")} of the launch replaced</summary>
      <ul>${(replaced ?? []).map(
        ({ pointer, value, by }) => html`<li key=${pointer}>
          ${wayTo(pointer)} ${JSON.stringify(value)} <small>by ${by}</small></li>`,
      )}</ul>
    </details>`}
    <details>
      <summary>${counted(defaulted.length, "default")} of the launcher</summary>
      <ul>${defaulted.map(
        ({ pointer, value, whose }) => html`<li key=${pointer}>
          ${wayTo(pointer)} ${JSON.stringify(value)} <small>${whose}</small></li>`,
      )}</ul>
    </details>
  </div>`;
}

/** Of which release the run is: one answer cannot be that of several.
 * @param {{read: JobFromLaunch, use: ((job: Job) => void) | null}} props
 */
function Releases({ read, use }) {
  const offered = (/** @type {string | null} */ name, /** @type {Job} */ job) =>
    use && html`<button type="button" onClick=${() => use(job)}>Use it as ${name} has it</button>`;
  return html`<details open>
    <summary class="wrong">${counted(read.variants.length + 1, "release")} possible, and memory
      ${" "}differs</summary>
    <p>Read as ${read.releases}. ${offered(read.releases, read.job)}</p>
    ${read.variants.map(
      ({ releases, differences }) => html`<p key=${releases}>As ${releases} has it:</p>
      <ul>${differences.map(
        ({ pointer, value, otherwise }) => html`<li key=${pointer}>
          ${wayTo(pointer)} ${JSON.stringify(otherwise)}
          ${" "}<small>in place of ${JSON.stringify(value)}</small></li>`,
      )}</ul>
      ${offered(releases, as(read.job, differences))}`,
    )}
  </details>`;
}

/** @param {Job} job @param {JobFromLaunch["variants"][number]["differences"]} differences */
function as(job, differences) {
  return differences.reduce(
    (next, { pointer, otherwise }) =>
      put(next, pointer, /** @type {Json | null} */ (otherwise) ?? undefined),
    job,
  );
}

/** @param {{of: {key: string, file: string, line: number | null}, children?: unknown}} props */
function Key({ of: { key, file, line }, children }) {
  const place = line === null ? file : `${file}:${line}`;
  return html`<li><code>${key}</code> ${children} <small>${place}</small></li>`;
}

/** @param {JobFromLaunch["account"]["recognised"][number]["became"]} fields */
function became(fields) {
  const said = fields.map(({ pointer, value }) => `${wayTo(pointer)} ${JSON.stringify(value)}`);
  return `became ${[...new Set(said)].join(", ")}`;
}
