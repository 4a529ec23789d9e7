/** Going over to another framework: the job keeps all that both have. */

import { ask, problemOf } from "../api.js";
import { nameOf } from "../job/said.js";
import { at } from "../job/pointer.js";
import { Store } from "../state.js";
import { useStore } from "../stored.js";
import { html } from "../vendor/htm-preact.js";

/** @typedef {import("trainfit").Job} Job */

/** What the last change of framework cost, and the job that came of it. */
const left = new Store({ job: /** @type {Job | null} */ (null), pointers: [""] });

/** A field that is refused may have hidden others. */
const ROUNDS = 4;

/**
 * Takes from the job what its framework has not, where the service knows no value that would do.
 * @param {Store<import("../state.js").State>} store
 * @param {import("../job/schema.js").JobSchema} schema
 */
export async function leaveOut(store, schema) {
  const before = store.value.job;
  /** @type {string[]} */
  const pointers = [];
  let job = before;
  for (let round = 0; round < ROUNDS; round += 1) {
    const foreign = (await lacking(job)).filter((pointer) => at(job, pointer) !== undefined);
    if (!foreign.length) break;
    pointers.push(...foreign);
    for (const pointer of foreign) job = schema.edited(job, pointer, undefined);
  }
  if (job === before || store.value.job !== before) return;
  left.update({ job, pointers });
  store.update({ job });
}

/** @param {Job} job @returns {Promise<string[]>} pointers to what the framework has not */
async function lacking(job) {
  try {
    await ask("v1/estimate?replay=false", job);
    return [];
  } catch (error) {
    const findings = problemOf(error)?.errors ?? [];
    return findings
      .filter(({ code, suggestion }) => code === "not_modelled" && !suggestion?.length)
      .map(({ pointer }) => pointer);
  }
}

/** @param {{job: Job}} props */
export function LeftOut({ job }) {
  const { job: of, pointers } = useStore(left);
  const name = job.framework?.name;
  return html`<p class="note" role="status">${of === job &&
    `Left out, as ${name} with it is not modelled: ${pointers.map(nameOf).join(", ")}.`}</p>`;
}
