/** A map over two fields of the job, coloured by what would be free of the card. */

import { problemOf } from "../api.js";
import { abbreviated } from "../ask/controls.js";
import { at, patched, put } from "../job/pointer.js";
import { reasons } from "../job/said.js";
import { Scroll } from "../see/scroll.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { gib, seconds, VERDICTS } from "../words.js";
import { compared } from "./compared.js";
import { Key, shadeOf } from "./shades.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {NonNullable<import("../state.js").State["map"]>} Axes
 * @typedef {import("./compared.js").Outlook} Cell
 */

/** @type {Record<string, {label: string, values: number[]}>} */
export const AXES = {
  "/parallelism/tp": { label: "tensor", values: [1, 2, 4, 8, 16] },
  "/parallelism/pp": { label: "pipeline", values: [1, 2, 4, 8, 16, 32] },
  "/parallelism/cp": { label: "context", values: [1, 2, 4, 8, 16] },
  "/parallelism/ep": { label: "expert", values: [1, 2, 4, 8, 16, 32, 64] },
  "/parallelism/num_gpus": { label: "GPUs", values: [8, 16, 32, 64, 128, 256, 512, 1024] },
  "/training/micro_batch_size": { label: "micro-batch", values: [1, 2, 4, 8, 16, 32] },
  "/training/seq_length": {
    label: "sequence",
    values: [2048, 4096, 8192, 16384, 32768, 65536, 131072],
  },
};

const COMMON = [
  { name: "tp × pp", axes: { across: "/parallelism/tp", down: "/parallelism/pp" } },
  {
    name: "micro-batch × sequence",
    axes: { across: "/training/micro_batch_size", down: "/training/seq_length" },
  },
];

/** What would help is asked for before. */
const PAUSE_MS = 300;

/**
 * @param {{job: Job, axes: Axes | null, usable: number | null, headroom: number,
 *   waiting: boolean, setAxes: (axes: Axes | null) => void,
 *   set: (job: Job) => void}} props
 */
export function LayoutMap({ job, axes, usable, headroom, waiting, setAxes, set }) {
  const known =
    axes && AXES[axes.across] && AXES[axes.down] && axes.across !== axes.down ? axes : null;
  const found = useCells(job, known, headroom, waiting);
  // Until it is known how much of the card is usable, none is free.
  const cells = usable === null ? NONE : found;
  return html`<section class=${`card ${known ? "" : "idle"}`} aria-labelledby="map-title">
    <div class="card-head"><h2 id="map-title">Map</h2>
      <div class="map-choice">
        ${COMMON.map(
          ({ name, axes: common }) => html`<button type="button" key=${name}
            aria-pressed=${common.across === known?.across && common.down === known?.down}
            onClick=${() => setAxes({ ...common, by: known?.by })}>${name}</button>`,
        )}
        ${known && html`<button type="button" onClick=${() => setAxes(null)}>Close</button>`}
      </div></div>
    ${!known &&
    html`<p class="note">See which values of two fields fit, and how fast they are.</p>`}
    ${known && html`<${Grid} ...${{ job, axes: known, cells, setAxes, set }}
      usable=${usable ?? 0} />`}
  </section>`;
}

/**
 * @param {{job: Job, axes: Axes, cells: Map<string, Cell>, usable: number,
 *   setAxes: (axes: Axes) => void, set: (job: Job) => void}} props
 */
function Grid({ job, axes, cells, usable, setAxes, set }) {
  const across = AXES[axes.across]?.values ?? [];
  const down = AXES[axes.down]?.values ?? [];
  const total = across.length * down.length;
  const { by = "memory" } = axes;
  const times = timesOf(axes, cells);
  const choose = (/** @type {"across" | "down"} */ axis) => (/** @type {Event} */ event) =>
    setAxes({ ...axes, [axis]: /** @type {HTMLSelectElement} */ (event.currentTarget).value });
  return html`<div class="map-axes">
      ${/** @type {const} */ (["across", "down"]).map(
        (axis) => html`<label key=${axis}>${axis} <select value=${axes[axis]}
          onChange=${choose(axis)}>
          ${Object.entries(AXES).map(
            ([pointer, { label }]) => html`<option key=${pointer} value=${pointer}
              disabled=${pointer === axes[axis === "across" ? "down" : "across"]}>
              ${label}</option>`,
          )}</select></label>`,
      )}
      <div class="ways" role="group" aria-label="What colours the map">
        ${/** @type {const} */ (["memory", "time"]).map(
          (each) => html`<button type="button" key=${each} aria-pressed=${by === each}
            onClick=${() => setAxes({ ...axes, by: each === "time" ? each : undefined })}>
            ${each}</button>`,
        )}</div>
      <span class="progress" role="status">${cells.size < total
        ? html`<progress aria-label="layouts compared"></progress>`
        : `${total} layouts`}</span>
    </div>
    <${Scroll} label="Map"><table class="map"
      aria-label=${by === "time"
        ? "Time of a step of what fits"
        : "GiB free of the card, by the expected need"}>
      <thead><tr><th scope="col" class="corner">
        ${AXES[axes.down]?.label} ↓<br />${AXES[axes.across]?.label} →</th>
        ${across.map((value) => html`<th key=${value} scope="col"
          class="figure">${abbreviated(value)}</th>`)}</tr></thead>
      <tbody>${down.map(
        (y) => html`<tr key=${y}><th scope="row" class="figure">${abbreviated(y)}</th>
          ${across.map((x) => {
            const present = at(job, axes.across) === x && at(job, axes.down) === y;
            const cell = cells.get(key(x, y));
            return html`<td key=${x}><${CellButton} ...${{ cell, usable, times, present }}
              act=${() => cell && set(patched(job, cell.patch))} /></td>`;
          })}</tr>`,
      )}</tbody></table></${Scroll}>
    <${Key} ...${{ by, usable, times }}
      cells=${[...cells.values()]} />`;
}

