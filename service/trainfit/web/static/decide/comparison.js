/** Layouts that were pinned, beside the present one and what changed: each against its own card. */

import { listed } from "../ask/card.js";
import { textOf } from "../ask/input.js";
import { useAsked } from "../asked.js";
import { differences } from "../job/difference.js";
import { reasons } from "../job/said.js";
import { colourOf } from "../see/components.js";
import { Scroll } from "../see/scroll.js";
import { copied } from "../share/copy.js";
import { markdown } from "../share/markdown.js";
import { html, useRef, useState } from "../vendor/htm-preact.js";
import { gib, number, plain, range, seconds, secondsRange, signed, VERDICTS } from "../words.js";

/**
 * @typedef {import("../state.js").State} State
 * @typedef {import("../state.js").Pin} Pin
 * @typedef {import("trainfit").Gpu} Gpu
 * @typedef {import("trainfit").ComparedJob} ComparedJob
 * @typedef {import("trainfit").Comparison["stages"][number]} ComparedStage
 * @typedef {Pin & {id: string, answer: ComparedJob | undefined, usable: number, card: string}} Row
 */

const PRESENT = "present";
const BAR = 110;

/**
 * @param {{state: State, gpus: Gpu[], pin: (job: State["job"]) => void,
 *   change: (pins: Pin[]) => void, use: (job: State["job"]) => void}} props
 */
export function ComparisonTable({ state, gpus, pin, change, use }) {
  const { pins, job } = state;
  const named = [
    ...pins.map((each, index) => ({ ...each, id: `pin ${index}` })),
    { name: "Now", job, id: PRESENT },
  ];
  const jobs = named.map((each) => ({ id: each.id, job: each.job }));
  const policy = { headroom_ratio: state.headroom };
  const { answer: compared, stale } = useAsked(
    "v1/compare",
    pins.length ? { jobs, policy } : null,
  );
  const answers = new Map((compared?.jobs ?? []).map((each) => [each.id, each]));
  const rows = named.map((each) => ({
    ...each,
    ...cardOf(gpus, each.job.gpu),
    answer: answers.get(each.id),
  }));
  const needs = rows.map(({ answer }) => answer?.comparison?.binding.device_bytes.high ?? 0);
  const most = Math.max(...rows.map(({ usable }) => usable), ...needs, 1);
  const outdated = pins.length > 0 && compared !== null && stale;
  const rename = (/** @type {number} */ index) => (/** @type {string} */ name) =>
    change(pins.with(index, { name, job: named[index]?.job ?? job }));
  return html`<section class=${`card ${pins.length ? "" : "idle"} ${outdated ? "stale" : ""}`}
    aria-labelledby="comparison-title">
    <div class="card-head"><h2 id="comparison-title">Side by side</h2>
      ${outdated && html`<strong class="not">not these runs</strong>`}
      <button type="button" onClick=${() => pin(job)}>Pin this layout</button></div>
    ${!pins.length &&
    html`<p class="note">Pin a layout, change it, and see what the change saves.</p>`}
    ${pins.length > 0 &&
    html`<${Scroll} label="Layouts side by side"><table class="comparison">
      <thead><tr><th scope="col">layout</th><th scope="col">card</th>
        <th scope="col">stage that needs most</th>
        <th scope="col" class="figure">needs</th><th scope="col" class="figure">difference</th>
        <th scope="col" class="figure">step</th><th scope="col">verdict</th><td></td></tr></thead>
      <tbody>${rows.map(
        (row, index) => html`<tr key=${index} class=${row.id}>
          <${Name} ...${{ row, index }} baseline=${named[0]?.job}
            rename=${row.id === PRESENT ? null : rename(index)} />
          <${Figures} ...${{ row, most }} />
          <td class="actions">${row.id !== PRESENT &&
          html`<button type="button" aria-label=${`Use ${row.name}`}
              onClick=${() => use(row.job)}>Use</button>
            <button type="button" aria-label=${`Remove ${row.name}`}
              onClick=${() => change(pins.toSpliced(index, 1))}>Remove</button>`}</td></tr>`,
      )}</tbody></table></${Scroll}>
    ${!outdated && html`<${AsMarkdown} rows=${rows} />`}`}
  </section>`;
}

/** The card of a job and what of it is usable; 0 where that is not known.
 * @param {Gpu[]} gpus
 * @param {State["job"]["gpu"]} gpu
 */
