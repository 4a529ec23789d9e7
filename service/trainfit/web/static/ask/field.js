/** A field of a job: its name, a control of the right kind, and what is wrong with it. */

import { html, useState } from "../vendor/htm-preact.js";
import { nameOf, wayTo } from "../job/said.js";
import { Input } from "./input.js";
import { Largest } from "./largest.js";
import { Quick } from "./quick.js";

/**
 * @typedef {import("trainfit").Json} Json
 * @typedef {import("trainfit").Finding} Finding
 * @typedef {import("trainfit").Change} Change
 * @typedef {import("./controls.js").Control} Control
 * @typedef {import("../decide/compared.js").Outlook} Outlook
 */

/**
 * @typedef {object} Context What all fields share.
 * @property {import("trainfit").Job} job As described.
 * @property {unknown} filled The job with its defaults, as it was last answered.
 * @property {import("../job/schema.js").JobSchema} schema
 * @property {(pointer: string, value: Json | undefined) => void} set
 * @property {(pointer: string, value: Json | undefined) => void} type Sets what may be half a word.
 * @property {(patch: readonly Change[]) => void} apply
 * @property {(job: import("trainfit").Job) => void} use
 * @property {Finding[]} findings
 * @property {(pointer: string, value: Json) => Outlook | undefined} outlook
 * @property {number} headroom Share of the card's memory that is to stay free.
 * @property {string} scope What tells its fields from those of another job on the page.
 */

/** @param {{control: Control, context: Context}} props */
export function ControlledField({ control, context }) {
  const [helped, help] = useState(false);
  const { pointer } = control;
  const field = context.schema.field(pointer, context.job);
  if (!field) return null;
  const id = idOf(context.scope + pointer);
  const inner = context.schema.inside(pointer, context.job);
  const findings = context.findings.filter(
    (finding) =>
      belongsTo(finding.pointer, pointer) &&
      !inner.some((each) => belongsTo(finding.pointer, each)),
  );
  const described = [`${id}-about`, ...(findings.length ? [`${id}-wrong`] : [])].join(" ");
  const boxes = field.forms.some((form) => form.items?.values.length);
  return html`<div class=${`field ${findings.length ? "wrong" : ""}`} data-pointer=${pointer}>
    <div class="field-row">
      <span class="named">
        <label for=${boxes ? undefined : id} id=${`${id}-label`} title=${field.description}>
          ${control.label}${control.symbol && html` <var>${control.symbol}</var>`}
        </label>
        ${field.description && html`<button type="button" class="help" aria-expanded=${helped}
          aria-controls=${`${id}-about`} onClick=${() => help(!helped)}>
          <span aria-hidden="true">?</span><span class="hidden">Help</span></button>`}
      </span>
      <${Input} ...${{ field, pointer, id, described, context }} />
      ${control.quick && html`<${Quick} ...${{ control, context }} />`}
      <${Largest} ...${{ pointer, context }} />
    </div>
    <span class=${helped ? "note" : "hidden"} id=${`${id}-about`}>${field.description}</span>
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
        <${Remedy} patch=${remedyOf(finding)} apply=${context.apply} />
      </li>`,
    )}
  </ul></div>`;
}

/** @param {Finding} finding @returns {readonly Change[]} */
function remedyOf({ code, pointer, suggestion }) {
  if (suggestion?.length || code !== "unknown_field") return suggestion ?? [];
  return [{ op: "remove", path: pointer }];
}

/** @param {{patch: readonly Change[], apply: Context["apply"]}} props */
export function Remedy({ patch, apply }) {
  if (!patch.length) return null;
  return html` <button type="button" class="link" onClick=${() => apply(patch)}>
    ${patch.map(inWords).join(", ")}
  </button>`;
}

/** @param {Change} change */
function inWords(change) {
  const name = nameOf(change.path) || wayTo(change.path);
  if (change.op === "remove" || change.value === null) return `Remove ${name}`;
  const value = typeof change.value === "object" ? JSON.stringify(change.value) : change.value;
  return `Set ${name} to ${value}`;
}

/** @param {string} place a pointer, in its scope */
export function idOf(place) {
  return `field${place.replaceAll("/", "-")}`;
}

/** @param {string} found @param {string} pointer */
export function belongsTo(found, pointer) {
  return found === pointer || found.startsWith(`${pointer}/`);
}
