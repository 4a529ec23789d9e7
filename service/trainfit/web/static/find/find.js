/** Which layout: what is sought, how far the search is, and what it has found. */

import { askTold, problemOf } from "../api.js";
import { listed } from "../ask/card.js";
import { textOf } from "../ask/input.js";
import { reasons } from "../job/said.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { capital, counted, number } from "../words.js";
import { Found } from "./found.js";
import { limitsOf, OBJECTIVES, OPEN, opened, sought, USUAL } from "./sought.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("trainfit").Gpu} Gpu
 * @typedef {import("trainfit").Found} FoundAnswer
 * @typedef {import("trainfit").Progress} Progress
 * @typedef {import("trainfit").Problem} Problem
 * @typedef {import("./sought.js").Seeking} Seeking
 * @typedef {import("./sought.js").Objective} Objective
 * @typedef {import("./sought.js").Limit} Limit
 * @typedef {import("./sought.js").Part} Part
 */

/**
 * @typedef {object} Search What became of the search that was asked for last.
 * @property {string} key What was asked.
 * @property {Progress | null} [progress]
 * @property {FoundAnswer} [found]
 * @property {Problem} [problem]
 */

/** @type {Record<Limit, string>} */
const LIMITS = {
  max_gpus: "at most so many GPUs",
  max_tp: "tensor parallel at most",
  min_tokens_per_second: "tokens/s at least",
  price_per_gpu_hour: "price of a GPU-hour",
};
/** @type {Partial<Record<Limit, string>>} */
const PLACEHOLDERS = { max_gpus: "1024", max_tp: "a node's" };

/**
 * @param {{job: Job, headroom: number, gpus: Gpu[], now: import("./scatter.js").Now | null,
 *   use: (job: Job) => void, pin: (job: Job) => void}} props `now`: what is known of the job's own
 *   layout
 */
export function Find({ job, headroom, gpus, now, use, pin }) {
  const [seeking, seek] = useState(USUAL);
  const { search, start, cancel } = useSearch();
  const change = (/** @type {Partial<Seeking>} */ part) => seek({ ...seeking, ...part });
  const question = sought(job, headroom, seeking);
  const key = JSON.stringify(question);
  const running = search !== null && !search.found && !search.problem;
  const stale = search !== null && search.key !== key;
  const found = search?.found;
  return html`<section class=${`card find ${search ? "" : "idle"} ${found && stale ? "stale" : ""}`}
    aria-labelledby="find-title">
    <div class="card-head"><h2 id="find-title">Find a layout</h2>
      ${found && stale && html`<strong class="not">not this question</strong>`}</div>
    <${Sought} ...${{ seeking, change, job, gpus }} />
    <div class="row">
      ${running
        ? html`<button type="button" onClick=${cancel}>Cancel</button>`
        : html`<button type="button" class="main" onClick=${() => start(question, key)}>
          Find</button>`}
      <span class="progress" role="status">${running && html`<${Far} of=${search.progress} />`}
      </span>
    </div>
    ${search?.problem && html`<${Refused} problem=${search.problem} />`}
    ${found && html`<${Found} ...${{ found, use, pin, job, now }} />`}
  </section>`;
}

/** @param {{seeking: Seeking, change: (part: Partial<Seeking>) => void, job: Job, gpus: Gpu[]}}
 *   props
 */
