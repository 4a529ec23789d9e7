/** Layouts by the time of their step and by what they leave free, and the front of the best. */

import { html } from "../vendor/htm-preact.js";
import { gib, seconds } from "../words.js";
import { useWidth } from "../see/width.js";
import { layoutOf } from "../job/difference.js";

/**
 * @typedef {import("trainfit").FoundLayout} FoundLayout
 * @typedef {{time: number, free: number}} Now Seconds of a step, and bytes.
 * @typedef {FoundLayout & {step_seconds: NonNullable<FoundLayout["step_seconds"]>}} Timed
 */

const HEIGHT = 250;
const [TOP, BOTTOM, LEFT, RIGHT] = [24, HEIGHT - 40, 44, 20];
const GIB = 2 ** 30;
const LINES = 5;

/**
 * @param {{layouts: FoundLayout[], pareto: FoundLayout[], now: Now | null, selected: number,
 *   select: (index: number) => void}} props
 */
export function Scatter({ layouts, pareto, now, selected, select }) {
  const [ref, width] = useWidth(720);
  const timed = layouts.filter(isTimed);
  if (timed.length < 2) return null;
  const times = [...timed.map(timeOf), ...(now ? [now.time] : [])];
  const frees = [...timed.map(freeOf), ...(now ? [now.free / GIB] : []), 0];
  const [across, down] = [axisOf(times), axisOf(frees)];
  const x = (/** @type {number} */ time) => LEFT + across.share(time) * (width - LEFT - RIGHT);
  const y = (/** @type {number} */ free) => BOTTOM - down.share(free) * (BOTTOM - TOP);
  const fronts = frontsOf(pareto.filter(isTimed));
  const own = now && `M${x(now.time)} ${y(now.free / GIB) - 6}l6 6l-6 6l-6 -6z`;
  return html`<div class="picture" ref=${ref}>
    <svg id="scatter" width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`}
      role="group" aria-label="Layouts by the time of a step and the memory that stays free">
      ${down.lines.map((value) => html`<g key=${value}>
        <line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(value)} y2=${y(value)} />
        <text class="tick" x=${LEFT - 6} y=${y(value) + 4} text-anchor="end">${brief(value)}</text>
      </g>`)}
      ${across.lines.map((value) => html`<text key=${value} class="tick" x=${x(value)}
        y=${BOTTOM + 18} text-anchor="middle">${seconds(value)}</text>`)}
      <text class="tick" x=${LEFT - 36} y=${TOP - 12}>GiB free</text>
      <text class="tick" x=${width - RIGHT} y=${BOTTOM + 34} text-anchor="end">time of a step</text>
      ${fronts.map(({ gpus, points }) => {
        const path = points.map((each) => `${x(timeOf(each))} ${y(freeOf(each))}`).join("L");
        const last = points.at(-1);
        return html`<g key=${gpus}><path class="front" d=${`M${path}`} />
          ${fronts.length > 1 && last && html`<text class="tick" x=${x(timeOf(last)) + 8}
            y=${y(freeOf(last)) - 6}>${gpus}</text>`}</g>`;
      })}
      ${own && html`<path class="own" d=${own}><title>the layout in the form</title></path>`}
      ${timed.map((each) => {
        const index = layouts.indexOf(each);
        const [time, free] = [seconds(timeOf(each)), gib(each.headroom_bytes)];
        const name = `${layoutOf(each.job)} on ${each.num_gpus}: ${time}, ${free} free`;
        const pressed = (/** @type {KeyboardEvent} */ event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          select(index);
        };
        return html`<circle key=${index} cx=${x(timeOf(each))} cy=${y(freeOf(each))} r="6"
          class=${`layout ${each.tie ? "tied" : ""}`} role="button" tabindex="0"
          aria-pressed=${index === selected} aria-label=${name} onKeyDown=${pressed}
          onClick=${() => select(index)}><title>${name}</title></circle>`;
      })}
    </svg>
  </div>
  <ul class="legend">
    <li><svg width="12" height="12" aria-hidden="true"><circle class="layout tied" cx="6" cy="6"
      r="5" /></svg> as fast as the best, as far as is known</li>
    <li><svg width="12" height="12" aria-hidden="true"><circle class="layout" cx="6" cy="6"
      r="5" /></svg> slower</li>
    ${fronts.length > 0 && html`<li><svg width="26" height="12" aria-hidden="true"><path
      class="front" d="M1 10L25 2" /></svg> no other is as fast with as much
      free${fronts.length > 1 ? " on so many GPUs" : ""}</li>`}
    ${now && html`<li><svg width="12" height="12" aria-hidden="true"><path class="own"
      d="M6 0l6 6l-6 6l-6 -6z" /></svg> the layout in the form</li>`}
  </ul>`;
}

/** @param {FoundLayout} found @returns {found is Timed} */
function isTimed(found) {
  return found.step_seconds !== null;
}

/** @param {Timed} found */
function timeOf({ step_seconds }) {
  return step_seconds.expected;
}

/** @param {FoundLayout} found */
function freeOf({ headroom_bytes }) {
  return headroom_bytes / GIB;
}

/** The Pareto front of each number of GPUs, from the fastest on. @param {Timed[]} pareto */
function frontsOf(pareto) {
  const numbers = [...new Set(pareto.map((each) => each.num_gpus))].sort((a, b) => a - b);
  return numbers
    .map((gpus) => ({
      gpus: `${gpus} GPUs`,
      points: pareto
        .filter((each) => each.num_gpus === gpus)
        .sort((a, b) => timeOf(a) - timeOf(b)),
    }))
    .filter(({ points }) => points.length > 1 || numbers.length > 1);
}

/** A scale with round lines around some values. @param {number[]} values */
function axisOf(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const span = most - least || Math.abs(most) || 1;
  const power = 10 ** Math.floor(Math.log10(span / LINES));
  const step = ([1, 2, 5, 10].find((each) => span / (each * power) <= LINES) ?? 10) * power;
  const first = Math.floor(least / step);
  const last = Math.max(Math.ceil(most / step), first + 1);
  const lines = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  const share = (/** @type {number} */ value) => (value / step - first) / (last - first);
  return { lines, share };
}

/** @param {number} value */
function brief(value) {
  return String(Number(value.toPrecision(4)));
}
