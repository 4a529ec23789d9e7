/** A field of a job: a control of the right kind, what is wrong with it, and what may be chosen. */

import { at } from "../job/pointer.js";
import { html } from "../vendor/htm-preact.js";
import { gib, VERDICTS } from "../words.js";
import { abbreviated } from "./controls.js";

/**
 * @typedef {import("trainfit").Json} Json
 * @typedef {import("trainfit").Finding} Finding
 * @typedef {import("../job/schema.js").Field} Field
 * @typedef {import("./controls.js").Control} Control
 * @typedef {import("./probe.js").Outlook} Outlook
 */

/**
 * @typedef {object} Context What all fields share.
 * @property {import("trainfit").Job} job As described.
 * @property {unknown} filled The job with its defaults, as it was last answered.
 * @property {(pointer: string) => Field | undefined} field
 * @property {(pointer: string, value: Json | undefined) => void} set
 * @property {(patch: readonly import("trainfit").Change[]) => void} apply
 * @property {(job: import("trainfit").Job) => void} use
 * @property {Finding[]} findings
 * @property {(pointer: string, value: Json) => Outlook | undefined} outlook
 */

/** @param {{control: Control, context: Context}} props */
export function ControlledField({ control, context }) {
  const { pointer } = control;
  const field = context.field(pointer);
  if (!field) return null;
  const id = idOf(pointer);
  const findings = context.findings.filter((finding) => belongsTo(finding.pointer, pointer));
  const described = [`${id}-about`, ...(findings.length ? [`${id}-wrong`] : [])].join(" ");
  const grouped = field.type === "array" && field.choices.length > 0;
  return html`<div class=${`field ${findings.length ? "wrong" : ""}`} data-pointer=${pointer}>
    <div class="field-row">
      <label for=${grouped ? undefined : id} id=${`${id}-label`} title=${field.description}>
        ${control.label}${control.symbol && html` <var>${control.symbol}</var>`}
      </label>
      <${Input} ...${{ field, pointer, id, described, context }} />
      ${control.quick && html`<${Quick} ...${{ control, context }} />`}
    </div>
    <span class="hidden" id=${`${id}-about`}>${field.description}</span>
    <${Findings} ...${{ findings, id: `${id}-wrong`, context }} />
  </div>`;
}

/** @param {{findings: Finding[], id: string, context: Context}} props */
export function Findings({ findings, id, context }) {
  if (!findings.length) return null;
  return html`<div class="findings" id=${id} role="alert"><ul>
    ${findings.map(
      (finding) => html`<li key=${finding.pointer + finding.code}>
        ${finding.message}.
        <${Remedy} patch=${finding.suggestion ?? []} context=${context} />
      </li>`,
    )}
  </ul></div>`;
}

/** @param {{patch: import("trainfit").Change[], context: Context}} props */
function Remedy({ patch, context }) {
  if (!patch.length) return null;
  return html` <button type="button" class="link" onClick=${() => context.apply(patch)}>
    ${patch.map(inWords).join(", ")}
  </button>`;
}

/** @param {import("trainfit").Change} change */
function inWords(change) {
  const name = change.path.split("/").pop();
  return change.op === "remove" ? `Remove ${name}` : `Set ${name} to ${change.value}`;
}

/**
 * @typedef {object} InputProps
 * @property {Field} field
 * @property {string} pointer
 * @property {string} id
 * @property {string} described
 * @property {Context} context
 */

/** @param {InputProps} props */
function Input(props) {
  const { field, pointer, id, described, context } = props;
  const value = at(context.job, pointer);
  const filled = at(context.filled, pointer);
  const set = (/** @type {Json | undefined} */ next) => context.set(pointer, next);
  if (field.type === "array" && field.choices.length) return Several(props);
  if (field.choices.length) return Choice({ ...props, choices: field.choices });
  if (field.type === "boolean") return Choice({ ...props, choices: ["true", "false"] });
  const placeholder = shown(filled ?? field.default);
  if (field.type === "integer" || field.type === "number") {
    return html`<input id=${id} type="number" inputmode="numeric" aria-describedby=${described}
      min=${field.minimum} max=${field.maximum} step=${field.type === "integer" ? 1 : "any"}
      value=${value ?? ""} placeholder=${placeholder}
      onInput=${onInput((text) => set(text === "" ? undefined : Number(text)))} />`;
  }
  const listed = field.type === "array";
  return html`<input id=${id} type="text" aria-describedby=${described} spellcheck="false"
    value=${listed ? (/** @type {Json[] | undefined} */ (value) ?? []).join(", ") : (value ?? "")}
    placeholder=${placeholder}
    onChange=${onInput((text) => set(text === "" ? undefined : listed ? items(text) : text))} />`;
}

