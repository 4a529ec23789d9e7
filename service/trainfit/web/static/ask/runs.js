/** Runs that were saved, and those that were looked at lately: both kept in the browser. */

import { layoutOf } from "../job/difference.js";
import { kept } from "../kept.js";
import { use } from "../state.js";
import { useStore } from "../stored.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { textOf } from "./input.js";

/**
 * @typedef {import("../state.js").State} State
 * @typedef {Pick<State, "job" | "headroom"> & {name: string, at: number}} Run `at`: when it was
 *   kept, in milliseconds, which tells it from others
 */

const LATELY = 20;
/** What is passed on the way to something else is not looked at. */
const LOOKED_AT_MS = 3000;

/** @type {import("../state.js").Store<{list: Run[]}>} */
const saved = kept("runs");
/** @type {import("../state.js").Store<{list: Run[]}>} */
const lately = kept("history");

/** @param {{store: import("../state.js").Store<State>, state: State, answered: boolean}} props */
export function Runs({ store, state, answered }) {
  const runs = useStore(saved).list;
  const before = useStore(lately).list;
  const [chosen, choose] = useState(/** @type {number[]} */ ([]));
  useLookedAt(state, answered);
  const open = (/** @type {Run} */ { job, headroom }) => use(store, job, headroom);
  const compared = runs.filter(({ at }) => chosen.includes(at));
  const compare = () => {
    const pins = compared.map(({ name, job }) => ({ name, job }));
    store.update({ pins: [...state.pins, ...pins] });
    document.getElementById("comparison-title")?.scrollIntoView();
  };
  const change = (/** @type {Run[]} */ list) => saved.update({ list });
  return html`<details class="runs"><summary>Saved runs and history</summary>
    <div class="row">
      <button type="button" onClick=${() => change([...runs, runOf(state)])}>Save this run</button>
      <button type="button" disabled=${!compared.length} onClick=${compare}>
        Compare the chosen</button></div>
    <ul aria-label="Saved runs">${runs.map(
      (run, index) => html`<${Saved} key=${run.at} ...${{ run, open }}
        chosen=${compared.includes(run)}
        choose=${(/** @type {boolean} */ on) =>
          choose(on ? [...chosen, run.at] : chosen.filter((at) => at !== run.at))}
        rename=${(/** @type {string} */ name) => change(runs.with(index, { ...run, name }))}
        remove=${() => change(runs.toSpliced(index, 1))} />`,
    )}</ul>
    ${before.length > 0 && html`<p class="note">Looked at lately</p>
      <ul aria-label="Looked at lately">${before.map(
        (run) => html`<li key=${run.at}><button type="button" class="link"
          title=${new Date(run.at).toLocaleString()} onClick=${() => open(run)}>
          ${run.name}</button></li>`,
      )}</ul>
      <button type="button" class="link" onClick=${() => lately.update({ list: [] })}>
        Forget these</button>`}
  </details>`;
}

/**
 * @param {{run: Run, open: (run: Run) => void, chosen: boolean, choose: (on: boolean) => void,
 *   rename: (name: string) => void, remove: () => void}} props
 */
function Saved({ run, open, chosen, choose, rename, remove }) {
  const { name, at } = run;
  return html`<li title=${`saved ${new Date(at).toLocaleString()}`}>
    <input type="checkbox" aria-label=${`Compare ${name}`} checked=${chosen}
      onChange=${() => choose(!chosen)} />
    <input type="text" aria-label="Name of a saved run" value=${name} onInput=${textOf(rename)} />
    <button type="button" aria-label=${`Open ${name}`} onClick=${() => open(run)}>Open</button>
    <button type="button" aria-label=${`Delete ${name}`} onClick=${remove}>Delete</button></li>`;
}

/** Keeps what is looked at for a while, once and the latest first.
 * @param {State} state
 * @param {boolean} answered whether the answer to it is shown
 */
function useLookedAt(state, answered) {
  useEffect(() => {
    if (!answered) return undefined;
    const timer = setTimeout(() => {
      const run = runOf(state);
      const others = lately.value.list.filter((each) => keyOf(each) !== keyOf(run));
      lately.update({ list: [run, ...others].slice(0, LATELY) });
    }, LOOKED_AT_MS);
    return () => clearTimeout(timer);
  }, [state.job, state.headroom, answered]);
}

/** @param {State} state @returns {Run} */
function runOf({ job, headroom }) {
  const { hf_id, spec } = job.model;
  const model = hf_id?.split("/").pop() ?? (spec ? "own sizes" : "own config.json");
  const gpus = job.parallelism?.num_gpus ?? 1;
  return { name: `${model}, ${gpus} GPUs: ${layoutOf(job)}`, job, headroom, at: Date.now() };
}

/** @param {Run} run */
function keyOf({ job, headroom }) {
  return JSON.stringify([job, headroom]);
}
