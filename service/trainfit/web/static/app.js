/** The page as a whole: the question on one side, the answer on the other. */

import { AnswerColumn } from "./answer.js";
import { CardChoice, listed } from "./ask/card.js";
import { Form } from "./ask/form.js";
import { ModelChoice } from "./ask/model.js";
import { Presets } from "./ask/presets.js";
import { probeId } from "./ask/probe.js";
import { fromAddress, toAddress } from "./job/address.js";
import { patched, put } from "./job/pointer.js";
import { Limited } from "./limited.js";
import { Question } from "./question.js";
import { INITIAL, Store, use } from "./state.js";
import { useStore } from "./stored.js";
import { html, useEffect, useMemo } from "./vendor/htm-preact.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./question.js").Answers} Answers
 * @typedef {import("trainfit").Job} Job
 * @typedef {object} Known What the service knows by name.
 * @property {import("./job/schema.js").JobSchema} schema
 * @property {import("trainfit").BundledModel[]} models
 * @property {import("trainfit").Gpu[]} gpus
 * @property {import("./share/command.js").Flags} flags
 * @property {import("./ask/presets.js").Preset[]} presets
 */

/** @param {{known: Known}} props */
export function App({ known }) {
  const store = useAddress();
  const question = useMemo(() => new Question(), []);
  const state = useStore(store);
  const answers = useStore(question.answers);
  useEffect(() => question.asked(state), [question, state.job, state.headroom]);
  const cardName = cardOf(known, state.job.gpu);
  return html`<${Top} />
    <div class="columns">
      <${AskColumn} ...${{ known, store, state, question, answers }} />
      <${AnswerColumn} ...${{ store, state, question, answers, cardName, flags: known.flags }} />
    </div>
    <${Limited} />`;
}

function Top() {
  const toForm = () => document.querySelector(".ask")?.scrollIntoView();
  return html`<header class="top">
    <h1><img src="page/icon.svg" alt="" width="22" height="22" /> Trainfit</h1>
    <p>How much memory every rank of a training run will need, before it starts</p>
    <nav aria-label="Elsewhere">
      <button type="button" class="to-form" onClick=${toForm}>Change the run</button>
      <a href="docs">API</a>
    </nav>
  </header>`;
}

/**
 * @param {{known: Known, store: Store<State>, state: State, question: Question,
 *   answers: Answers}} props
 */
function AskColumn({ known, store, state, question, answers }) {
  const context = contextOf(known, store, answers);
  const { problem } = answers;
  const estimate = problem ? undefined : answers.answer?.estimate;
  const retry = () => question.asked(state);
  const gated = problem?.type.endsWith("/gated-model") ?? false;
  const setHeadroom = (/** @type {number} */ headroom) => store.update({ headroom });
  const stay = (/** @type {Event} */ event) => event.preventDefault();
  return html`<form class="ask" aria-label="The training run" onSubmit=${stay}>
    <${Presets} presets=${known.presets} job=${state.job} use=${context.use} />
    <${ModelChoice} ...${{ models: known.models, context, gated, retry }}
      priced=${estimate?.model} />
    <${CardChoice} ...${{ gpus: known.gpus, context, setHeadroom }} headroom=${state.headroom} />
    <${Form} ...${{ context, schema: known.schema, estimate }} />
  </form>`;
}

/**
 * @param {Known} known
 * @param {Store<State>} store
 * @param {Answers} answers
 * @returns {import("./ask/field.js").Context}
 */
function contextOf(known, store, { answer, problem, outlook }) {
  const { job } = store.value;
  return {
    job,
    filled: answer?.fit?.job ?? answer?.estimate.job,
    field: (pointer) => known.schema.field(pointer, job.framework?.name ?? "megatron"),
    set: (pointer, value) => store.update({ job: put(store.value.job, pointer, value) }),
    apply: (patch) => use(store, patched(store.value.job, patch)),
    use: (next) => use(store, next),
    findings: problem?.errors ?? [],
    outlook: (pointer, value) => outlook.get(probeId(pointer, value)),
  };
}

/** The state, kept in the address. @returns {Store<State>} */
function useAddress() {
  const store = useMemo(() => new Store(fromAddress(location.hash, INITIAL)), []);
  useEffect(() => {
    const reopened = () => {
      if (location.hash.slice(1) === toAddress(store.value)) return;
      store.update(fromAddress(location.hash, INITIAL));
    };
    addEventListener("hashchange", reopened);
    const write = (/** @type {State} */ state) =>
      history.replaceState(null, "", `#${toAddress(state)}`);
    const ended = store.subscribe(write);
    return () => {
      removeEventListener("hashchange", reopened);
      ended();
    };
  }, [store]);
  return store;
}

/** @param {Known} known @param {Job["gpu"]} gpu */
function cardOf(known, gpu) {
  const name = gpu !== null && typeof gpu === "object" ? (gpu.name ?? "the card") : gpu;
  return listed(known.gpus, gpu)?.name ?? name ?? "";
}
