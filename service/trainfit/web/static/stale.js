/** Whether the answer that is shown is one to what stands in the form, and if not, why. */

import { isOf } from "./question.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { capital } from "./words.js";

/**
 * @typedef {object} Stale
 * @property {string} why
 * @property {string} [apart] What stands in no field and can be set aside: the id of its draft.
 * @property {boolean} refused Whether the service said no to what stands there.
 */

/** What is answered sooner is not said to be on the way. */
const AT_ONCE_MS = 120;

/**
 * @param {import("./question.js").Answers} answers
 * @param {import("./state.js").State} state
 * @param {ReturnType<typeof import("./ask/drafts.js").unasked>} draft
 * @returns {Stale | null} null where the answer is one to what stands there
 */
export function staleness({ answer, refusal, waiting }, state, draft) {
  if (draft) return { why: draft.wrong, apart: draft.apart ? draft.id : undefined, refused: false };
  if (isOf(answer, state)) return null;
  if (waiting || !isOf(refusal, state)) return { why: "its answer is on the way", refused: false };
  return { why: "this run has no answer", refused: true };
}

/** Says so over the answer, wherever that is scrolled to, and aloud.
 * @param {{stale: Stale | null, before: boolean}} props `before`: whether another answer is shown
 */
export function NotThisRun({ stale, before }) {
  const why = stale && !stale.refused ? stale.why : "";
  const [said, setSaid] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSaid(why), why ? AT_ONCE_MS : 0);
    return () => clearTimeout(timer);
  }, [why]);
  return html`<p class="not-this-run" role="status">
    ${why && said && (before ? `Not this run: ${said}.` : `${capital(said)}.`)}</p>`;
}
