/** A model searched by its name. */

import { html, useState } from "../vendor/htm-preact.js";
import { parameters } from "../words.js";
import { useDraft } from "./drafts.js";
import { Part } from "./parts.js";
import { Editing } from "./resized.js";

/**
 * @typedef {import("trainfit").BundledModel} BundledModel
 * @typedef {import("./field.js").Context} Context
 */

const LISTED = 12;

/** @type {import("./controls.js").Control} */
const REVISION = { pointer: "/model/revision", label: "Revision" };

/** Models that are trained most, in that order, with their parameters.
 * @typedef {Record<string, number>} Popular
 */

/** Models whose name has every word of the search: those that are used most, and of the others
 * those that begin with it first.
 * @param {BundledModel[]} models
 * @param {string} search
 * @param {Popular} popular
 */
export function matching(models, search, popular) {
  const used = Object.keys(popular);
  const words = search.toLowerCase().split(/[\s/]+/).filter(Boolean);
  const rank = (/** @type {string} */ id) => {
    const place = used.indexOf(id);
    if (place >= 0) return place - used.length;
    const name = id.toLowerCase();
    const own = name.split("/").pop() ?? "";
    return own.startsWith(words[0] ?? "") ? 0 : name.includes(`/${words[0]}`) ? 1 : 2;
  };
  return models
    .filter(({ hf_id }) => words.every((word) => hf_id.toLowerCase().includes(word)))
    .sort((a, b) => rank(a.hf_id) - rank(b.hf_id))
    .slice(0, LISTED);
}

/** @param {{models: BundledModel[], popular: Popular, context: Context}} props */
export function Search({ models, popular, context }) {
  const { hf_id: chosen = "" } = context.job.model;
  const { draft, hold, drop } = useDraft("search", "/model", context.job);
  const [marked, setMarked] = useState(0);
  const search = draft ? draft.text : null;
  const setSearch = (/** @type {string | null} */ text) =>
    text === null ? drop() : hold(text, "no model is chosen yet");
  const found = search === null ? [] : matching(models, search, popular);
  const open = search !== null;
  const exact = found.some(({ hf_id }) => hf_id === search);
  const offered = [
    ...found.map(({ hf_id, model_type }) => ({
      id: hf_id,
      note: [model_type, ...(popular[hf_id] ? [parameters(popular[hf_id])] : [])].join(" · "),
    })),
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
  </div>
  ${chosen && html`<${Part} control=${REVISION} context=${context} />
    <${Editing} key=${chosen} context=${context} />`}`;
}
