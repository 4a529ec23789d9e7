/** Which model: searched by name, a pasted config.json, or what launch files say of a whole run. */

import { secrets } from "../api.js";
import { html, useState } from "../vendor/htm-preact.js";
import { counted, number, parameters } from "../words.js";
import { Findings } from "./field.js";
import { HubToken } from "./key.js";
import { LaunchFiles } from "./launch.js";

/**
 * @typedef {import("trainfit").BundledModel} BundledModel
 * @typedef {import("./field.js").Context} Context
 */

const LISTED = 12;

/** Models whose name has every word of the search, those that begin with it first.
 * @param {BundledModel[]} models
 * @param {string} search
 */
export function matching(models, search) {
  const words = search.toLowerCase().split(/[\s/]+/).filter(Boolean);
  const rank = (/** @type {string} */ id) => {
    const name = id.toLowerCase();
    const own = name.split("/").pop() ?? "";
    return own.startsWith(words[0] ?? "") ? 0 : name.includes(`/${words[0]}`) ? 1 : 2;
  };
  return models
    .filter(({ hf_id }) => words.every((word) => hf_id.toLowerCase().includes(word)))
    .sort((a, b) => rank(a.hf_id) - rank(b.hf_id))
    .slice(0, LISTED);
}

/**
 * @param {{models: BundledModel[], context: Context, gated: boolean, retry: () => void,
 *   priced: import("trainfit").PricedModel | undefined}} props
 */
export function ModelChoice({ models, context, priced, gated, retry }) {
  const model = context.job.model;
  const [way, setWay] = useState(model.hf_config ? "paste" : "search");
  const findings = context.findings.filter((finding) => finding.pointer.startsWith("/model"));
  return html`<section class="card" aria-labelledby="model-title">
    <div class="card-head">
      <h2 id="model-title">Model</h2>
      <div class="ways" role="group" aria-label="How to name the model">
        ${[
          ["search", "Search"],
          ["paste", "config.json"],
          ["launch", "Launch files"],
        ].map(
          ([key, label]) => html`<button type="button" key=${key} aria-pressed=${way === key}
            onClick=${() => setWay(/** @type {string} */ (key))}>${label}</button>`,
        )}
      </div>
    </div>
    ${way === "search" && html`<${Search} ...${{ models, context }} />`}
    ${way === "paste" && html`<${Paste} context=${context} />`}
    ${way === "launch" && html`<${LaunchFiles} gpu=${context.job.gpu} use=${context.use} />`}
    <${Findings} ...${{ findings, id: "model-wrong", context }} />
    ${(gated || secrets.hubToken) && html`<${HubToken} retry=${retry} />`}
    <${Summary} priced=${priced} />
  </section>`;
}

/** @param {{models: BundledModel[], context: Context}} props */
function Search({ models, context }) {
  const chosen = context.job.model.hf_id ?? "";
  const [search, setSearch] = useState(/** @type {string | null} */ (null));
  const [marked, setMarked] = useState(0);
  const found = search === null ? [] : matching(models, search);
  const open = search !== null;
  const exact = found.some(({ hf_id }) => hf_id === search);
  const offered = [
    ...found.map(({ hf_id, model_type }) => ({ id: hf_id, note: model_type })),
    ...(search && /^[\w.-]+\/[\w.-]+$/.test(search) && !exact
      ? [{ id: search, note: "look up on the Hub" }]
      : []),
  ];
  const choose = (/** @type {string} */ id) => {
    setSearch(null);
    context.set("/model", { hf_id: id });
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && offered.length) {
      event.preventDefault();
      setMarked((marked + step + offered.length) % offered.length);
      if (!open) setSearch("");
    } else if (event.key === "Enter" && offered[marked]) {
      event.preventDefault();
      choose(offered[marked].id);
    } else if (event.key === "Escape") {
      setSearch(null);
    }
  };
  return html`<div class="search">
    <input id="model-search" type="text" role="combobox" aria-label="Model" autocomplete="off"
      spellcheck="false" aria-expanded=${open} aria-controls="model-list" aria-autocomplete="list"
      aria-activedescendant=${open && offered.length ? `model-option-${marked}` : undefined}
      placeholder="Search models" value=${search ?? chosen}
      onInput=${(/** @type {InputEvent} */ event) => {
        setSearch(/** @type {HTMLInputElement} */ (event.currentTarget).value);
        setMarked(0);
      }}
      onFocus=${(/** @type {FocusEvent} */ event) =>
        /** @type {HTMLInputElement} */ (event.currentTarget).select()}
      onBlur=${() => setSearch(null)} onKeyDown=${onKeyDown} />
    <ul id="model-list" role="listbox" aria-label="Models" hidden=${!open}>
      ${offered.map(
        ({ id, note }, index) => html`<li key=${id} id=${`model-option-${index}`} role="option"
          aria-selected=${index === marked} onMouseEnter=${() => setMarked(index)}
          onMouseDown=${(/** @type {MouseEvent} */ event) => event.preventDefault()}
          onClick=${() => choose(id)}>
          <span>${id}</span> <small>${note}</small>
        </li>`,
      )}
      ${open && !offered.length &&
      html`<li class="none" role="option" aria-disabled="true" aria-selected="false">
        No bundled model of this name. Write organisation/name to look it up on the Hub.</li>`}
    </ul>
  </div>`;
}

/** @param {{context: Context}} props */
function Paste({ context }) {
  const config = context.job.model.hf_config;
  const [wrong, setWrong] = useState("");
  const onInput = (/** @type {InputEvent} */ event) => {
    const text = /** @type {HTMLTextAreaElement} */ (event.currentTarget).value;
    try {
      const parsed = JSON.parse(text);
      if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) throw new Error();
      setWrong("");
      context.set("/model", { hf_config: parsed });
    } catch {
      setWrong(text.trim() ? "This is not a JSON object yet." : "");
    }
  };
  return html`<div class="paste">
    <textarea aria-label="Contents of config.json" rows="6" spellcheck="false"
      placeholder=${'{"model_type": "llama", …}'} onInput=${onInput}
      defaultValue=${config ? JSON.stringify(config, null, 2) : ""}></textarea>
    <p class="note" role="status">${wrong}</p>
  </div>`;
}

/** @param {{priced: import("trainfit").PricedModel | undefined}} props */
function Summary({ priced }) {
  if (!priced) return html`<p class="note"> </p>`;
  const { total, active } = priced.parameters;
  const sparse = active < total ? `, ${parameters(active)} active` : "";
  return html`<p class="note" title=${counted(total, "parameter")}>
    ${parameters(total)} parameters${sparse} · ${priced.model_type} · ${priced.source}
    ${priced.revision && html` at <code>${priced.revision.slice(0, 8)}</code>`}
    <span class="hidden">${number(total)}</span>
  </p>`;
}
