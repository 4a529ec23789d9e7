/** Says quietly that the service limits how often it is asked. */

import { limit } from "./limit.js";
import { useStore } from "./stored.js";
import { html } from "./vendor/htm-preact.js";

export function Limited() {
  const { waiting } = useStore(limit);
  return html`<p class="limited" role="status">
    ${waiting > 0 &&
    "The service limits how often it is asked. It is asked again as soon as it may."}
  </p>`;
}
