/** The answer: the verdict and what it is made of, what would help, and what can be taken away. */

import { useAsked } from "./asked.js";
import { listed } from "./ask/card.js";
import { drop } from "./ask/drafts.js";
import { Remedy } from "./ask/field.js";
import { ComparisonTable } from "./decide/comparison.js";
import { LayoutMap } from "./decide/map.js";
import { Ran } from "./decide/ran.js";
import { Suggestions } from "./decide/suggestions.js";
import { layoutOf } from "./job/difference.js";
import { patched } from "./job/pointer.js";
import { reasons } from "./job/said.js";
import { Find } from "./find/find.js";
import { isOf } from "./question.js";
import { Basis } from "./see/basis.js";
import { Pipeline } from "./see/pipeline.js";
import { Run } from "./see/run.js";
import { StageDetail } from "./see/stage.js";
import { CapacityLegend, Legend, StageBars } from "./see/stages.js";
import { StepTime } from "./see/time.js";
import { leastFree, Verdict } from "./see/verdict.js";
import { Share } from "./share/share.js";
import { use } from "./state.js";
import { html } from "./vendor/htm-preact.js";
import { capital } from "./words.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Answer} Answer
 * @typedef {import("./question.js").Answers} Answers
 * @typedef {import("./stale.js").Stale} Stale
 * @typedef {object} Props
 * @property {import("./app.js").Known} known
 * @property {import("./state.js").Store<State>} store
 * @property {State} state
 * @property {import("./question.js").Question} question
 * @property {Answers} answers
 * @property {Stale | null} stale
 */

/** @param {Props} props */
export function AnswerColumn(props) {
  const { state, question, answers, stale, known } = props;
  const { answer, refusal, waiting } = answers;
  const busy = waiting || !(isOf(answer, state) || isOf(refusal, state));
  const cardName = answer ? cardOf(known, answer.job.gpu) : "";
  const looked = answer !== null && isOf(answer, state);
  return html`<main class=${`answer ${stale ? "stale" : ""}`} aria-busy=${busy}>
    ${stale?.apart && html`<${Unasked} why=${stale.why} id=${stale.apart} />`}
    ${refusal &&
    html`<${Refused} ...${{ problem: refusal.problem, before: answer !== null, looked }}
      again=${() => question.asked(state)}
      apply=${(/** @type {readonly import("trainfit").Change[]} */ patch) =>
        use(props.store, patched(state.job, patch))} />`}
    ${answer && (!refusal || looked) && html`<${Verdict} ...${{ answer, cardName, waiting }} />`}
    ${answer && html`<${Cards} ...${{ ...props, answer, cardName }} />`}
  </main>`;
}

/** @param {import("./app.js").Known} known @param {import("trainfit").Job["gpu"]} gpu */
function cardOf(known, gpu) {
  const given = gpu !== null && typeof gpu === "object" ? (gpu.name ?? "the card") : gpu;
  return listed(known.gpus, gpu)?.name ?? given ?? "";
}

/** What stands in no field, so that nothing there undoes it.
 * @param {{why: string, id: string}} props
 */
function Unasked({ why, id }) {
  return html`<div class="verdict problem">
    <p class="headline"><strong>${capital(why)}</strong></p>
    <p>What follows is not this run: it is the one of the form.
      ${" "}<button type="button" onClick=${() => drop(id)}>Go on with the form</button></p>
  </div>`;
}

/**
 * @param {{problem: import("trainfit").Problem, before: boolean, looked: boolean,
 *   again: () => void, apply: (patch: readonly import("trainfit").Change[]) => void}} props
 *   `before`: whether an answer follows; `looked`: whether that is a first look at this run
 */
function Refused({ problem, before, looked, again, apply }) {
  const said = reasons(problem);
  return html`<div class="verdict problem" role="status">
    <p class="headline"><strong>${problem.title}</strong></p>
    ${said.map((words, index) => html`<p key=${words}>${capital(words)}.
      <${Remedy} patch=${problem.errors[index]?.suggestion ?? []} apply=${apply} /></p>`)}
    ${before &&
    (looked
      ? html`<p>What follows is no more than a <b>first look</b>: what the allocator reserves
          rests on a ratio.</p>`
      : html`<p>What follows is <b>not this run</b>, but the last that had an answer.</p>`)}
    ${!problem.errors.length && html`<button type="button" onClick=${again}>Ask again</button>`}
  </div>`;
}

