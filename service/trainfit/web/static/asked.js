/** An answer to something beside the question, asked again when that changes. */

import { ask, problemOf } from "./api.js";
import { useEffect, useState } from "./vendor/htm-preact.js";

/**
 * @template {keyof import("trainfit").Answers} Path
 * @typedef {object} Asked
 * @property {import("trainfit").Answers[Path] | null} answer
 * @property {import("trainfit").Problem | null} problem
 * @property {boolean} stale Whether both are about what was asked before.
 */

/** @type {{answer: any, problem: import("trainfit").Problem | null}} */
const NOTHING = { answer: null, problem: null };

/**
 * @template {keyof import("trainfit").Answers} Path
 * @param {Path} path
 * @param {import("trainfit").Questions[Path] | null} question null: nothing is asked
 * @returns {Asked<Path>} the last answer, or why there was none
 */
export function useAsked(path, question) {
  const key = JSON.stringify(question);
  const [asked, setAsked] = useState({ ...NOTHING, key });
  useEffect(() => {
    if (question === null) return undefined;
    const controller = new AbortController();
    ask(path, question, controller.signal).then(
      (answer) => setAsked({ answer, problem: null, key }),
      (error) => {
        const problem = problemOf(error);
        if (problem) setAsked({ answer: null, problem, key });
      },
    );
    return () => controller.abort();
  }, [path, key]);
  return { answer: asked.answer, problem: asked.problem, stale: asked.key !== key };
}
