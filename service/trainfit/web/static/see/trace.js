/** What PyTorch's allocator holds of a stage from moment to moment, where it is asked for. */

import { askFile, problemOf } from "../api.js";
import { useAsked } from "../asked.js";
import { reasons } from "../job/said.js";
import { save } from "../share/save.js";
import { html, useState } from "../vendor/htm-preact.js";
import { counted, gib, number, plain } from "../words.js";
import { COMPONENTS } from "./components.js";
import { scaleOf } from "./scale.js";
import { Scroll } from "./scroll.js";
import { Entry } from "./timeline.js";
import { useWidth } from "./width.js";

/**
 * @typedef {import("trainfit").RankTrace} RankTrace
 * @typedef {import("trainfit").TracedMoment} TracedMoment
 */

const HEIGHT = 220;
const [TOP, BOTTOM, LEFT, RIGHT] = [28, HEIGHT - 34, 40, 12];
const TENSORS = 10;
const STEPS = {
  load: "loading",
  first: "first step",
  later: "each later step",
  graphs: "with CUDA graphs",
};

/** @param {{job: any, rank: number}} props */
export function Allocator({ job, rank }) {
  const key = JSON.stringify([job, rank]);
  const [opened, open] = useState("");
  const asked = opened === key;
  const { answer, problem, stale } = useAsked("v1/trace", asked ? { ...job, pp_rank: rank } : null);
  if (!asked) {
    return html`<p><button type="button" onClick=${() => open(key)}>Replay the allocator</button>
      <span class="note"> shows what it caches, moment by moment</span></p>`;
  }
  if (problem) return html`<p class="note">${reasons(problem).join("; ")}</p>`;
  if (!answer || stale) return html`<p class="note placeholder"></p>`;
  return html`<${Moments} trace=${answer} />
    <${Tensors} trace=${answer} />
    <${Snapshot} question=${{ ...job, pp_rank: rank }} />`;
}

/** @param {{trace: RankTrace}} props */
function Moments({ trace }) {
  const [ref, width] = useWidth(720);
  const { moments } = trace;
  const scale = scaleOf(trace.reserved_bytes, TOP, BOTTOM);
  const pitch = (width - LEFT - RIGHT) / moments.length;
  const x = (/** @type {number} */ index) => LEFT + pitch * index;
  const words = `${gib(trace.peak.allocated_bytes)} allocated and ${gib(trace.peak.reserved_bytes)}
    reserved in ${plain(trace.peak.moment)}`;
  return html`<div class="picture" ref=${ref}>
    <svg id="trace" width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} role="img"
      aria-label=${`${number(moments.length)} moments of rank ${trace.pp_rank}: at most ${words}`}>
      ${scale.lines.map(
        ({ y, label }) => html`<g key=${label}>
          <line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y} y2=${y} />
          <text class="tick" x=${LEFT - 6} y=${y + 4} text-anchor="end">${label}</text></g>`,
      )}
      <text class="tick" x=${LEFT - 6} y=${TOP - 12} text-anchor="end">GiB</text>
      ${columns(moments, pitch).map(
        (each) => html`<g key=${each.first}>
          <rect x=${x(each.first)} y=${scale.at(each.reserved)} width=${pitch * each.count}
            height=${BOTTOM - scale.at(each.reserved)} fill=${COMPONENTS.allocator_slack} />
          <rect x=${x(each.first)} y=${scale.at(each.allocated)} width=${pitch * each.count}
            height=${BOTTOM - scale.at(each.allocated)} fill=${COMPONENTS.weights} />
          <title>${each.words}</title></g>`,
      )}
      ${steps(moments).map(
        ({ step, first, last }) => html`<g key=${step}>
          <line class="phase" x1=${x(first) + 1} x2=${x(last + 1) - 1} y1=${BOTTOM + 6}
            y2=${BOTTOM + 6} />
          ${x(last + 1) - x(first) > STEPS[step].length * 6.4 &&
          html`<text class="tick" x=${(x(first) + x(last + 1)) / 2} y=${BOTTOM + 22}
            text-anchor="middle">${STEPS[step]}</text>`}</g>`,
      )}
    </svg>
  </div>
  <ul class="legend">
    <${Entry} colour=${COMPONENTS.weights} words="allocated" />
    <${Entry} colour=${COMPONENTS.allocator_slack} words="reserved beside it" />
    ${trace.cache_retries > 0 &&
    html`<li>the whole cache is given back ${counted(trace.cache_retries, "time")}</li>`}
  </ul>`;
}

/** @param {{trace: RankTrace}} props */
function Tensors({ trace }) {
  const { tensors, moment, split_bytes, unused_bytes } = trace.peak;
  const free = `${gib(split_bytes)} are free between tensors, ${gib(unused_bytes)} in segments that
    nobody uses`;
  return html`<p class="note">At the peak, in ${plain(moment)}, ${free}.</p>
    <${Scroll} label="Tensors at the peak"><table>
    <caption class="hidden">Tensors at the peak</caption>
    <thead><tr><th scope="col">tensors</th><th scope="col" class="figure">how many</th>
      <th scope="col" class="figure">size</th></tr></thead>
    <tbody>${tensors.slice(0, TENSORS).map(
      (each) => html`<tr key=${each.name}><th scope="row">${each.name}</th>
        <td class="figure">${number(each.count)}</td>
        <td class="figure">${gib(each.bytes)}</td></tr>`,
    )}</tbody></table></${Scroll}>`;
}

/** @param {{question: any}} props */
function Snapshot({ question }) {
  const [said, say] = useState("");
  const download = async () => {
    try {
      const file = await askFile("v1/trace:snapshot", question);
      save(file, file.type, "predicted.pickle");
    } catch (error) {
      say(problemOf(error)?.detail ?? "");
    }
  };
  return html`<p><button type="button" onClick=${download}>Download a memory snapshot</button>
    <span class="note" role="status"> ${said || "opens at pytorch.org/memory_viz"}</span></p>`;
}

/** Moments as columns of at least a pixel and a half, each as high as the highest in it.
 * @param {TracedMoment[]} moments
 * @param {number} pitch
 */
function columns(moments, pitch) {
  const each = Math.max(1, Math.ceil(1.5 / pitch));
  const found = [];
  for (let first = 0; first < moments.length; first += each) {
    const group = moments.slice(first, first + each);
    const allocated = Math.max(...group.map((moment) => moment.allocated_bytes));
    const reserved = Math.max(...group.map((moment) => moment.reserved_bytes));
    const [begin] = group;
    const held = `${gib(allocated)} allocated, ${gib(reserved)} reserved`;
    const words = begin ? `${plain(begin.moment)} (${STEPS[begin.step]}): ${held}` : "";
    found.push({ first, count: group.length, allocated, reserved, words });
  }
  return found;
}

/** @param {TracedMoment[]} moments */
function steps(moments) {
  return /** @type {const} */ (["load", "first", "later", "graphs"]).flatMap((step) => {
    const first = moments.findIndex((each) => each.step === step);
    return first < 0
      ? []
      : [{ step, first, last: moments.findLastIndex((each) => each.step === step) }];
  });
}