function Sought({ seeking, change, job, gpus }) {
  const { objective, open, limits, cards, tight } = seeking;
  const forced = OBJECTIVES[objective].opens;
  const toggled = (/** @type {Part} */ part) =>
    open.includes(part) ? open.filter((each) => each !== part) : [...open, part];
  const bound = (/** @type {Limit} */ name) => textOf((text) =>
    change({ limits: { ...limits, [name]: Number(text) > 0 ? Number(text) : undefined } }),
  );
  return html`<div class="sought">
    <label>Seek <select value=${objective} onChange=${textOf((value) =>
      change({ objective: /** @type {Objective} */ (value) }))}>
      ${Object.entries(OBJECTIVES).map(
        ([name, { label }]) => html`<option key=${name} value=${name}>${label}</option>`,
      )}</select></label>
    <fieldset><legend>and choose</legend>
      ${/** @type {[Part, {label: string}][]} */ (Object.entries(OPEN)).map(
        ([part, { label }]) => html`<label key=${part}><input type="checkbox"
          checked=${opened(seeking).includes(part)} disabled=${forced.includes(part)}
          onChange=${() => change({ open: toggled(part) })} /> ${label}</label>`,
      )}
    </fieldset>
    <details><summary>within limits</summary><div class="limits">
      ${limitsOf(seeking).map(
        (name) => html`<label key=${name}>${LIMITS[name]}
          ${" "}<input type="number" min="0" step="any" value=${limits[name] ?? ""}
            placeholder=${PLACEHOLDERS[name] ?? ""} onInput=${bound(name)} /></label>`,
      )}
      <label><input type="checkbox" checked=${tight}
        onChange=${() => change({ tight: !tight })} /> tight ones too</label>
      <${Cards} ...${{ cards, change, job, gpus }} />
    </div></details>
    ${objective === "cheapest" && !limits.price_per_gpu_hour &&
    html`<p class="note">The cheapest needs the price of a GPU-hour, among the limits.</p>`}
  </div>`;
}

/** At most so many may be compared in one search. */
const MOST_CARDS = 8;

/** @param {{cards: string[], change: (part: Partial<Seeking>) => void, job: Job, gpus: Gpu[]}}
 *   props
 */
function Cards({ cards, change, job, gpus }) {
  const own = listed(gpus, job.gpu)?.name;
  const other = gpus.filter(({ name }) => name !== own && !cards.includes(name));
  const add = textOf((name) =>
    change({ cards: [...(cards.length || !own ? cards : [own]), name] }));
  return html`<label>also on <select value="" disabled=${cards.length >= MOST_CARDS}
      onChange=${add}>
      <option value="">another card …</option>
      ${other.map(({ name }) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select></label>
    ${cards.map((name) => html`<button type="button" key=${name}
      aria-label=${`Without ${name}`}
      onClick=${() => change({ cards: cards.filter((each) => each !== name) })}>
      ${name} ×</button>`)}`;
}

/** @param {{of: Progress | null | undefined}} props */
function Far({ of }) {
  if (!of) return html`<progress aria-label="the search"></progress> begun`;
  return html`<progress max=${of.portions} value=${of.done} aria-label="the search"></progress>
    ${" "}${counted(of.layouts, "layout")} looked at, ${number(of.found)} found`;
}

/** @param {{problem: Problem}} props */
function Refused({ problem }) {
  return html`<div class="findings" role="alert"><ul>
    ${reasons(problem).map((each) => html`<li key=${each}>${capital(each)}.</li>`)}</ul></div>`;
}

/** One search at a time, which ends with the page or by hand. */
function useSearch() {
  const [search, setSearch] = useState(/** @type {Search | null} */ (null));
  const latest = useRef(new AbortController());
  useEffect(() => () => latest.current.abort(), []);
  const start = async (/** @type {import("./sought.js").SearchRequest} */ question,
    /** @type {string} */ key) => {
    latest.current.abort();
    latest.current = new AbortController();
    const { signal } = latest.current;
    setSearch({ key, progress: null });
    try {
      const told = (/** @type {Progress} */ progress) => setSearch({ key, progress });
      const found = await askTold("v1/search", question, signal, told);
      setSearch({ key, found });
    } catch (error) {
      const problem = problemOf(error);
      if (problem && !signal.aborted) setSearch({ key, problem });
    }
  };
  const cancel = () => {
    latest.current.abort();
    setSearch(null);
  };
  return { search, start, cancel };
}
