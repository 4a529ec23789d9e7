/** Stacked bars: what every pipeline stage needs at its peak, beside what the card has. */

import { html } from "../vendor/htm-preact.js";
import { gib, plain, range } from "../words.js";
import { colourOf, COMPONENTS } from "./components.js";
import { scaleOf } from "./scale.js";
import { useWidth } from "./width.js";

/**
 * @typedef {import("trainfit").Estimate} Estimate
 * @typedef {import("trainfit").FitCheck} FitCheck
 * @typedef {import("trainfit").Stage} Stage
 */

const HEIGHT = 340;
const [TOP, BOTTOM, LEFT, RIGHT] = [28, HEIGHT - 44, 40, 40];
const NAMED = 62;
const NUMBERED = 22;
/** The height of a figure above a bar. */
const FIGURE = 14;

/**
 * @param {{estimate: Estimate, fit: FitCheck | null, selected: number,
 *   select: (rank: number) => void}} props
 */
export function StageBars({ estimate, fit, selected, select }) {
  const [ref, width] = useWidth(720);
  const { stages, binding } = estimate;
  const capacity = fit?.usable_bytes ?? 0;
  const highest = Math.max(...stages.map((stage) => stage.device_bytes.high));
  const scale = scaleOf(Math.max(highest, capacity), TOP, BOTTOM);
  const pitch = (width - LEFT - RIGHT) / stages.length;
  const bar = Math.min(84, pitch * 0.62);
  return html`<div class="picture" ref=${ref}>
    <svg id="stage-bars" class="bars" width=${width} height=${HEIGHT}
      viewBox=${`0 0 ${width} ${HEIGHT}`}
      role="group" aria-label="Memory of each pipeline stage at its peak">
      ${scale.lines.map(
        ({ y, label }) => html`<g key=${label}>
          <line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y} y2=${y} />
          <text class="tick" x=${LEFT - 6} y=${y + 4} text-anchor="end">${label}</text>
        </g>`,
      )}
      <text class="tick" x=${LEFT - 6} y=${TOP - 12} text-anchor="end">GiB</text>
      ${pitch < NAMED &&
      html`<text class="tick" x=${LEFT - 6} y=${BOTTOM + 18} text-anchor="end">stage</text>`}
      ${stages.map(
        (stage) => html`<${Bar} key=${stage.pp_rank}
          ...${{ stage, scale, bar, pitch, select }}
          binds=${stage.pp_rank === binding.pp_rank}
          selected=${stages.length > 1 && stage.pp_rank === selected}
          line=${fit && scale.at(capacity)} x=${LEFT + pitch * (stage.pp_rank + 0.5)} />`,
      )}
      ${fit &&
      html`<${Capacity} y=${scale.at(capacity)} width=${width}
        free=${fit.policy.headroom_bytes ? scale.at(capacity - fit.policy.headroom_bytes) : null}
        words=${gib(capacity).split("\u00a0")[0]} />`}
    </svg>
  </div>`;
}

/**
 * @param {{stage: Stage, scale: ReturnType<typeof scaleOf>, bar: number, pitch: number, x: number,
 *   line: number | null, binds: boolean, selected: boolean, select: (rank: number) => void}} props
 */
