/** What the run has while another way to name its model is open. */

import { html } from "../vendor/htm-preact.js";

/** @param {{unless: unknown, model: import("trainfit").Job["model"]}} props */
export function Unchanged({ unless, model }) {
  if (unless) return null;
  return html`<p class="note">Until something is given here, the run has
    ${" "}${model.hf_id ?? "the model that was given before"}.</p>`;
}
