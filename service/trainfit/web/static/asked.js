/** An answer to something beside the question, asked again when that changes. */

import { ask, problemOf } from "./api.js";
import { useEffect, useState } from "./vendor/htm-preact.js";

/**
 * @template {keyof import("trainfit").Answers} Path
 * @param {Path} path
 * @param {import("trainfit").Questions[Path] | null} question null: nothing is asked
 * @returns {import("trainfit").Answers[Path] | null} the last answer
 */
export function useAsked(path, question) {
  const [answer, setAnswer] = useState(/** @type {import("trainfit").Answers[Path] | null} */ (null));
  const key = JSON.stringify(question);
  useEffect(() => {
    if (question === null) return undefined;
    const controller = new AbortController();
    ask(path, question, controller.signal).then(setAnswer, (error) => {
      if (problemOf(error)) setAnswer(null);
    });
    return () => controller.abort();
  }, [path, key]);
  return answer;
}