function Bar({ stage, scale, bar, pitch, x, line, binds, selected, select }) {
  const { low, expected, high } = stage.device_bytes;
  const left = x - bar / 2;
  let below = 0;
  const parts = stage.components.map((component) => {
    const [from, to] = [below, (below += component.bytes)];
    return { component, y: scale.at(to), height: scale.at(from) - scale.at(to) };
  });
  const needs = `${gib(expected)} expected, ${range(low, high)}`;
  const label = `Stage ${stage.pp_rank}: ${needs}${binds ? ", binds" : ""}`;
  const activate = () => select(stage.pp_rank);
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    activate();
  };
  const whisker = x + Math.min(bar / 2 + 7, pitch / 2 - 3);
  const cap = Math.min(4, pitch / 10);
  const ground = { x: x - pitch / 2, y: TOP - 14, width: pitch, height: HEIGHT - TOP + 10, rx: 4 };
  const composition = stage.components
    .map((each) => `${plain(each.name)}: ${gib(each.bytes)}`)
    .reverse();
  return html`<g class=${`bar ${selected ? "selected" : ""} ${binds ? "binds" : ""}`}>
    <rect class="ground" ...${ground} />
    ${parts.map(
      ({ component, y, height }) => html`<rect key=${component.name} class="part"
        data-component=${component.name} x=${left} y=${y} width=${bar} height=${Math.max(height, 0)}
        fill=${colourOf(component.name)} />`,
    )}
    <path class="whisker" d=${whiskerPath(whisker, cap, scale.at(low), scale.at(high))} />
    ${pitch >= NAMED &&
    html`<text class="total" x=${x} y=${clearOf(line, scale.at(expected) - 6)}
      text-anchor="middle">${(expected / 2 ** 30).toFixed(1)}</text>`}
    ${(pitch >= NUMBERED || stage.pp_rank % Math.ceil(NUMBERED / pitch) === 0) &&
    html`<text class="name" x=${x} y=${BOTTOM + 18}
      text-anchor="middle">${pitch >= NAMED ? "stage " : ""}${stage.pp_rank}</text>`}
    ${pitch >= NAMED &&
    html`<text class="tick" x=${x} y=${BOTTOM + 34} text-anchor="middle">${contents(stage)}</text>`}
    <rect class="hit" ...${ground} role="button" tabindex="0" aria-label=${label}
      aria-pressed=${selected}
      onClick=${activate} onKeyDown=${onKeyDown}><title>${composition.join("\n")}</title></rect>
  </g>`;
}

/**
 * Where a figure stands that is not to be struck through.
 * @param {number | null} line
 * @param {number} y
 */
function clearOf(line, y) {
  return line !== null && line > y - FIGURE && line < y + 4 ? line - 5 : y;
}

/**
 * A line between two bounds with a cap at each.
 * @param {number} x @param {number} cap @param {number} low @param {number} high
 */
function whiskerPath(x, cap, low, high) {
  const ends = [low, high].map((y) => `M${x - cap} ${y}h${2 * cap}`);
  return `M${x} ${high}V${low}${ends.join("")}`;
}

/** @param {{y: number, free: number | null, width: number, words: string}} props */
function Capacity({ y, free, width, words }) {
  return html`<g class="capacity">
    ${free !== null &&
    html`<rect class="headroom" x=${LEFT} y=${y} width=${width - LEFT - RIGHT}
      height=${free - y} />`}
    <line x1=${LEFT} x2=${width - RIGHT} y1=${y} y2=${y} />
    <text x=${width - RIGHT + 5} y=${y + 4}>${words}</text>
  </g>`;
}

/** @param {Stage} stage */
export function layersOf(stage) {
  return stage.chunks.reduce((sum, chunk) => sum + chunk.layers.length, 0);
}

/** @param {Stage} stage */
function contents(stage) {
  const layers = layersOf(stage);
  return `${layers} layer${layers === 1 ? "" : "s"}`;
}

/**
 * What the card has, as the picture shows it.
 * @param {{fit: FitCheck | null, cardName: string}} props
 */
export function CapacityLegend({ fit, cardName }) {
  if (!fit) return null;
  const free = fit.policy.headroom_bytes;
  return html`<span class="note capacity"><svg width="26" height="8" aria-hidden="true">
    <line x1="0" x2="26" y1="4" y2="4" /></svg>
    ${cardName}: ${gib(fit.usable_bytes)} usable${free > 0 &&
    `, of which ${gib(free)} are to stay free`}</span>`;
}

/** The colours of the components, in the order of the bars. */
export function Legend() {
  return html`<ul class="legend">
    ${Object.entries(COMPONENTS).map(
      ([name, colour]) => html`<li key=${name}>
        <svg width="12" height="12" aria-hidden="true">
          <rect width="12" height="12" rx="2" fill=${colour} /></svg>
        ${plain(name)}</li>`,
    )}
    <li><svg width="12" height="12" aria-hidden="true">
      <path class="whisker" d="M6 1V11M2 1h8M2 11h8" /></svg> low to high</li>
  </ul>`;
}
