/** One step of a rank: what its passes leave behind for backward, and have at their highest. */

import { html } from "../vendor/htm-preact.js";
import { gib, number } from "../words.js";
import { COMPONENTS } from "./components.js";
import { moment } from "./composition.js";
import { scaleOf } from "./scale.js";
import { useWidth } from "./width.js";

/**
 * @typedef {import("trainfit").Course} Course
 * @typedef {import("trainfit").Pass} Pass
 * @typedef {import("trainfit").Stage} Stage
 */

const HEIGHT = 230;
const [TOP, BOTTOM, LEFT, RIGHT] = [44, HEIGHT - 48, 40, 12];
/** Shares of the passes' width: the gap where cycles are left out, and the optimizer's step. */
const GAP = 0.03;
const STEP = 0.1;
/** An upper bound on the mean width of a letter, in pixels. */
const LETTER = 6.9;
const PHASES = { warm_up: "warm-up", steady: "steady state", cool_down: "cool-down" };

/** @param {{course: Course, stage: Stage}} props */
export function Timeline({ course, stage }) {
  const [ref, width] = useWidth(720);
  const { passes } = course;
  const highest = passes.reduce((most, each) =>
    each.highest_bytes > most.highest_bytes ? each : most,
  );
  const gap = passes.findIndex(
    (each, index) => index > 0 && each.ordinal > (passes[index - 1]?.ordinal ?? 0) + 1,
  );
  const across = width - LEFT - RIGHT;
  const aside = across * (gap < 0 ? 0 : GAP);
  const step = across * STEP;
  const pitch = (across - aside - step) / passes.length;
  const x = (/** @type {number} */ index) =>
    LEFT + pitch * index + (gap >= 0 && index >= gap ? aside : 0);
  const scale = scaleOf(highest.highest_bytes, TOP, BOTTOM);
  const end = x(passes.length);
  const atStep = stage.peak.moment === "optimizer_step";
  const peak = atStep ? end + step / 2 : x(passes.indexOf(highest)) + pitch / 2;
  const words = atStep ? "peak: optimizer step" : `peak: ${moment(stage)}`;
  const passed = `One step of rank ${stage.pp_rank}: ${number(course.count)} passes`;
  const most = `${gib(highest.highest_bytes)} of activations and workspace`;
  return html`<div class="picture" ref=${ref}>
    <svg id="timeline" width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`}
      role="img"
      aria-label=${`${passed}; ${words}, ${most}`}>
      ${scale.lines.map(
        ({ y, label }) => html`<g key=${label}>
          <line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y} y2=${y} />
          <text class="tick" x=${LEFT - 6} y=${y + 4} text-anchor="end">${label}</text></g>`,
      )}
      <text class="tick" x=${LEFT - 6} y=${TOP - 14} text-anchor="end">GiB</text>
      ${columns(passes, pitch).map(
        (each) => html`<g key=${each.first}>
          <rect x=${x(each.first)} y=${scale.at(each.highest)}
            width=${gapped(x(each.last) + pitch - x(each.first), pitch)}
            height=${BOTTOM - scale.at(each.highest)} fill=${COMPONENTS.workspace} />
          <rect x=${x(each.first)} y=${scale.at(each.kept)}
            width=${gapped(x(each.last) + pitch - x(each.first), pitch)}
            height=${BOTTOM - scale.at(each.kept)} fill=${COMPONENTS.activations} />
          <title>${each.words}</title></g>`,
      )}
      ${pitch >= 3 &&
      passes.map(
        (pass, index) => html`<rect key=${pass.ordinal} class=${pass.direction} x=${x(index)}
          y=${BOTTOM + 3}
          width=${gapped(pitch, pitch)} height="7" />`,
      )}
      ${gap >= 0 &&
      html`<text class="tick" x=${x(gap) - aside / 2} y=${BOTTOM - 4}
        text-anchor="middle">⋯</text>`}
      ${runs(passes).map(
        ({ phase, first, last }) =>
          html`<${PhaseName} key=${phase} from=${x(first)} to=${x(last) + pitch}
            name=${PHASES[phase]} />`,
      )}
      <${PhaseName} from=${end} to=${end + step} name="optimizer" />
      <path class="mark" d=${`M${peak} ${TOP - 6}l-5 -8h10z`} />
      <line class="mark" x1=${peak} x2=${peak} y1=${TOP - 6}
        y2=${atStep ? BOTTOM : scale.at(highest.highest_bytes)} />
      <text x=${above(peak, words, width)} y=${TOP - 21}>${words}</text>
    </svg>
  </div>
  <ul class="legend">
    <${Entry} colour=${COMPONENTS.activations} words="kept for backward after the pass" />
    <${Entry} colour=${COMPONENTS.workspace} words="highest while it runs" />
    ${pitch >= 3 &&
    html`<li><svg width="26" height="12" aria-hidden="true">
      <rect class="forward" y="3" width="11" height="7" />
      <rect class="backward" x="14" y="3" width="11" height="7" /></svg> forward, backward</li>`}
    ${pitch >= 3 &&
    passes.some((pass) => pass.direction === "backward_for_weights") &&
    html`<li><svg width="12" height="12" aria-hidden="true">
      <rect class="backward_for_weights" y="3" width="11" height="7" /></svg> for weights</li>`}
    ${gap >= 0 && html`<li>⋯ cycles like those before</li>`}
  </ul>`;
}

/** @param {{colour: string, words: string}} props */
export function Entry({ colour, words }) {
  return html`<li><svg width="12" height="12" aria-hidden="true">
    <rect width="12" height="12" rx="2" fill=${colour} /></svg> ${words}</li>`;
}

/** Where words begin that stand above the mark, as near to it as they fit.
 * @param {number} mark
 * @param {string} words
 * @param {number} width
 */
function above(mark, words, width) {
  const needed = words.length * LETTER;
  return Math.max(LEFT, Math.min(mark - needed / 2, width - RIGHT - needed));
}

/** Neighbours are told apart where there is room. @param {number} width @param {number} pitch */
function gapped(width, pitch) {
  return Math.max(width - (pitch >= 4 ? 1 : 0), 0.5);
}

/** Passes as columns of at least a pixel and a half, each as high as the highest in it.
 * @param {Pass[]} passes
 * @param {number} pitch
 */
function columns(passes, pitch) {
  const each = Math.max(1, Math.ceil(1.5 / pitch));
  const found = [];
  for (let first = 0; first < passes.length; first += each) {
    const group = passes.slice(first, first + each);
    const kept = Math.max(...group.map((pass) => pass.kept_bytes));
    const highest = Math.max(...group.map((pass) => pass.highest_bytes));
    const [pass] = group;
    const name = `${pass?.direction.replaceAll("_", " ")} of micro-batch ${pass?.microbatch}`;
    const words = `${name}: ${gib(highest)} at its highest, then ${gib(kept)} kept`;
    found.push({ first, last: first + group.length - 1, kept, highest, words });
  }
  return found;
}

/** @param {Pass[]} passes */
function runs(passes) {
  return /** @type {const} */ (["warm_up", "steady", "cool_down"]).flatMap((phase) => {
    const first = passes.findIndex((pass) => pass.phase === phase);
    return first < 0
      ? []
      : [{ phase, first, last: passes.findLastIndex((pass) => pass.phase === phase) }];
  });
}

/** @param {{from: number, to: number, name: string}} props */
function PhaseName({ from, to, name }) {
  const fits = to - from > name.length * 6.4;
  return html`<g>
    <line class="phase" x1=${from + 1} x2=${to - 1} y1=${BOTTOM + 16} y2=${BOTTOM + 16} />
    ${fits &&
    html`<text class="tick" x=${(from + to) / 2} y=${BOTTOM + 32}
      text-anchor="middle">${name}</text>`}</g>`;
}
