/** The answer: the verdict and what it is made of, what would help, and what can be taken away. */

import { ComparisonTable } from "./decide/comparison.js";
import { LayoutMap } from "./decide/map.js";
import { Suggestions } from "./decide/suggestions.js";
import { layoutOf } from "./job/difference.js";
import { patched } from "./job/pointer.js";
import { isStale } from "./question.js";
import { Basis } from "./see/basis.js";
import { Pipeline } from "./see/pipeline.js";
import { Run } from "./see/run.js";
import { StageDetail } from "./see/stage.js";
import { CapacityLegend, Legend, StageBars } from "./see/stages.js";
import { Verdict } from "./see/verdict.js";
import { Share } from "./share/share.js";
import { use } from "./state.js";
import { html } from "./vendor/htm-preact.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Answer} Answer
 * @typedef {import("./question.js").Answers} Answers
 * @typedef {object} Props
 * @property {import("./state.js").Store<State>} store
 * @property {State} state
 * @property {import("./question.js").Question} question
 * @property {Answers} answers
 * @property {string} cardName
 * @property {import("./share/command.js").Flags} flags
 */

/** @param {Props} props */
export function AnswerColumn(props) {
  const { state, question, answers, cardName } = props;
  const { answer, problem } = answers;
  const busy = isStale(answers, state);
  return html`<main class=${`answer ${problem ? "stale" : ""}`} aria-busy=${busy}>
    ${problem &&
    html`<${Refusal} ...${{ problem, stale: answer !== null }}
      again=${() => question.asked(state)} />`}
    ${answer && !problem &&
    html`<${Verdict} ...${{ estimate: answer.estimate, fit: answer.fit, cardName }} />`}
    ${answer && html`<${Cards} ...${props} answer=${answer} />`}
  </main>`;
}

/** @param {{problem: import("trainfit").Problem, stale: boolean, again: () => void}} props */
function Refusal({ problem, stale, again }) {
  return html`<div class="verdict problem" role="status">
    <p class="headline"><strong>${problem.title}</strong></p>
    <p>${problem.detail}${stale && ". Below is the answer to the question before."}</p>
    ${!problem.errors.length && html`<button type="button" onClick=${again}>Ask again</button>`}
  </div>`;
}

/** @param {Props & {answer: Answer}} props */
function Cards({ store, state, answers, answer, cardName, flags }) {
  const { estimate, fit } = answer;
  const { stages, binding } = estimate;
  const usable = fit?.usable_bytes ?? 0;
  const selected = Math.min(state.stage ?? binding.pp_rank, stages.length - 1);
  const select = (/** @type {number} */ stage) => store.update({ stage });
  const apply = (/** @type {import("trainfit").Change[]} */ patch) =>
    use(store, patched(state.job, patch));
  const named = estimate.model.name ?? estimate.model.model_type;
  const title = `${named}: ${layoutOf(state.job)} on ${estimate.parallelism.num_gpus} GPUs`;
  return html`<${Run} answer=${answer} />
    <section class="card" aria-labelledby="stages-title">
      <div class="card-head">
        <h2 id="stages-title">Memory of each pipeline stage</h2>
        <${CapacityLegend} ...${{ fit, cardName }} />
      </div>
      <${StageBars} ...${{ estimate, fit, selected, select }} />
      <${Legend} />
    </section>
    ${fit &&
    html`<${Suggestions} ...${{ verdict: fit.verdict, apply }}
      suggestions=${answers.suggestions} />`}
    <${Decisions} ...${{ store, state, usable }} />
    <${StageDetail} answer=${answer} rank=${selected} />
    ${stages.length > 1 &&
    html`<section class="card" aria-labelledby="pipeline-title">
      <div class="card-head"><h2 id="pipeline-title">Layers of each stage</h2></div>
      <${Pipeline} ...${{ stages, selected, select }} />
    </section>`}
    <${Basis} estimate=${estimate} />
    <${Share} ...${{ state, answer, flags, title }} />`;
}

/** @param {{store: Props["store"], state: State, usable: number}} props */
function Decisions({ store, state, usable }) {
  const { job, pins, map } = state;
  const pin = () => store.update({ pins: [...pins, { name: layoutOf(job), job }] });
  const unpin = (/** @type {number} */ index) => store.update({ pins: pins.toSpliced(index, 1) });
  const used = (/** @type {State["job"]} */ next) => use(store, next);
  const setAxes = (/** @type {State["map"]} */ axes) => store.update({ map: axes });
  return html`<${ComparisonTable} ...${{ state, usable, pin, unpin, use: used }} />
    <${LayoutMap} ...${{ job, axes: map, usable, setAxes, set: used }} />`;
}
