/** An answer to something beside the question, asked again when that changes. */

import { ask, problemOf } from "./api.js";
import { useEffect, useState } from "./vendor/htm-preact.js";

/**
 * @template {keyof import("trainfit").Answers} Path
 * @typedef {object} Asked
 * @property {import("trainfit").Answers[Path] | null} answer
 * @property {import("trainfit").Problem | null} problem
 */

/**
 * @template {keyof import("trainfit").Answers} Path
 * @param {Path} path
 * @param {import("trainfit").Questions[Path] | null} question null: nothing is asked
 * @returns {Asked<Path>} the last answer, or why there is none
 */
export function useAsked(path, question) {
  const [asked, setAsked] = useState(/** @type {Asked<Path>} */ ({ answer: null, problem: null }));
  const key = JSON.stringify(question);
  useEffect(() => {
    if (question === null) return undefined;
    const controller = new AbortController();
    ask(path, question, controller.signal).then(
      (answer) => setAsked({ answer, problem: null }),
      (error) => {
        const problem = problemOf(error);
        if (problem) setAsked({ answer: null, problem });
      },
    );
    return () => controller.abort();
  }, [path, key]);
  return asked;
}
