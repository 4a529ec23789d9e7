/** What a service asks for that answers callers with a key only. */

import { secrets } from "../api.js";
import { html } from "../vendor/htm-preact.js";

/** @param {{problem: import("trainfit").Problem, retry: () => void}} props */
export function KeyForm({ problem, retry }) {
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    secrets.apiKey = String(new FormData(form).get("key") ?? "");
    retry();
  };
  return html`<main class="key">
    <h1>Trainfit</h1>
    <p>${problem.title}: ${problem.detail}.</p>
    <form onSubmit=${send}>
      <label for="key">Key</label>
      <input id="key" name="key" type="password" autocomplete="off" required />
      <button type="submit">Open</button>
    </form>
    <p class="note">It is kept until this page is closed, and sent to this service only.</p>
  </main>`;
}

/** What opens a model that its Hub shows to some only. @param {{retry: () => void}} props */
export function HubToken({ retry }) {
  const send = (/** @type {Event} */ event) => {
    secrets.hubToken = /** @type {HTMLInputElement} */ (event.currentTarget).value;
    retry();
  };
  return html`<div class="field field-row">
    <label for="hub-token">Hub token</label>
    <input id="hub-token" type="password" autocomplete="off" onChange=${send} />
  </div>`;
}
