/** A map over two fields of the job, coloured by what would be free of the card. */

import { ask, problemOf } from "../api.js";
import { abbreviated } from "../ask/controls.js";
import { complete } from "../ask/probe.js";
import { at, put } from "../job/pointer.js";
import { Scroll } from "../see/scroll.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { gib, VERDICTS } from "../words.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {{across: string, down: string}} Axes
 * @typedef {{verdict: import("trainfit").Verdict | null, needed: number, reason?: string}} Cell
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

/** So many layouts are asked for at once, so that the map fills while it is looked at. */
const BATCH = 12;
const PAUSE_MS = 300;

/**
 * Paul Tol's "sunset" scheme: blue is free, red is missing, and both are told apart by all. The
 * second colour from either end is a little darker, so that white words stand out from it.
 */
const FREE_TO_MISSING = [
  ...["#364b9a", "#4777b2", "#6ea6cd", "#98cae1", "#c2e4ef"],
  "#eaeccc",
  ...["#feda8b", "#fdb366", "#f67e4b", "#d83a2a", "#a50026"],
];
const DARK = new Set([0, 1, 9, 10]);

/**
 * @param {{job: Job, axes: Axes | null, usable: number | null, headroom: number,
 *   setAxes: (axes: Axes | null) => void,
 *   set: (job: Job) => void}} props
 */
export function LayoutMap({ job, axes, usable, headroom, setAxes, set }) {
  const known =
    axes && AXES[axes.across] && AXES[axes.down] && axes.across !== axes.down ? axes : null;
  const found = useCells(job, known, headroom);
  // Until it is known how much of the card is usable, none is free.
  const cells = usable === null ? NONE : found;
  return html`<section class=${`card ${known ? "" : "idle"}`} aria-labelledby="map-title">
    <div class="card-head"><h2 id="map-title">Map</h2>
      <div class="map-choice">
        ${COMMON.map(
          ({ name, axes: common }) => html`<button type="button" key=${name}
            aria-pressed=${common.across === known?.across && common.down === known?.down}
            onClick=${() => setAxes(common)}>${name}</button>`,
        )}
        ${known && html`<button type="button" onClick=${() => setAxes(null)}>Close</button>`}
      </div></div>
    ${!known && html`<p class="note">See which values of two fields fit, all at once.</p>`}
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
      <span class="progress" role="status">${cells.size < total
        ? html`<progress max=${total} value=${cells.size}
          aria-label="layouts answered"></progress> ${cells.size} of ${total}`
        : `${total} layouts`}</span>
    </div>
    <${Scroll} label="Map"><table class="map"
      aria-label="GiB free of the card, by the expected need">
      <thead><tr><th scope="col" class="corner">
        ${AXES[axes.down]?.label} ↓<br />${AXES[axes.across]?.label} →</th>
        ${across.map((value) => html`<th key=${value} scope="col"
          class="figure">${abbreviated(value)}</th>`)}</tr></thead>
      <tbody>${down.map(
        (y) => html`<tr key=${y}><th scope="row" class="figure">${abbreviated(y)}</th>
          ${across.map((x) => {
            const present = at(job, axes.across) === x && at(job, axes.down) === y;
            return html`<td key=${x}><${CellButton} cell=${cells.get(key(x, y))}
              ...${{ usable, present }}
              act=${() => set(put(put(job, axes.across, x), axes.down, y))} /></td>`;
          })}</tr>`,
      )}</tbody></table></${Scroll}>
    <p class="note">${usable ? MEANING : "GiB needed; name a card to see what is free."}
      <span class="hint"> Click to use a layout.</span></p>`;
}

const MEANING =
  "GiB free of the card by the expected need; − is missing. " +
  "✓ fits even by the high bound, ≈ is tight, × is refused.";
const SIGNS = { fits: "✓", tight: "≈", does_not_fit: "", unknown: "?" };

/** @param {{cell: Cell | undefined, usable: number, present: boolean, act: () => void}} props */
function CellButton({ cell, usable, present, act }) {
  if (!cell) return html`<span class="cell"></span>`;
  if (cell.reason) return html`<${Refused} reason=${cell.reason} act=${act} />`;
  const free = usable - cell.needed;
  const index = usable ? Math.round(5 - 5 * Math.max(-1, Math.min(1, free / usable))) : 5;
  const needed = `${gib(cell.needed)} needed`;
  const words = cell.verdict ? `${VERDICTS[cell.verdict]}, ${needed}` : needed;
  const shade = `${DARK.has(index) ? "dark" : "pale"} ${present ? "present" : ""}`;
  return html`<button type="button" class=${`cell ${shade}`} title=${words} onClick=${act}
    style=${{ backgroundColor: FREE_TO_MISSING[index] }}>
    <span aria-hidden="true">${cell.verdict ? SIGNS[cell.verdict] : ""}</span>
    ${" "}${brief(usable ? free : cell.needed)}
    <span class="hidden"> ${words}</span></button>`;
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

/** The cells as they are answered; whatever is under way is aborted when the question changes.
 * @param {Job} job
 * @param {Axes | null} axes
 * @param {number} headroom
 */
function useCells(job, axes, headroom) {
  const question = JSON.stringify([
    axes && put(put(job, axes.across, undefined), axes.down, undefined),
    axes,
    headroom,
  ]);
  const [answers, setAnswers] = useState({ question, cells: NONE });
  useEffect(() => {
    if (!axes) return undefined;
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      try {
        for await (const cells of answered(job, axes, headroom, controller.signal))
          setAnswers({ question, cells });
      } catch (error) {
        if (problemOf(error)) setAnswers({ question, cells: NONE });
      }
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [question]);
  return answers.question === question ? answers.cells : NONE;
}

/**
 * @param {Job} job
 * @param {Axes} axes
 * @param {number} headroom
 * @param {AbortSignal} signal
 */
async function* answered(job, axes, headroom, signal) {
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
  const found = /** @type {Map<string, Cell>} */ (new Map());
  for (let first = 0; first < changes.length; first += BATCH) {
    const part = changes.slice(first, first + BATCH);
    const policy = { headroom_ratio: headroom };
    const question = { job: complete(job), changes: part, policy };
    const { jobs } = await ask("v1/compare", question, signal);
    for (const { id, comparison, problem } of jobs) {
      found.set(id, {
        verdict: comparison?.verdict ?? null,
        needed: comparison?.binding.device_bytes.expected ?? 0,
        reason: problem?.detail,
      });
    }
    yield new Map(found);
  }
}
