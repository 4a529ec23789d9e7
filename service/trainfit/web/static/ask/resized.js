/** The sizes that a config.json has, as fields: a known model with other layers or experts. */

import { ask, problemOf } from "../api.js";
import { at, put } from "../job/pointer.js";
import { html, useRef, useState } from "../vendor/htm-preact.js";
import { capital, counted } from "../words.js";
import { useDraft } from "./drafts.js";
import { textOf, Wrong } from "./input.js";
import { controlOf } from "./parts.js";

/**
 * @typedef {import("trainfit").Json} Json
 * @typedef {import("./field.js").Context} Context
 * @typedef {Record<string, Json>} Config
 */

export const CONFIG = "/model/hf_config";

/** Where a config.json has its language model. */
const SECTIONS = ["", "/text_config", "/language_config", "/llm_config"];
const LAYERS = ["num_hidden_layers", "num_layers", "n_layer", "n_layers"];
const SIZES = [
  ...LAYERS,
  ...["hidden_size", "n_embd", "d_model", "intermediate_size", "ffn_dim", "vocab_size"],
  ...["num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"],
  ...["num_experts_per_tok", "num_experts_per_token", "experts_per_token"],
  "moe_intermediate_size",
];

/** Puts the config.json of a model in the place of its name.
 * @param {{context: Context}} props
 */
export function Editing({ context }) {
  const [said, say] = useState("");
  const { job } = context;
  const edit = async () => {
    try {
      const { config } = await ask("v1/models:resolve", { model: job.model });
      context.use({ ...job, model: { hf_config: config } });
    } catch (error) {
      say(problemOf(error)?.detail ?? "");
    }
  };
  return html`<div class="row"><button type="button" class="link" onClick=${edit}>
      Change its layers, vocabulary or experts</button>
    <span role="status">${said && `${capital(said)}.`}</span></div>`;
}

/** @param {{context: Context, config: Config}} props */
export function ConfigSizes({ context, config }) {
  // Lists go on as the config had them that was given, however often sizes are changed.
  const given = useRef(config);
  const edited = useRef(config);
  if (edited.current !== config) given.current = edited.current = config;
  const write = (/** @type {string} */ pointer, /** @type {number} */ size) => {
    edited.current = resized(config, given.current, pointer, size);
    context.type("/model", { hf_config: edited.current });
  };
  const present = SECTIONS.flatMap((section) => SIZES.map((key) => `${section}/${key}`));
  return present
    .filter((pointer) => Number.isInteger(at(config, pointer)))
    .map((pointer) => html`<${Size} key=${pointer} ...${{ pointer, config, write, context }} />`);
}

/** @param {{pointer: string, config: Config, context: Context,
 *   write: (pointer: string, size: number) => void}} props
 */
function Size({ pointer, config, context, write }) {
  const whole = CONFIG + pointer;
  const { draft, hold, leave, drop } = useDraft(whole, whole, context.job);
  const { label } = controlOf(pointer);
  const onInput = textOf((text) => {
    if (!/^[1-9]\d*$/.test(text)) return hold(text, `${label} is not a number yet`);
    drop();
    return write(pointer, Number(text));
  });
  return html`<div class="field" data-pointer=${whole}><div class="field-row">
      <label for=${whole}>${label}</label>
      <input id=${whole} type="number" min="1" step="1" onInput=${onInput} onBlur=${leave}
        aria-invalid=${draft?.wrong ? "true" : undefined}
        value=${draft?.text ?? at(config, pointer)} />
    </div><${Wrong} of=${draft?.wrong} /></div>`;
}

/**
 * A config with another size. Lists that say something of each layer become as long as there are
 * layers.
 * @param {Config} config
 * @param {Config} given Whose lists these are.
 * @param {string} pointer
 * @param {number} size
 * @returns {Config}
 */
export function resized(config, given, pointer, size) {
  const next = put(config, pointer, size);
  const [section, key] = [pointer.slice(0, pointer.lastIndexOf("/")), pointer.split("/").pop()];
  if (!LAYERS.includes(key ?? "")) return next;
  const lists = Object.entries(section ? (at(given, section) ?? {}) : given).filter(
    ([, value]) => Array.isArray(value) && value.length === at(given, pointer),
  );
  return lists.reduce(
    (whole, [name, list]) => put(whole, `${section}/${name}`, continued(list, size)),
    next,
  );
}

/** A list that goes on by the period that it has. @param {Json[]} list @param {number} length */
function continued(list, length) {
  const told = list.map((each) => JSON.stringify(each));
  const period = told.findIndex(
    (_, shift) => shift > 0 && told.every((each, at) => at < shift || each === told[at - shift]),
  );
  const cycle = period > 0 ? period : list.length;
  return Array.from({ length }, (_, index) => /** @type {Json} */ (list[index % cycle]));
}

/** What a pasted config.json leaves to its class.
 * @param {{left: import("trainfit").Estimate["defaults"]}} props
 */
export function LeftToItsClass({ left }) {
  if (!left.length) return null;
  return html`<details class="others">
    <summary>${counted(left.length, "key")} left to its class</summary>
    <ul class="note">${left.map(({ pointer, value, why }) => html`<li key=${pointer} title=${why}>
      <code>${pointer.slice(CONFIG.length + 1)}</code> ${JSON.stringify(value)}</li>`)}</ul>
  </details>`;
}
