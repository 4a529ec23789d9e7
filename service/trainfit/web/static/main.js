/** Starts the page: reads the address, loads what is known by name, and draws. */

import { App } from "./app.js";
import { ask, problemOf } from "./api.js";
import { KeyForm } from "./ask/key.js";
import { JobSchema } from "./job/schema.js";
import { Limited } from "./limited.js";
import { html, render } from "./vendor/htm-preact.js";

const root = /** @type {HTMLElement} */ (document.getElementById("page"));

async function load() {
  const [description, { models }, { gpus }, flags, presets, popular] = await Promise.all([
    ask("openapi.json"),
    ask("v1/models"),
    ask("v1/gpus"),
    ask("page/share/flags.json"),
    ask("page/ask/presets.json"),
    ask("page/ask/popular.json"),
  ]);
  return { schema: new JobSchema(description), models, popular, gpus, flags, presets };
}

async function start() {
  render(html`<${Limited} />`, root);
  try {
    render(html`<${App} known=${await load()} />`, root);
  } catch (error) {
    const problem = problemOf(error);
    const form = html`<${KeyForm} problem=${problem} retry=${start} />`;
    if (problem?.status === 401) render(form, root);
    else root.textContent = `The page could not be loaded: ${problem?.detail ?? error}`;
  }
}

await start();
