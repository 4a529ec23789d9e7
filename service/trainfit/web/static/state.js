/** What the page is about: the question, in the address and shared; and the answers to it. */

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("trainfit").Problem} Problem
 * @typedef {import("trainfit").Estimate} Estimate
 * @typedef {import("trainfit").FitCheck} FitCheck
 * @typedef {{name: string, job: Job}} Pin
 */

/**
 * The question.
 * @typedef {object} State
 * @property {Job} job As the user described it, without defaults.
 * @property {number} headroom Share of the card's memory that is to stay free.
 * @property {number | null} stage The pipeline rank that is looked at; null: the one that binds.
 * @property {Pin[]} pins Layouts that are kept for comparison.
 * @property {{across: string, down: string, by?: "time"} | null} map The axes of the map, if one
 *   is drawn, and what colours it where that is not memory.
 */

/**
 * What was asked: identity tells it from what stands there now.
 * @typedef {object} Asked
 * @property {Job} job
 * @property {number} headroom
 */

/**
 * @typedef {object} Answered
 * @property {Estimate} estimate
 * @property {FitCheck | null} fit null where the job names no card.
 * @property {boolean} first A first look: what is reserved rests on a ratio, until the allocator
 *   was replayed.
 * @typedef {Asked & Answered} Answer
 * @typedef {Asked & {problem: Problem}} Refusal
 */

/** @template T */
export class Store {
  /** @param {T} initial */
  constructor(initial) {
    this.value = initial;
    /** @type {Set<(value: T) => void>} */
    this.listeners = new Set();
  }

  /** @param {Partial<T>} change */
  update(change) {
    this.value = { ...this.value, ...change };
    for (const listener of this.listeners) listener(this.value);
  }

  /** @param {(value: T) => void} listener @returns {() => void} what ends it */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** @type {State} */
export const INITIAL = {
  job: {
    model: { hf_id: "meta-llama/Llama-3.1-8B" },
    parallelism: { num_gpus: 8, tp: 2 },
    training: { seq_length: 8192, micro_batch_size: 1, global_batch_size: 128 },
    framework: { name: "megatron" },
    gpu: "H100-80GB",
  },
  headroom: 0,
  stage: null,
  pins: [],
  map: null,
};

/** A change of one click, which the browser's back button takes back.
 * @param {Store<State>} store
 * @param {Job} job
 * @param {number} [headroom] as before unless given
 */
export function use(store, job, headroom = store.value.headroom) {
  history.pushState(null, "", location.href);
  store.update({ job, headroom });
}
