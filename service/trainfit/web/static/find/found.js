/** What a search has found: the best few, what they trade, and why the others fell. */

import { layoutOf } from "../job/difference.js";
import { leaves } from "../job/pointer.js";
import { phrases } from "../job/said.js";
import { Scroll } from "../see/scroll.js";
import { TimeBar, TimeLegend } from "../see/time.js";
import { html, useState } from "../vendor/htm-preact.js";
import {
  capital,
  counted,
  gib,
  number,
  percent,
  seconds,
  secondsRange,
  VERDICTS,
} from "../words.js";
import { Scatter } from "./scatter.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("trainfit").Found} Answer
 * @typedef {import("trainfit").FoundLayout} FoundLayout
 */

const FEW = 5;
const BAR = 130;

/**
 * @param {{found: Answer, use: (job: Job) => void, pin: (job: Job) => void, job: Job,
 *   now: import("./scatter.js").Now | null}} props
 */
export function Found({ found, use, pin, job, now }) {
  const [all, setAll] = useState(false);
  const [selected, setSelected] = useState(-1);
  const { best, pareto, tried } = found;
  const layouts = together(best, pareto);
  const select = (/** @type {number} */ index) => {
    setSelected(index);
    if (index >= FEW) setAll(true);
  };
  const various = new Set(layouts.map(({ gpu }) => gpu)).size > 1;
  const shown = layouts.slice(0, all ? undefined : FEW);
  const parts = shown.flatMap((each) => (each.parts ? [each.parts] : []));
  return html`<div class="found">
    <p role="status">${best.length ? inWords(found) : "No layout was found."}
      ${" "}<span class="note">${counted(tried.layouts, "layout")} looked at,
      ${" "}${counted(tried.jobs, "job")} estimated in full.</span></p>
    ${best.length > 0 &&
    html`<${Scatter} ...${{ layouts, pareto, now, selected, select }} />
    <${Scroll} label="Layouts that were found"><table class="layouts">
      <thead><tr><th scope="col">layout</th><th scope="col">verdict</th>
        <th scope="col" class="figure">free</th><th scope="col" class="figure">step</th>
        <th scope="col">made of</th><th scope="col" class="figure">tokens/s, GPU</th>
        <th scope="col" class="figure">MFU</th><td></td></tr></thead>
      <tbody>${shown.map((each, index) => html`<${Row} key=${index}
        ...${{ each, index, use, pin, job, various }} selected=${index === selected} />`)}</tbody>
    </table></${Scroll}>
    ${layouts.length > FEW &&
    html`<button type="button" class="link" aria-expanded=${all} onClick=${() => setAll(!all)}>
      ${all ? "Fewer" : `${layouts.length - FEW} more`}</button>`}
    ${parts.length > 0 && html`<${TimeLegend} of=${parts} />`}`}
    <${Fell} fell=${tried.fell} />
  </div>`;
}

/** The best, and behind them what they are beaten by in something. A layout is its job.
 * @param {FoundLayout[]} best
 * @param {FoundLayout[]} pareto
 */
export function together(best, pareto) {
  const found = new Map([...best, ...pareto].map((each) => [JSON.stringify(each.job), each]));
  return [...found.values()];
}

/** @param {Answer} found */
function inWords({ best: [first], best }) {
  const ties = best.filter(({ tie }) => tie).length;
  if (!first) return "";
  const time = first.step_seconds ? `, ${seconds(first.step_seconds.expected)} a step` : "";
  const others = ties > 1 ? ` ${ties} are a tie: no time that is known tells them apart.` : "";
  return `Best: ${layoutOf(first.job)} on ${counted(first.num_gpus, "GPU")}${time}.${others}`;
}

/** What was chosen beside the sizes of the layout, in words. @param {Job} job */
function chosenIn({ parallelism, training }) {
  const { data_parallel_sharding_strategy: sharding } = parallelism ?? {};
  const { optimizer, recompute, ...step } = training ?? {};
  const { micro_batch_size, seq_length, offload_activations } = step;
  const { cpu_offload_fraction } = optimizer ?? {};
  const chosen = {
    parallelism: { data_parallel_sharding_strategy: sharding },
    training: { micro_batch_size, seq_length, recompute, offload_activations,
      optimizer: { cpu_offload_fraction } },
  };
  return phrases(leaves(JSON.parse(JSON.stringify(chosen))).filter(([, value]) => !isEmpty(value)));
}

/** @param {unknown} value */
function isEmpty(value) {
  return value === null || (typeof value === "object" && !Object.keys(value ?? {}).length);
}

/**
 * @param {{each: FoundLayout, index: number, use: (job: Job) => void, pin: (job: Job) => void,
 *   job: Job, selected: boolean, various: boolean}} props `various`: whether cards differ
 */
function Row({ each, index, use, pin, job, selected, various }) {
  const { step_seconds, parts, verdict, headroom_bytes, num_gpus, gpu } = each;
  const name = `${layoutOf(each.job)} on ${num_gpus} ${gpu}`;
  const own = JSON.stringify(each.job) === JSON.stringify(job);
  const where = various ? `${num_gpus} ${gpu}` : num_gpus;
  return html`<tr class=${selected ? "selected" : ""}>
    <th scope="row">${index + 1}. ${layoutOf(each.job)} on ${where}
      ${each.tie && html` <span class="tie">tie</span>`}
      <small>${chosenIn(each.job).join(", ")}${own && " · in the form"}</small></th>
    <td class=${`outcome ${verdict}`}>${VERDICTS[verdict]}</td>
    <td class="figure">${gib(headroom_bytes)}</td>
    <td class="figure">${step_seconds
      ? html`${seconds(step_seconds.expected)}<small>${secondsRange(step_seconds)}</small>`
      : "–"}</td>
    <td>${parts && html`<${TimeBar} parts=${parts} width=${BAR} />`}</td>
    <td class="figure">${each.tokens_per_second_per_gpu === null
      ? "–" : number(Math.round(each.tokens_per_second_per_gpu))}
      ${each.cost_per_million_tokens !== null &&
      html`<small>${each.cost_per_million_tokens.toPrecision(3)} per million</small>`}</td>
    <td class="figure">${each.model_flops_utilization_ratio === null
      ? "–" : percent(each.model_flops_utilization_ratio)}</td>
    <td class="actions">
      <button type="button" aria-label=${`Use ${name}`} onClick=${() => use(each.job)}>Use</button>
      <button type="button" aria-label=${`Pin ${name}`} onClick=${() => pin(each.job)}>Pin</button>
    </td></tr>`;
}

/** @param {{fell: Answer["tried"]["fell"]}} props */
function Fell({ fell }) {
  if (!fell.length) return null;
  return html`<details class="fell"><summary>Why the others fell</summary>
    <ul>${fell.map(
      ({ message, layouts, example }) => html`<li key=${message}>
        <b>${number(layouts)}</b> ${capital(message)}
        ${example && html`<small>${example}</small>`}</li>`,
    )}</ul></details>`;
}
