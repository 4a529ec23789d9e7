/** The colours of the map, and the key to them. */

import { html } from "../vendor/htm-preact.js";
import { gib, secondsRange } from "../words.js";

/**
 * @typedef {{ground: string, words: "dark" | "pale"}} Shade `words`: what they are written on
 * @typedef {{least: number, most: number}} Times In seconds, of what fits.
 * @typedef {import("./compared.js").Outlook} Cell
 */

/** @type {(shade: [string, Shade["words"]]) => Shade} */
const shade = ([ground, words]) => ({ ground, words });

/**
 * Paul Tol's "sunset" scheme: blue is free, red is missing, and both are told apart by all. The
 * second colour from either end is a little darker, so that white words stand out from it.
 */
const FREE_TO_MISSING = /** @type {[string, Shade["words"]][]} */ ([
  ["#364b9a", "dark"],
  ["#4777b2", "dark"],
  ["#6ea6cd", "pale"],
  ["#98cae1", "pale"],
  ["#c2e4ef", "pale"],
  ["#eaeccc", "pale"],
  ["#feda8b", "pale"],
  ["#fdb366", "pale"],
  ["#f67e4b", "pale"],
  ["#d83a2a", "dark"],
  ["#a50026", "dark"],
]).map(shade);

/** Green to pale: none of them says anything of memory. */
const FAST_TO_SLOW = /** @type {[string, Shade["words"]][]} */ ([
  ["#004d40", "dark"],
  ["#00695c", "dark"],
  ["#1f7a6c", "dark"],
  ["#7fc4b5", "pale"],
  ["#b2ddd3", "pale"],
  ["#e0f2ee", "pale"],
]).map(shade);

const NONE = { ground: "", words: /** @type {const} */ ("pale") };

/**
 * @param {Cell} cell
 * @param {number} usable Bytes; 0 where no card is named.
 * @param {Times | null} times null where memory colours the map
 * @returns {Shade | {ground: "", words: ""}}
 */
export function shadeOf({ needed, time, verdict }, usable, times) {
  if (times) {
    if (time === null || verdict === "does_not_fit") return { ground: "", words: "" };
    const share = Math.log(time / times.least) / (Math.log(times.most / times.least) || 1);
    return FAST_TO_SLOW[Math.round(share * (FAST_TO_SLOW.length - 1))] ?? NONE;
  }
  const middle = (FREE_TO_MISSING.length - 1) / 2;
  const free = usable ? Math.max(-1, Math.min(1, (usable - needed) / usable)) : 0;
  return FREE_TO_MISSING[Math.round(middle - middle * free)] ?? NONE;
}

/**
 * What the colours and the signs mean.
 * @param {{by: "memory" | "time", usable: number, times: Times | null, cells: Cell[]}} props
 */
export function Key({ by, usable, times, cells }) {
  const has = (/** @type {(cell: Cell) => unknown} */ test) => cells.some(test);
  const known = times && Number.isFinite(times.least);
  return html`<ul class="legend map-key">
    ${by === "memory" && usable > 0 &&
    html`<li>${gib(usable)} free <${Ramp} of=${FREE_TO_MISSING} /> as much missing; figures are GiB
      free, − missing</li>`}
    ${by === "memory" && !usable && html`<li>figures are GiB needed; name a card to see what is
      free</li>`}
    ${known && html`<li>fast <${Ramp} of=${FAST_TO_SLOW} /> slow, ${secondsRange({
      low: times.least, high: times.most })}; figures are seconds of a step</li>`}
    ${by === "time" && !known && html`<li>nothing that fits has a time that is known</li>`}
    ${has(({ verdict }) => verdict === "fits") && html`<li>✓ fits even by the high bound</li>`}
    ${has(({ verdict }) => verdict === "tight") && html`<li>≈ is tight</li>`}
    ${by === "time" && has(({ verdict }) => verdict === "does_not_fit") &&
    html`<li>without colour: does not fit</li>`}
    ${has(({ split }) => split) && html`<li>÷ with another split of layers or experts</li>`}
    ${has(({ reason }) => reason) && html`<li>× is refused</li>`}
    <li class="hint">Click to use a layout.</li>
  </ul>`;
}

/** @param {{of: Shade[]}} props */
function Ramp({ of }) {
  return html`<svg width=${12 * of.length} height="12" aria-hidden="true">
    ${of.map(({ ground }, index) => html`<rect key=${ground} x=${12 * index} width="12" height="12"
      fill=${ground} />`)}</svg>`;
}