/** @param {InputProps & {choices: string[]}} props */
function Choice({ field, pointer, id, described, context, choices }) {
  const value = at(context.job, pointer);
  const filled = at(context.filled, pointer) ?? field.default;
  const unset = value === undefined && filled !== undefined && filled !== null;
  const typed = (/** @type {string} */ text) =>
    text === "" ? undefined : field.type === "boolean" ? text === "true" : text;
  return html`<select id=${id} aria-describedby=${described}
    value=${value === undefined ? "" : String(value)}
    onChange=${onInput((text) => context.set(pointer, typed(text)))}>
    <option value="">
      ${unset && typeof filled !== "object" ? `default: ${shown(filled)}` : "default"}</option>
    ${choices.map((choice) => html`<option key=${choice}
      value=${choice}>${shown(typed(choice))}</option>`)}
  </select>`;
}

/** @param {InputProps} props */
function Several({ field, pointer, id, context }) {
  const chosen = /** @type {string[]} */ (at(context.job, pointer) ?? []);
  const toggle = (/** @type {string} */ choice) => {
    const next = field.choices.filter((each) => chosen.includes(each) !== (each === choice));
    context.set(pointer, next.length ? next : undefined);
  };
  return html`<details class="several" id=${id}>
    <summary aria-labelledby=${`${id}-label ${id}-chosen`}>
      <span id=${`${id}-chosen`}>${chosen.length ? chosen.join(", ") : "default"}</span>
    </summary>
    ${field.choices.map(
      (choice) => html`<label key=${choice}>
        <input type="checkbox" checked=${chosen.includes(choice)}
          onChange=${() => toggle(choice)} />
        ${choice}
      </label>`,
    )}
  </details>`;
}

/**
 * Values of one click, each with what would become of the job.
 * @param {{control: Control, context: Context}} props
 */
function Quick({ control, context }) {
  const value = at(context.job, control.pointer) ?? at(context.filled, control.pointer);
  return html`<div class="quick" role="group" aria-label=${`${control.label} in one click`}>
    ${(control.quick ?? []).map((each) => {
      const outlook = context.outlook(control.pointer, each);
      const state = outlook ? (outlook.verdict ?? "refused") : "asked";
      return html`<button type="button" key=${each} class=${`chip ${state}`} data-value=${each}
        tabindex="-1"
        aria-pressed=${value === each} title=${outlook && told(outlook)}
        onClick=${() => context.set(control.pointer, each)}>
        ${abbreviated(each)}<span class="hidden"> ${outlook && told(outlook)}</span>
      </button>`;
    })}
  </div>`;
}

/** @param {Outlook} outlook */
function told(outlook) {
  if (outlook.reason) return outlook.reason;
  const verdict = outlook.verdict ? `${VERDICTS[outlook.verdict]}: ` : "";
  return `${verdict}${gib(outlook.needed)} expected on the stage that needs most`;
}

/** @param {(text: string) => void} act */
function onInput(act) {
  return (/** @type {Event} */ event) =>
    act(/** @type {HTMLInputElement | HTMLSelectElement} */ (event.currentTarget).value);
}

/** @param {string} text */
function items(text) {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** @param {unknown} value */
function shown(value) {
  if (value === true) return "yes";
  if (value === false) return "no";
  return value === undefined || value === null || typeof value === "object" ? "" : String(value);
}

/** @param {string} pointer */
export function idOf(pointer) {
  return `field${pointer.replaceAll("/", "-")}`;
}

/** @param {string} found @param {string} pointer */
export function belongsTo(found, pointer) {
  return found === pointer || found.startsWith(`${pointer}/`);
}
