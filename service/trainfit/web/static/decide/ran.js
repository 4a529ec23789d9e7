/** What the run has printed, an error of a full memory above all: beside the prediction, and what
 * the next run learns from it.
 */

import { useAsked } from "../asked.js";
import { objectOf } from "../ask/config.js";
import { reasons } from "../job/said.js";
import { html, useState } from "../vendor/htm-preact.js";
import { capital, counted } from "../words.js";
import { Learn } from "./learn.js";
import { Found } from "./reconciled.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("trainfit").Run} Run
 * @typedef {((patch: import("trainfit").Change[]) => void) | null} Apply null while the job is
 *   another
 */

/**
 * @param {{job: Job, apply: Apply, timed: import("../asked.js").Asked<"v1/estimate?replay=false">,
 *   use: (job: Job) => void}} props
 */
export function Ran({ job, apply, timed, use }) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState(/** @type {File[]} */ ([]));
  const [run, setRun] = useState(/** @type {Run | null} */ (null));
  const { answer, problem, stale } = useAsked("v1/reconcile", run ? { ...job, run } : null);
  const artifacts = run?.artifacts ?? [];
  const logs = useAsked("v1/measurements:from-logs", artifacts.length ? { artifacts } : null);
  const found = run ? answer : null;
  const outdated = found !== null && stale;
  const seconds = timed.stale ? null : (timed.answer?.step_seconds ?? null);
  return html`<section class=${`card ran ${run ? "" : "idle"} ${outdated ? "stale" : ""}`}
    aria-labelledby="ran-title">
    <div class="card-head"><h2 id="ran-title">What the run said</h2>
      ${outdated && html`<strong class="not">not this run</strong>`}</div>
    <p class="note">Paste its error or its log: what held the memory, and which changes make it
      fit.</p>
    <textarea aria-label="An error or a log of the run" rows="3" spellcheck="false" value=${text}
      placeholder="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate …"
      onInput=${(/** @type {Event} */ event) =>
        setText(/** @type {HTMLTextAreaElement} */ (event.currentTarget).value)}></textarea>
    <div class="row">
      <button type="button" disabled=${!text.trim() && !files.length}
        onClick=${async () => setRun(await runOf(text, files))}>Put beside the prediction</button>
      <label class="link">${files.length ? counted(files.length, "file") : "or choose logs …"}
        <input type="file" multiple class="hidden" aria-label="Logs, or a summary of a snapshot"
          onChange=${(/** @type {Event} */ event) =>
            setFiles([.../** @type {HTMLInputElement} */ (event.currentTarget).files ?? []])} />
      </label></div>
    ${run && !stale && problem &&
    html`<p class="note">${capital(reasons(problem).join("; "))}.</p>`}
    ${found && run && html`<${Found} ...${{ found, seconds }} apply=${outdated ? null : apply}
        speeds=${logs.stale ? [] : (logs.answer?.speeds ?? [])} />
      <${Learn} ...${{ job, run, use }} />`}
  </section>`;
}

/** What was pasted and the files that were chosen: logs, and what summarises a recording.
 * @param {string} text
 * @param {File[]} files
 * @returns {Promise<Run>}
 */
async function runOf(text, files) {
  const read = await Promise.all(
    files.map(async (file) => ({ name: file.name, text: await file.text() })),
  );
  const summaries = read.map((file) => objectOf(file.text)).filter((each) => each?.segments);
  const logs = read.filter((file) => !objectOf(file.text)?.segments);
  const pasted = text.trim() ? [{ name: "pasted", text }] : [];
  return {
    artifacts: [...pasted, ...logs],
    ...(summaries[0] ? { snapshot_summary: /** @type {any} */ (summaries[0]) } : {}),
  };
}
