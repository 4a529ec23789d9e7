/**
 * Answers the question as it changes: a moment after the last change, and whatever is still under
 * way for an earlier one is aborted.
 */

import { ask, problemOf } from "./api.js";
import { probe } from "./ask/probe.js";
import { Store } from "./state.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Answer} Answer
 * @typedef {import("trainfit").Problem} Problem
 * @typedef {import("trainfit").Suggestion} Suggestion
 * @typedef {import("./ask/probe.js").Outlook} Outlook
 */

/**
 * @typedef {object} Answers
 * @property {Answer | null} answer The last one, while a newer one is sought or refused.
 * @property {Problem | null} problem Why the present question has no answer.
 * @property {boolean} waiting
 * @property {State | null} asked What is answered, or was last.
 * @property {Suggestion[] | "unanswered" | null} suggestions null while they are looked for.
 * @property {Map<string, Outlook>} outlook
 */

/** Keys of one stroke come together; a person sees no difference. */
const TYPING_MS = 30;
/** What costs more waits until typing has paused. */
const PAUSE_MS = 250;

export class Question {
  constructor() {
    /** @type {Store<Answers>} */
    this.answers = new Store(
      /** @type {Answers} */ ({
        answer: null,
        problem: null,
        waiting: true,
        asked: null,
        suggestions: null,
        outlook: new Map(),
      }),
    );
    this.under_way = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /** @param {State} state @param {number} [delay] in milliseconds */
  asked(state, delay = TYPING_MS) {
    clearTimeout(this.timer);
    this.under_way.abort();
    this.under_way = new AbortController();
    const { signal } = this.under_way;
    this.answers.update({ waiting: true, asked: state });
    this.timer = setTimeout(() => this.#answer(state, signal), delay);
  }

  /** @param {State} state @param {AbortSignal} signal */
  async #answer(state, signal) {
    try {
      const answer = await answered(state, signal);
      this.answers.update({ answer, problem: null, waiting: false, suggestions: null });
    } catch (error) {
      const problem = problemOf(error);
      if (problem === null) return;
      this.answers.update({ problem, waiting: false, suggestions: [] });
    }
    this.timer = setTimeout(() => this.#decide(state, signal), PAUSE_MS);
  }

  /** What helps to decide. @param {State} state @param {AbortSignal} signal */
  async #decide(state, signal) {
    const { problem } = this.answers.value;
    try {
      const [outlook, suggestions] = await Promise.all([
        probe(state.job, signal),
        problem ? [] : suggested(state, signal),
      ]);
      this.answers.update({ outlook, suggestions });
    } catch (error) {
      if (problemOf(error)) {
        this.answers.update({ outlook: new Map(), suggestions: "unanswered" });
      }
    }
  }
}

/**
 * Whether the answer may be to another question than the one that stands there.
 * @param {Answers} answers
 * @param {State} state
 */
export function isStale({ waiting, asked }, { job, headroom }) {
  return waiting || asked?.job !== job || asked.headroom !== headroom;
}

/** @param {State} state @param {AbortSignal} signal @returns {Promise<Answer>} */
async function answered({ job, headroom }, signal) {
  if (job.gpu === undefined || job.gpu === null) {
    return { job, estimate: await ask("v1/estimate", job, signal), fit: null };
  }
  const fit = await ask("v1/fit-check", checked(job, headroom, false), signal);
  if (fit.estimate) return { job, estimate: fit.estimate, fit };
  // What is not modelled has a verdict and no estimate; asked for an estimate, it is refused.
  return { job, estimate: await ask("v1/estimate", job, signal), fit };
}

/** @param {State} state @param {AbortSignal} signal */
async function suggested({ job, headroom }, signal) {
  if (job.gpu === undefined || job.gpu === null) return [];
  return (await ask("v1/fit-check", checked(job, headroom, true), signal)).suggestions;
}

/** @param {import("trainfit").Job} job @param {number} headroom @param {boolean} suggest */
function checked(job, headroom, suggest) {
  return {
    ...job,
    gpu: /** @type {string} */ (job.gpu),
    policy: { headroom_ratio: headroom },
    suggest,
  };
}