/** @param {Props & {answer: Answer, cardName: string}} props */
function Cards({ store, state, question, answers, answer, stale, cardName, known }) {
  const { estimate, fit, job } = answer;
  const { stages, binding } = estimate;
  const selected = Math.min(state.stage ?? binding.pp_rank, stages.length - 1);
  const select = (/** @type {number} */ stage) => store.update({ stage });
  const apply = stale
    ? null
    : (/** @type {import("trainfit").Change[]} */ patch) => use(store, patched(job, patch));
  const named = estimate.model.name ?? estimate.model.model_type;
  const title = `${named}: ${layoutOf(job)} on ${estimate.parallelism.num_gpus} GPUs`;
  // Of another card it is not known yet how much is usable.
  const usable = job.gpu === state.job.gpu ? (fit?.usable_bytes ?? 0) : null;
  // What the allocator reserves says nothing of time.
  const timed = useAsked("v1/estimate?replay=false", job.gpu ? job : null);
  return html`<${Run} answer=${answer} />
    <section class="card" aria-labelledby="stages-title">
      <div class="card-head">
        <h2 id="stages-title">Memory of each pipeline stage</h2>
        ${stale && html`<strong class="not">not this run</strong>`}
        <${CapacityLegend} ...${{ fit, cardName }} />
      </div>
      <${StageBars} ...${{ estimate, fit, selected, select }} />
      <${Legend} />
    </section>
    ${fit && !stale?.refused && !stale?.apart &&
    html`<${Suggestions} ...${{ verdict: fit.verdict, apply }}
      suggestions=${answers.suggestions} again=${() => question.lookAgain()} />`}
    ${job.gpu && html`<${StepTime} timed=${timed} />`}
    <${Ran} ...${{ job, apply, timed }} use=${(/** @type {State["job"]} */ next) =>
      use(store, next)} />
    <${Decisions} ...${{ store, state, usable, known }} waiting=${answers.waiting}
      now=${stale || timed.stale ? null : nowOf(fit, timed.answer?.step_seconds)} />
    <${StageDetail} answer=${answer} rank=${selected} />
    ${stages.length > 1 &&
    html`<section class="card" aria-labelledby="pipeline-title">
      <div class="card-head"><h2 id="pipeline-title">Layers of each stage</h2></div>
      <${Pipeline} ...${{ stages, selected, select }} />
    </section>`}
    <${Basis} estimate=${estimate} />
    <${Share} ...${{ state, answer, title, cardName, stale: stale !== null || answer.first }}
      flags=${known.flags} />`;
}

/** What is known of the layout that is answered, beside those that a search finds.
 * @param {import("trainfit").FitCheck | null} fit
 * @param {{expected: number} | null | undefined} time
 * @returns {import("./find/scatter.js").Now | null}
 */
function nowOf(fit, time) {
  if (!fit || !time) return null;
  return { time: time.expected, free: leastFree(fit) };
}

/**
 * @param {{store: Props["store"], state: State, usable: number | null, waiting: boolean,
 *   known: import("./app.js").Known, now: import("./find/scatter.js").Now | null}} props
 */
function Decisions({ store, state, usable, waiting, known, now }) {
  const { job, headroom, pins, map } = state;
  const pin = (/** @type {State["job"]} */ kept) =>
    store.update({ pins: [...pins, { name: layoutOf(kept), job: kept }] });
  const change = (/** @type {State["pins"]} */ kept) => store.update({ pins: kept });
  const used = (/** @type {State["job"]} */ next) => use(store, next);
  const setAxes = (/** @type {State["map"]} */ axes) => store.update({ map: axes });
  return html`<${Find} ...${{ job, headroom, gpus: known.gpus, now, use: used, pin }} />
    <${ComparisonTable} ...${{ state, pin, change, use: used }} gpus=${known.gpus} />
    <${LayoutMap} ...${{ job, axes: map, usable, headroom, waiting, setAxes, set: used }} />`;
}
