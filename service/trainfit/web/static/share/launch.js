/** The job in the keys of its framework: what they are, their files, or why there are none. */

import { nameOf } from "../job/said.js";
import { html } from "../vendor/htm-preact.js";

/**
 * @typedef {import("trainfit").Questions["v1/jobs:to-launch"]["to"]} Target
 * @typedef {import("trainfit").Finding} Finding
 * @typedef {import("trainfit").WrittenLaunch} WrittenLaunch
 */

/** What is written for each target. @type {Record<Target, string>} */
const WRITTEN = {
  "megatron-args": "Megatron-LM's arguments",
  torchtitan: "torchtitan's arguments",
  deepspeed: "Arguments of TRL's supervised fine-tuning, with DeepSpeed's config",
  accelerate: "Arguments of TRL's supervised fine-tuning, with accelerate's config",
};

/** In whose keys the job is written. @param {import("trainfit").Job} job @returns {Target} */
export function targetOf({ framework }) {
  if (framework?.name === "torchtitan") return "torchtitan";
  if (framework?.name !== "transformers") return "megatron-args";
  return framework.data_parallel_engine === "deepspeed" ? "deepspeed" : "accelerate";
}

/**
 * @param {import("../asked.js").Asked<"v1/jobs:to-launch"> & {
 *   take: (content: string, type: string, name: string) => void}} props
 */
export function WrittenFor({ answer, problem, take }) {
  if (problem) return html`<${NotWritten} problem=${problem} />`;
  if (!answer) return null;
  return html`<div class="written">
    <span class="note">${WRITTEN[answer.to]}</span>
    ${answer.files.map(
      ({ path, content }) => html`<button type="button" key=${path}
        aria-label=${`Download ${path}`}
        onClick=${() => take(content, "text/plain", path.split("/").pop() ?? path)}>
        ↓ ${path}</button>`,
    )}
  </div>`;
}

/** @param {{problem: import("trainfit").Problem}} props */
function NotWritten({ problem: { detail, errors } }) {
  if (!errors.length) return html`<div class="findings" role="alert"><p>${detail}.</p></div>`;
  return html`<div class="findings" role="alert">
    <p>The keys of its framework cannot say this job:</p>
    <ul>${errors.map(
      ({ pointer, message }) => html`<li key=${pointer + message}>
        ${nameOf(pointer)}: ${message}.</li>`,
    )}</ul>
  </div>`;
}
