/**
 * Answers the question as it changes: a moment after the last change, and whatever is still under
 * way for an earlier one is aborted. A first look, by a ratio in the place of the replayed
 * allocator, stands there until the exact answer comes.
 */

import { ask, problemOf } from "./api.js";
import { probe } from "./ask/probe.js";
import { Store } from "./state.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Answer} Answer
 * @typedef {import("./state.js").Refusal} Refusal
 * @typedef {import("./state.js").Asked} Asked
 * @typedef {import("trainfit").Suggestion} Suggestion
 * @typedef {import("./decide/compared.js").Outlook} Outlook
 */

/**
 * @typedef {object} Answers
 * @property {Answer | null} answer The last one, while a newer one is sought or refused.
 * @property {Refusal | null} refusal Of the last question, where that had no answer, or no more
 *   than a first look.
 * @property {boolean} waiting Whether the exact answer is to come.
 * @property {Suggestion[] | "unanswered" | null} suggestions null while they are looked for.
 * @property {Asked & {found: Map<string, Outlook>} | null} outlook
 */

/** What costs more waits until typing has paused. */
const PAUSE_MS = 250;
/** What is exact as soon as this needs no first look. */
const AT_ONCE_MS = 25;

export class Question {
  constructor() {
    /** @type {Store<Answers>} */
    this.answers = new Store(
      /** @type {Answers} */ ({
        answer: null,
        refusal: null,
        waiting: true,
        suggestions: null,
        outlook: null,
      }),
    );
    this.under_way = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /** @param {State} state @param {number} [delay] in milliseconds */
  asked(state, delay = 0) {
    clearTimeout(this.timer);
    this.under_way.abort();
    this.under_way = new AbortController();
    const { signal } = this.under_way;
    this.answers.update({ waiting: true });
    // A question that need not wait goes out before the page draws that it is asked.
    if (delay) this.timer = setTimeout(() => this.#answer(state, signal), delay);
    else this.#answer(state, signal);
  }

  /** @param {State} state @param {AbortSignal} signal */
  async #answer({ job, headroom }, signal) {
    const asked = { job, headroom };
    let look = () => {};
    try {
      const first = await answered(asked, true, signal);
      look = () => this.answers.update({ answer: first, refusal: null, suggestions: null });
      const showing = setTimeout(look, AT_ONCE_MS);
      signal.addEventListener("abort", () => clearTimeout(showing));
      const answer = await answered(asked, false, signal).finally(() => clearTimeout(showing));
      if (signal.aborted) return;
      this.answers.update({ answer, refusal: null, waiting: false, suggestions: null });
    } catch (error) {
      const problem = problemOf(error);
      if (problem === null || signal.aborted) return;
      look();
      const suggestions = "unanswered";
      this.answers.update({ refusal: { ...asked, problem }, waiting: false, suggestions });
    }
    this.timer = setTimeout(() => this.#decide(asked, signal), PAUSE_MS);
  }

  /** What helps to decide. @param {Asked} asked @param {AbortSignal} signal */
  #decide(asked, signal) {
    this.#probe(asked, signal);
    if (!this.answers.value.refusal) this.#suggest(asked, signal);
  }

  /** @param {Asked} asked @param {AbortSignal} signal */
  async #probe(asked, signal) {
    const found = await probe(asked, signal).catch(() => null);
    if (!signal.aborted) this.answers.update({ outlook: found && { ...asked, found } });
  }

  /** Looks once more for what would help the question that stands there. */
  lookAgain() {
    const { answer } = this.answers.value;
    this.answers.update({ suggestions: null });
    if (answer) this.#suggest(answer, this.under_way.signal);
  }

  /** @param {Asked} asked @param {AbortSignal} signal */
  async #suggest(asked, signal) {
    const suggestions = await suggested(asked, signal).catch(
      () => /** @type {const} */ ("unanswered"),
    );
    if (!signal.aborted) this.answers.update({ suggestions });
  }
}

/** Whether something is about the question that stands there.
 * @param {Asked | null} asked
 * @param {State} state
 */
export function isOf(asked, { job, headroom }) {
  return asked?.job === job && asked.headroom === headroom;
}

/**
 * @param {Asked} asked
 * @param {boolean} first Whether a first look is enough.
 * @param {AbortSignal} signal
 * @returns {Promise<Answer>}
 */
async function answered({ job, headroom }, first, signal) {
  const asked = { job, headroom, first };
  const path = first ? "v1/estimate?replay=false" : "v1/estimate";
  if (job.gpu === undefined || job.gpu === null) {
    return { ...asked, estimate: await ask(path, job, signal), fit: null };
  }
  const question = { ...checked(job, headroom, false), replay: !first };
  const fit = await ask("v1/fit-check", question, signal);
  if (fit.estimate) return { ...asked, estimate: fit.estimate, fit };
  // What is not modelled has a verdict and no estimate; asked for an estimate, it is refused.
  return { ...asked, estimate: await ask(path, job, signal), fit };
}

/** @param {Asked} asked @param {AbortSignal} signal */
async function suggested({ job, headroom }, signal) {
  if (job.gpu === undefined || job.gpu === null) return [];
  return (await ask("v1/fit-check", checked(job, headroom, true), signal)).suggestions;
}

/**
 * A question for a verdict.
 * @param {import("trainfit").Job} job with a card
 * @param {number} headroom
 * @param {boolean} suggest
 */
export function checked(job, headroom, suggest) {
  return {
    ...job,
    gpu: /** @type {string} */ (job.gpu),
    policy: { headroom_ratio: headroom },
    suggest,
  };
}
