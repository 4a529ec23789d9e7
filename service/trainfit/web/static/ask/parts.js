/** Fields of a job as deep as they go: objects are groups, or follow the choice of one. */

import { html } from "../vendor/htm-preact.js";
import { ControlledField, Findings, idOf } from "./field.js";
import { inBytes } from "./input.js";

/**
 * @typedef {import("./controls.js").Control} Control
 * @typedef {import("./field.js").Context} Context
 */

/**
 * @param {{control: Control, context: Context, but?: readonly string[]}} props `but`: pointers to
 *   fields that are shown elsewhere
 */
export function Part({ control, context, but = [] }) {
  const { pointer, label } = control;
  if (!context.schema.honours(pointer, context.job)) return null;
  const field = context.schema.field(pointer, context.job);
  const inner = context.schema.inside(pointer, context.job).filter((each) => !but.includes(each));
  const parts = inner.map(
    (each) => html`<${Part} key=${each} control=${controlOf(each)} ...${{ context, but }} />`,
  );
  if (field?.forms.length === 1 && field.forms[0]?.kind === "object") {
    const findings = context.findings.filter((finding) => finding.pointer === pointer);
    if (!inner.length && !findings.length) return null;
    return html`<fieldset class="group">
      <legend title=${field.description}>${label}</legend>
      <${Findings} ...${{ findings, id: `${idOf(context.scope + pointer)}-wrong`, context }} />
      ${parts}
    </fieldset>`;
  }
  return html`<${ControlledField} ...${{ control, context }} />
    ${parts.length > 0 &&
    html`<div class="group" role="group" aria-label=${`Fields of ${label}`}>${parts}</div>`}`;
}

/**
 * The control of a field that has no name but its own.
 * @param {string} pointer
 * @returns {Control}
 */
export function controlOf(pointer) {
  const name = pointer.slice(pointer.lastIndexOf("/") + 1).replaceAll("_", " ");
  return { pointer, label: inBytes(pointer) ? name.replace(/ bytes$/, " in GiB") : name };
}
