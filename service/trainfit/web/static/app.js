/** The page as a whole: the question on one side, the answer on the other. */

import { AnswerColumn } from "./answer.js";
import { CardChoice } from "./ask/card.js";
import { drafts, unasked } from "./ask/drafts.js";
import { Form, FrameworkChoice } from "./ask/form.js";
import { leaveOut } from "./ask/framework.js";
import { ModelChoice } from "./ask/model.js";
import { Presets } from "./ask/presets.js";
import { probeId } from "./ask/probe.js";
import { Runs } from "./ask/runs.js";
import { fromAddress, toAddress } from "./job/address.js";
import { patched } from "./job/pointer.js";
import { Limited } from "./limited.js";
import { isOf, Question } from "./question.js";
import { NotThisRun, staleness } from "./stale.js";
import { INITIAL, Store, use } from "./state.js";
import { useStore } from "./stored.js";
import { html, useEffect, useMemo, useRef } from "./vendor/htm-preact.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./question.js").Answers} Answers
 * @typedef {import("./stale.js").Stale} Stale
 * @typedef {object} Known What the service knows by name.
 * @property {import("./job/schema.js").JobSchema} schema
 * @property {import("trainfit").BundledModel[]} models
 * @property {import("./ask/search.js").Popular} popular
 * @property {import("trainfit").Gpu[]} gpus
 * @property {import("./share/command.js").Flags} flags
 * @property {import("./ask/presets.js").Preset[]} presets
 */

/** Changes as close as those of a key that is held down are asked together, when they end. */
const BURST_MS = 30;
/** Half a word is no name yet. */
const WORDS_MS = 400;

/** @param {{known: Known}} props */
export function App({ known }) {
  const store = useAddress();
  const pace = useRef(0);
  const question = useQuestion(store, pace);
  const state = useStore(store);
  const answers = useStore(question.answers);
  const stale = staleness(answers, state, unasked(useStore(drafts), state.job));
  return html`<${Top} />
    <div class="columns">
      <${AskColumn} ...${{ known, store, state, question, answers, stale, pace }} />
      <${NotThisRun} ...${{ stale }} before=${answers.answer !== null} />
      <${AnswerColumn} ...${{ store, state, question, answers, stale, known }} />
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
      <a href="guide/">Guide</a>
      <a href="docs">API</a>
    </nav>
  </header>`;
}

/**
 * @param {{known: Known, store: Store<State>, state: State, question: Question, answers: Answers,
 *   stale: Stale | null, pace: {current: number}}} props
 */
function AskColumn({ known, store, state, question, answers, stale, pace }) {
  const context = contextOf(known, store, answers, pace);
  const { answer, refusal } = answers;
  const problem = refusal?.problem;
  const priced = answer?.job.model === state.job.model ? answer?.estimate : undefined;
  const estimate = answer && isOf(answer, state) ? answer.estimate : undefined;
  const retry = () => question.asked(state);
  const gated = problem?.type.endsWith("/gated-model") ?? false;
  const keepFree = (/** @type {number} */ headroom) => store.update({ headroom });
  const stay = (/** @type {Event} */ event) => event.preventDefault();
  return html`<form class=${`ask ${stale ? "stale" : ""}`} aria-label="The training run"
    autocomplete="off" onSubmit=${stay}>
    <${Presets} presets=${known.presets} job=${state.job} use=${context.use} />
    <${Runs} ...${{ store, state }} answered=${estimate !== undefined && !stale} />
    <${FrameworkChoice} context=${context} />
    <${ModelChoice} ...${{ models: known.models, popular: known.popular }}
      ...${{ context, gated, retry }} estimate=${priced} />
    <${CardChoice} ...${{ gpus: known.gpus, context, keepFree }} headroom=${state.headroom} />
    <${Form} ...${{ context, estimate }} />
  </form>`;
}

/**
 * @param {Known} known
 * @param {Store<State>} store
 * @param {Answers} answers
 * @param {{current: number}} pace
 * @returns {import("./ask/field.js").Context}
 */
function contextOf({ schema }, store, { answer, refusal, outlook }, pace) {
  const { job, headroom } = store.value;
  const found = isOf(outlook, store.value) ? outlook?.found : undefined;
  const named = job.framework?.name ?? answer?.estimate.job?.framework?.name;
  const filled = answer?.fit?.job ?? answer?.estimate.job;
  /** @type {import("./ask/field.js").Context["set"]} */
  const set = (pointer, value) => {
    store.update({ job: schema.edited(store.value.job, pointer, value) });
    if (pointer === "/framework") leaveOut(store, schema);
  };
  return {
    job,
    headroom,
    schema,
    filled: filled?.framework?.name === named ? filled : undefined,
    set,
    type: (pointer, value) => {
      pace.current = WORDS_MS;
      set(pointer, value);
    },
    apply: (patch) => use(store, patched(store.value.job, patch)),
    use: (next) => use(store, next),
    findings: refusal?.problem.errors ?? [],
    outlook: (pointer, value) => found?.get(probeId(pointer, value)),
    scope: "",
  };
}

/**
 * The question, asked as the state changes: a change by itself at once, before it is drawn.
 * @param {Store<State>} store
 * @param {{current: number}} pace In milliseconds, how long the next change waits for others.
 */
function useQuestion(store, pace) {
  const question = useMemo(() => new Question(), []);
  useEffect(() => {
    let asked = store.value;
    let changed = 0;
    question.asked(asked);
    return store.subscribe((state) => {
      if (isOf(asked, state)) return;
      asked = state;
      const now = performance.now();
      question.asked(state, Math.max(pace.current, now - changed < BURST_MS ? BURST_MS : 0));
      pace.current = 0;
      changed = now;
    });
  }, [question, store]);
  return question;
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
    const write = (/** @type {State} */ state) => {
      try {
        history.replaceState(null, "", `#${toAddress(state)}`);
      } catch {
        // Browsers refuse addresses that are too long or change too often: the page goes on.
      }
    };
    const ended = store.subscribe(write);
    return () => {
      removeEventListener("hashchange", reopened);
      ended();
    };
  }, [store]);
  return store;
}
