/** Which model: searched by name, a config.json, dimensions, or launch files of a whole run. */

import { secrets } from "../api.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { counted, number, parameters } from "../words.js";
import { Paste } from "./config.js";
import { belongsTo, Findings } from "./field.js";
import { HubToken } from "./key.js";
import { LaunchFiles } from "./launch.js";
import { Search } from "./search.js";
import { Sizes } from "./sizes.js";

/**
 * @typedef {import("trainfit").BundledModel} BundledModel
 * @typedef {import("trainfit").Job["model"]} Model
 * @typedef {import("./field.js").Context} Context
 */

const WAYS = { search: "Search", paste: "config.json", spec: "Sizes", launch: "Launch files" };

/** @typedef {keyof typeof WAYS} Way */

/**
 * @param {{models: BundledModel[], popular: import("./search.js").Popular, context: Context,
 *   gated: boolean, retry: () => void, estimate: import("trainfit").Estimate | undefined}} props
 *   `estimate`: of a run of this model
 */
export function ModelChoice({ models, popular, context, estimate, gated, retry }) {
  const [way, setWay] = useWay(context.job.model);
  const sizes = context.schema.inside("/model/spec", context.job);
  const fields = { search: ["/model/revision"], paste: [], spec: sizes, launch: [] }[way];
  const findings = context.findings.filter(
    ({ pointer }) =>
      belongsTo(pointer, "/model") && !fields.some((field) => belongsTo(pointer, field)),
  );
  return html`<section class="card" aria-labelledby="model-title">
    <div class="card-head">
      <h2 id="model-title">Model</h2>
      <div class="ways" role="group" aria-label="How to name the model">
        ${Object.entries(WAYS).map(
          ([key, label]) => html`<button type="button" key=${key} aria-pressed=${way === key}
            onClick=${() => setWay(/** @type {Way} */ (key))}>${label}</button>`,
        )}
      </div>
    </div>
    ${way === "search" && html`<${Search} ...${{ models, popular, context }} />`}
    ${way === "paste" && html`<${Paste} context=${context} left=${(estimate?.defaults ?? [])
      .filter(({ pointer }) => belongsTo(pointer, "/model/hf_config"))} />`}
    ${way === "spec" && html`<${Sizes} context=${context} />`}
    <${LaunchFiles} ...${{ context }} shown=${way === "launch"} show=${setWay} />
    <${Findings} ...${{ findings, id: "model-wrong", context }} />
    ${(gated || secrets.hubToken) && html`<${HubToken} retry=${retry} />`}
    <${Summary} priced=${estimate?.model} />
  </section>`;
}

/**
 * The way that was chosen last, be it by naming a model in another.
 * @param {Model} model
 * @returns {[Way, (way: Way) => void]}
 */
function useWay(model) {
  const [way, setWay] = useState(wayOf(model));
  useEffect(() => setWay((before) => (before === "launch" ? before : wayOf(model))), [model]);
  return [way, setWay];
}

/** @param {Model} model @returns {Way} */
function wayOf(model) {
  return model.spec ? "spec" : model.hf_config ? "paste" : "search";
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
