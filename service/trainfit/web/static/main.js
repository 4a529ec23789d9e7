/** Starts the page: reads the address, loads what is known by name, and draws. */

import { App } from "./app.js";
import { ask, problemOf } from "./api.js";
import { JobSchema } from "./job/schema.js";
import { html, render } from "./vendor/htm-preact.js";

const root = /** @type {HTMLElement} */ (document.getElementById("page"));

async function load() {
  const [description, { models }, { gpus }, flags, presets] = await Promise.all([
    ask("openapi.json"),
    ask("v1/models"),
    ask("v1/gpus"),
    ask("page/share/flags.json"),
    ask("page/ask/presets.json"),
  ]);
  return { schema: new JobSchema(description), models, gpus, flags, presets };
}

try {
  render(html`<${App} known=${await load()} />`, root);
} catch (error) {
  root.textContent = `The page could not be loaded: ${problemOf(error)?.detail ?? error}`;
}