function cardOf(gpus, gpu) {
  const known = listed(gpus, gpu);
  const given = gpu !== null && typeof gpu === "object" ? gpu : undefined;
  const whole = given?.memory_bytes ?? known?.reported_bytes ?? 0;
  const card = known?.name ?? given?.name ?? (typeof gpu === "string" ? gpu : gib(whole));
  const usable = Math.max(whole - (given?.reserved_other_bytes ?? 0), 0);
  return { card: gpu ? card : "none", usable };
}

/**
 * What a layout is called, and what it changes.
 * @param {{row: Row, index: number, baseline: State["job"] | undefined,
 *   rename: ((name: string) => void) | null}} props
 */
function Name({ row: { name, job }, index, baseline, rename }) {
  return html`<th scope="row">${rename
    ? html`<input type="text" class="name" aria-label=${`Name of layout ${index + 1}`} value=${name}
        onInput=${textOf(rename)} />`
    : name}<small>${changed(job, baseline)}</small></th>`;
}

/** @param {State["job"]} job @param {State["job"] | undefined} baseline */
function changed(job, baseline) {
  if (job === baseline || !baseline) return "the others are compared to it";
  return differences(job, baseline).join(", ") || "nothing changed";
}

/** @param {{row: Row, most: number}} props */
function Figures({ row: { answer, usable, card }, most }) {
  if (answer?.problem)
    return html`<td>${card}</td><td colspan="5">${reasons(answer.problem).join("; ")}</td>`;
  if (!answer?.comparison) return html`<td>${card}</td><td colspan="5"></td>`;
  const { binding, difference_bytes, parallelism, stages, verdict } = answer.comparison;
  const { step_seconds: time } = answer.comparison;
  const { expected, low, high } = binding.device_bytes;
  return html`<td>${number(parallelism.num_gpus)} × ${card}
      <small>${usable > 0 && `${gib(usable)} each, `}dp ${number(parallelism.dp)}</small></td>
    <td><${ComponentBar} stage=${stages[binding.pp_rank]} ...${{ most, usable }} /></td>
    <td class="figure">${gib(expected)}<small>${range(low, high)}</small></td>
    <td class="figure">${difference_bytes ? signed(difference_bytes) : "–"}</td>
    <td class="figure">${time
      ? html`${seconds(time.expected)}<small>${secondsRange(time)}</small>`
      : "–"}</td>
    <td class=${`outcome ${verdict ?? ""}`}>${verdict ? VERDICTS[verdict] : "–"}</td>`;
}

/** @param {{rows: Row[]}} props */
function AsMarkdown({ rows }) {
  const [told, tell] = useState("");
  const shown = useRef(/** @type {HTMLElement | null} */ (null));
  const text = markdown([
    ["layout", "changes", "GPUs", "needs", "bounds", "step", "verdict"],
    ...rows.map((row) => [row.name, changed(row.job, rows[0]?.job), ...cells(row)]),
  ]);
  return html`<div class="row">
      <button type="button" onClick=${async () => tell(await copied(text, shown.current))}>
        Copy as Markdown</button>
      <span class="note" role="status">${told}</span></div>
    <pre ref=${shown} hidden=${!told.startsWith("Selected")}>${text}</pre>`;
}

/** @param {Row} row */
function cells({ answer, card }) {
  const found = answer?.comparison;
  if (!found) return ["", "", "", "", answer?.problem?.title ?? ""];
  const { expected, low, high } = found.binding.device_bytes;
  return [
    `${number(found.parallelism.num_gpus)} × ${card}`,
    gib(expected),
    range(low, high),
    found.step_seconds ? seconds(found.step_seconds.expected) : "–",
    found.verdict ? VERDICTS[found.verdict] : "–",
  ];
}

/** @param {{stage: ComparedStage, most: number, usable: number}} props */
function ComponentBar({ stage, most, usable }) {
  const scale = BAR / most;
  const words = stage.components.map((each) => `${plain(each.name)} ${gib(each.bytes)}`).join(", ");
  let left = 0;
  const parts = stage.components.map((component) => {
    const x = left;
    left += component.bytes * scale;
    return { component, x };
  });
  return html`<svg width=${BAR} height="20" role="img"
    aria-label=${`stage ${stage.pp_rank}: ${words}`}>
    <title>${words}</title>
    ${parts.map(
      ({ component: { name, bytes }, x }) => html`<rect key=${name} x=${x} y="3"
        width=${bytes * scale}
        height="14" fill=${colourOf(name)} />`,
    )}
    ${usable > 0 &&
    html`<line class="limit" x1=${usable * scale} x2=${usable * scale} y1="0" y2="20" />`}
  </svg>`;
}
