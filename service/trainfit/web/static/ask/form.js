/** The sections of the form: the fields that most ask for, and on request all others. */

import { html, useState } from "../vendor/htm-preact.js";
import { FRAMEWORK, LAYOUT, SECTIONS, SPEED, STEP } from "./controls.js";
import { Derived } from "./derived.js";
import { belongsTo, Findings } from "./field.js";
import { LeftOut } from "./framework.js";
import { controlOf, Part } from "./parts.js";

/**
 * @typedef {import("./controls.js").Section} Section
 * @typedef {import("./field.js").Context} Context
 */

/** @param {{context: Context, estimate: import("trainfit").Estimate | undefined}} props */
export function Form({ context, estimate }) {
  const elsewhere = context.findings.filter(
    ({ pointer }) =>
      !/^\/(model|gpu)/.test(pointer) &&
      !SECTIONS.some((section) => shows(section, pointer, context)),
  );
  return html`<${Findings} ...${{ findings: elsewhere, id: "job-wrong", context }} />
    <${Fields} ...${{ section: LAYOUT, context }}>
      <${Derived} ...${{ context, estimate }} /></${Fields}>
    <${Fields} ...${{ section: STEP, context }} />
    <${Fields} ...${{ section: SPEED, context }} />`;
}

/** Whose conventions hold, and which fields there are. @param {{context: Context}} props */
export function FrameworkChoice({ context }) {
  return html`<${Fields} ...${{ section: FRAMEWORK, context }}>
    <${LeftOut} job=${context.job} /></${Fields}>`;
}

/** @param {{section: Section, context: Context, children?: unknown}} props */
function Fields({ section, context, children }) {
  const id = `section-${section.title}`;
  return html`<section class="card" aria-labelledby=${id}>
    <div class="card-head"><h2 id=${id}>${section.title}</h2></div>
    ${section.controls.map((control) => html`<${Part} key=${control.pointer}
      ...${{ control, context }} but=${listed(section, context)} />`)}
    ${children}
    <${Others} ...${{ section, context }} />
  </section>`;
}

/** The fields of the section's parts that it does not show at once.
 * @param {{section: Section, context: Context}} props
 */
function Others({ section, context }) {
  const [open, setOpen] = useState(false);
  const shown = section.controls.map((control) => control.pointer);
  const wrong = context.findings.some(
    ({ pointer }) =>
      shows(section, pointer, context) && !shown.some((each) => belongsTo(pointer, each)),
  );
  return html`<details class="others" open=${open || wrong}
    onToggle=${(/** @type {Event} */ event) =>
      setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary>${others(section, context).length} more</summary>
    ${(open || wrong) &&
    listed(section, context)
      .filter((pointer) => !shown.includes(pointer))
      .map((pointer) => html`<${Part} key=${pointer} control=${controlOf(pointer)}
        ...${{ context, but: shown }} />`)}
  </details>`;
}

/** The fields and groups of a section's parts. @param {Section} section @param {Context} context */
function listed({ parts }, { schema, job }) {
  return parts.flatMap((part) => {
    const inner = schema.inside(part, job);
    return inner.length ? inner : [part];
  });
}

/** The fields of a section that are shown on request.
 * @param {Section} section
 * @param {Context} context
 */
function others({ controls, parts }, { schema, job }) {
  return parts
    .flatMap((part) => schema.below(part, job))
    .filter((pointer) => !controls.some((control) => control.pointer === pointer));
}

/**
 * Whether a field or a group of the section is one that a pointer leads to, or into.
 * @param {Section} section
 * @param {string} pointer
 * @param {Context} context
 */
function shows(section, pointer, context) {
  const fields = others(section, context);
  return (
    section.controls.some((control) => belongsTo(pointer, control.pointer)) ||
    fields.some((field) => belongsTo(pointer, field)) ||
    (listed(section, context).includes(pointer) && fields.length > 0)
  );
}
