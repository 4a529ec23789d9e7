/** A launch that no reader knows: the words that everyone uses, to be confirmed as a job. */

import { at, leaves, put } from "../job/pointer.js";
import { nameOf } from "../job/said.js";
import { Scroll } from "../see/scroll.js";
import { html, useState } from "../vendor/htm-preact.js";
import { LABELS } from "./controls.js";
import { Facts } from "./facts.js";

/**
 * @typedef {import("trainfit").DraftedJob} DraftedJob
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("./field.js").Context} Context
 * @typedef {import("./facts.js").Given} Given
 */

/** Without these a job says too little to be asked about. */
const NEEDED = [
  "/model",
  "/parallelism/num_gpus",
  "/training/micro_batch_size",
  "/training/seq_length",
];

const TAKE = "Take it over as a draft";

/**
 * @param {{drafted: DraftedJob, name: string, given: Given, change: (given: Given) => void,
 *   use: (job: Job) => void, context: Context}} props
 */
export function Drafted({ drafted, name, given, change, use, context }) {
  const [left, setLeft] = useState(/** @type {string[]} */ ([]));
  const { said, programs } = drafted;
  const job = confirmed(drafted, left);
  const asked = NEEDED.filter((pointer) => at(job, pointer) === undefined);
  const whole = leaves(given.overrides ?? {}).reduce(
    (next, [pointer, value]) => (pointer ? put(next, pointer, value) : next),
    { ...job, framework: context.job.framework, gpu: context.job.gpu },
  );
  const take = () => whole.model && use(whole);
  const toggle = (/** @type {string} */ pointer) =>
    setLeft(left.includes(pointer) ? left.filter((each) => each !== pointer) : [...left, pointer]);
  return html`<section class="drafted" aria-label=${`Draft of ${name}`}>
    <p>No reader knows ${programs.length ? [...new Set(programs)].join(", ") : name}. These words
      are understood everywhere: confirm them as a draft. What its program does otherwise is not
      known.</p>
    <${Scroll} label="Words that were recognised"><table>
      <thead><tr><th scope="col">take</th><th scope="col">word</th><th scope="col">line</th>
        <th scope="col">becomes</th></tr></thead>
      <tbody>${said.map(({ file, line, key, value, pointer, used }, index) => html`<tr
        key=${index}><td><input type="checkbox" disabled=${!used}
          aria-label=${`Take ${key}`} checked=${used && !left.includes(pointer)}
          onChange=${() => toggle(pointer)} /></td>
        <th scope="row"><code>${key}</code> ${String(value)}</th>
        <td>${line === null ? file : `${file}:${line}`}</td>
        <td>${used ? labelOf(pointer) : "not taken: it is said otherwise elsewhere"}</td></tr>`)}
      </tbody></table></${Scroll}>
    ${asked.length > 0
      ? html`<${Facts} ...${{ name, given, change, context }} findings=${[]} again=${take}
        action=${TAKE} pointers=${asked.map((pointer) => `/overrides${pointer}`)} />`
      : html`<button type="button" onClick=${take}>${TAKE}</button>`}
    <p class="note">It is asked about as ${context.job.framework?.name ?? "megatron"} would run it,
      the framework of the form.</p>
  </section>`;
}

/** What is drafted of the words that are taken; adapters go with all that is said of them.
 * @param {DraftedJob} drafted
 * @param {string[]} left pointers
 * @returns {Job}
 */
export function confirmed({ job, said }, left) {
  const used = said.filter(({ used: each }) => each).map(({ pointer }) => pointer);
  const parts = ["/training/peft"].filter((part) => {
    const inside = used.filter((pointer) => pointer.startsWith(part));
    return inside.length > 0 && inside.every((pointer) => left.includes(pointer));
  });
  return [...left, ...parts].reduce(
    (next, pointer) => put(next, pointer, undefined),
    /** @type {Job} */ (/** @type {unknown} */ (job)),
  );
}

/** @param {string} pointer */
function labelOf(pointer) {
  return LABELS.get(pointer) ?? nameOf(pointer);
}
