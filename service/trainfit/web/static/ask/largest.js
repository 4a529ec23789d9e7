/** Makes a field as large as fits, with all else as it is. */

import { ask, problemOf } from "../api.js";
import { reasons } from "../job/said.js";
import { checked } from "../question.js";
import { html, useState } from "../vendor/htm-preact.js";
import { capital } from "../words.js";

/** Fields of which the service looks for the largest value. */
const SOUGHT = {
  "/training/micro_batch_size": "micro_batch_size",
  "/training/seq_length": "seq_length",
};

/** @param {{pointer: string, context: import("./field.js").Context}} props */
export function Largest({ pointer, context }) {
  const [said, say] = useState("");
  const name = SOUGHT[/** @type {keyof SOUGHT} */ (pointer)];
  const { job, headroom } = context;
  if (!name || context.scope || !job.gpu) return null;
  const enlarge = async () => {
    say("looking …");
    try {
      const question = { ...checked(job, headroom, false), limits: { [name]: true } };
      const { limits } = await ask("v1/fit-check", question);
      const value = limits[/** @type {keyof typeof limits} */ (name)];
      say(value === null ? "None fits." : "");
      if (value !== null) context.set(pointer, value);
    } catch (error) {
      const problem = problemOf(error);
      say(problem ? `${capital(reasons(problem).join("; "))}.` : "");
    }
  };
  return html`<span class="largest"><button type="button" class="link" onClick=${enlarge}>
      largest that fits</button><span class="note" role="status"> ${said}</span></span>`;
}
