/** A model by its config.json. */

import { html } from "../vendor/htm-preact.js";
import { useDraft } from "./drafts.js";
import { textOf, Wrong } from "./input.js";
import { CONFIG, ConfigSizes, LeftToItsClass } from "./resized.js";
import { Unchanged } from "./unchanged.js";

/** @param {{context: import("./field.js").Context,
 *   left: import("trainfit").Estimate["defaults"]}} props `left`: what the config leaves open
 */
export function Paste({ context, left }) {
  const config = context.job.model.hf_config ?? undefined;
  const { draft, write, hold, leave, drop } = useDraft(CONFIG, CONFIG, context.job);
  const onInput = textOf((text) => {
    const parsed = objectOf(text);
    if (parsed) {
      context.type("/model", { hf_config: parsed });
      write(text, parsed);
    } else if (text.trim() || config) hold(text, "config.json is not a JSON object yet");
    else drop();
  });
  return html`<div class="paste">
    <textarea aria-label="Contents of config.json" rows="6" spellcheck="false"
      placeholder=${'{"model_type": "llama", …}'} onInput=${onInput} onBlur=${leave}
      value=${draft?.text ?? (config ? JSON.stringify(config, null, 2) : "")}></textarea>
    <${Wrong} of=${draft?.wrong} />
    ${config && !draft?.wrong && html`<${ConfigSizes} ...${{ context, config }} />`}
    ${config && html`<${LeftToItsClass} left=${left} />`}
    <${Unchanged} unless=${config} model=${context.job.model} />
  </div>`;
}

/** @param {string} text @returns {Record<string, import("trainfit").Json> | null} */
export function objectOf(text) {
  try {
    const parsed = JSON.parse(text);
    return parsed !== null && typeof parsed === "object" && !Array.isArray(parsed) ? parsed : null;
  } catch {
    return null;
  }
}
