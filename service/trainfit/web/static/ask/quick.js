/** Values of one click, each with what would become of the job. */

import { at } from "../job/pointer.js";
import { html } from "../vendor/htm-preact.js";
import { gib, VERDICTS } from "../words.js";
import { abbreviated } from "./controls.js";

/** @param {{control: import("./controls.js").Control, context: import("./field.js").Context}} props
 */
export function Quick({ control, context }) {
  const value = at(context.job, control.pointer) ?? at(context.filled, control.pointer);
  return html`<div class="quick" role="group" aria-label=${`${control.label} in one click`}>
    ${(control.quick ?? []).map((each) => {
      const outlook = context.outlook(control.pointer, each);
      const state = outlook?.reason ? "refused" : (outlook?.verdict ?? "asked");
      return html`<button type="button" key=${each} class=${`chip ${state}`} data-value=${each}
        tabindex="-1"
        aria-pressed=${value === each} title=${outlook && told(outlook)}
        onClick=${() => outlook?.split
          ? context.apply(outlook.patch)
          : context.set(control.pointer, each)}>
        ${abbreviated(each)}<span class="hidden"> ${outlook && told(outlook)}</span>
      </button>`;
    })}
  </div>`;
}

/** @param {import("../decide/compared.js").Outlook} outlook */
function told({ reason, verdict, needed, split }) {
  if (reason) return reason;
  const so = verdict ? `${VERDICTS[verdict]}: ` : "";
  const otherwise = split ? `, with ${split}` : "";
  return `${so}${gib(needed)} expected on the stage that needs most${otherwise}`;
}
