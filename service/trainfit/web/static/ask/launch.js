/** A run described by the launch files that a team already has, and what became of every key. */

import { ask, problemOf } from "../api.js";
import { html, useState } from "../vendor/htm-preact.js";
import { counted } from "../words.js";

/**
 * @typedef {import("trainfit").JobFromLaunch} JobFromLaunch
 * @typedef {import("trainfit").Problem} Problem
 * @typedef {import("trainfit").Job} Job
 * @typedef {{path: string, content: string}} LaunchFile
 */

/** @param {{gpu: Job["gpu"], use: (job: Job) => void}} props */
export function LaunchFiles({ gpu, use }) {
  const [over, setOver] = useState(false);
  const [read, setRead] = useState(/** @type {JobFromLaunch | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const take = async (/** @type {FileList | null | undefined} */ list) => {
    if (!list?.length) return;
    const files = await Promise.all(
      [...list].map(async (file) => ({ path: file.name, content: await file.text() })),
    );
    try {
      const answer = await ask("v1/jobs:from-launch", { files, ...(gpu ? { gpu } : {}) });
      setRead(answer);
      setProblem(null);
      if (answer.account.unsupported.length === 0) use(answer.job);
    } catch (error) {
      setRead(null);
      setProblem(problemOf(error));
    }
  };
  const chosen = (/** @type {Event} */ event) =>
    take(/** @type {HTMLInputElement} */ (event.currentTarget).files);
  return html`<div class="launch">
    <label class=${`drop ${over ? "over" : ""}`}
      onDragOver=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave=${() => setOver(false)}
      onDrop=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        setOver(false);
        take(event.dataTransfer?.files);
      }}>
      <span>
        Drop launch files here, or choose them: a script with Megatron's arguments, a DeepSpeed
        configuration, a YAML or TOML of a trainer, and what they refer to. They are read,
        never run.</span>
      <input type="file" multiple aria-label="Launch files" onChange=${chosen} />
    </label>
    ${problem && html`<${Refusal} problem=${problem} />`}
    ${read && html`<${Account} read=${read} use=${() => use(read.job)} />`}
  </div>`;
}

/** @param {{problem: Problem}} props */
function Refusal({ problem: { detail, errors } }) {
  return html`<div class="findings" role="alert">
    <p>${detail}</p>
    ${errors.length > 0 &&
    html`<ul>${errors.map((each, index) => html`<li key=${index}>${each.message}</li>`)}</ul>`}
  </div>`;
}

/** What is not modelled is accepted by hand: no verdict on the rest would be certain.
 * @param {{read: JobFromLaunch, use: () => void}} props
 */
function Account({ read, use }) {
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
      <button type="button" onClick=${use}>Use the run without them</button>
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