const SIGNS = { fits: "✓", tight: "≈", does_not_fit: "", unknown: "?" };

/** The times of what fits, or may; none where the map is of memory.
 * @param {Axes} axes
 * @param {Map<string, Cell>} cells
 */
function timesOf({ by }, cells) {
  if (by !== "time") return null;
  const times = [...cells.values()].flatMap(({ time, verdict }) =>
    time !== null && verdict !== "does_not_fit" ? [time] : [],
  );
  return { least: Math.min(...times), most: Math.max(...times) };
}

/**
 * @param {{cell: Cell | undefined, usable: number, present: boolean, act: () => void,
 *   times: import("./shades.js").Times | null}} props
 */
function CellButton({ cell, usable, times, present, act }) {
  if (!cell) return html`<span class="cell"></span>`;
  if (cell.reason) return html`<${Refused} reason=${cell.reason} act=${act} />`;
  const { verdict, needed, time, split } = cell;
  const words = [
    ...(verdict ? [VERDICTS[verdict]] : []),
    `${gib(needed)} needed`,
    ...(time === null ? [] : [`${seconds(time)} a step`]),
    ...(split ? [`with ${split}`] : []),
  ].join(", ");
  const shade = shadeOf(cell, usable, times);
  const figure = times ? briefly(time) : brief(usable ? usable - needed : needed);
  return html`<button type="button" class=${`cell ${shade.words} ${present ? "present" : ""}`}
    title=${words} onClick=${act} style=${{ backgroundColor: shade.ground }}>
    <span aria-hidden="true">${verdict ? SIGNS[verdict] : ""}${split ? "÷" : ""}</span>
    ${" "}${figure}
    <span class="hidden"> ${words}</span></button>`;
}

/** Seconds without their unit. @param {number | null} time */
function briefly(time) {
  return time === null ? "–" : time.toPrecision(time < 100 ? 2 : 3);
}

/** @param {{reason: string, act: () => void}} props */
function Refused({ reason, act }) {
  return html`<button type="button" class="cell refused" title=${reason} onClick=${act}>
    <span aria-hidden="true">×</span><span class="hidden">refused: ${reason}</span></button>`;
}

/** GiB without their unit, with a decimal where that is much. @param {number} bytes */
function brief(bytes) {
  const size = Math.abs(bytes) / 2 ** 30;
  return `${bytes < 0 ? "−" : ""}${size.toFixed(size < 10 ? 1 : 0)}`;
}

/** @param {number} x @param {number} y */
function key(x, y) {
  return `${x},${y}`;
}

/** @type {Map<string, Cell>} */
const NONE = new Map();

/** The cells of all layouts, compared at once when the job itself has been answered.
 * @param {Job} job
 * @param {Axes | null} axes
 * @param {number} headroom
 * @param {boolean} waiting whether the job itself is being answered, which goes before
 */
function useCells(job, axes, headroom, waiting) {
  const question = JSON.stringify([
    axes && put(put(job, axes.across, undefined), axes.down, undefined),
    axes?.across,
    axes?.down,
    headroom,
  ]);
  const [answers, setAnswers] = useState({ question: "", cells: NONE });
  useEffect(() => {
    if (!axes || waiting || answers.question === question) return undefined;
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      const cells = await answered(job, axes, headroom, controller.signal);
      if (cells) setAnswers({ question, cells });
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [question, waiting]);
  return answers.question === question ? answers.cells : NONE;
}

/**
 * @param {Job} job
 * @param {Axes} axes
 * @param {number} headroom
 * @param {AbortSignal} signal
 * @returns {Promise<Map<string, Cell> | null>} null where it was aborted
 */
async function answered(job, axes, headroom, signal) {
  const [across, down] = [AXES[axes.across]?.values ?? [], AXES[axes.down]?.values ?? []];
  const changes = down.flatMap((y) =>
    across.map((x) => ({
      id: key(x, y),
      patch: [
        { op: /** @type {const} */ ("add"), path: axes.across, value: x },
        { op: /** @type {const} */ ("add"), path: axes.down, value: y },
      ],
    })),
  );
  try {
    return await compared(job, changes, headroom, signal);
  } catch (error) {
    const problem = problemOf(error);
    if (!problem) return null;
    const refused = { verdict: null, needed: 0, time: null, reason: reasons(problem).join("; ") };
    return new Map(changes.map(({ id, patch }) => [id, { ...refused, patch }]));
  }
}
