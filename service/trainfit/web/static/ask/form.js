/** The sections of the form: the fields that most ask for, and on request all others. */

import { html, useState } from "../vendor/htm-preact.js";
import { SECTIONS } from "./controls.js";
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
    ${SECTIONS.map(
      (section) => html`<section class="card" key=${section.title}
        aria-labelledby=${`section-${section.title}`}>
        <div class="card-head"><h2 id=${`section-${section.title}`}>${section.title}</h2></div>
        ${section.controls.map((control) => html`<${Part} key=${control.pointer}
          ...${{ control, context }} but=${listed(section, context)} />`)}
        ${section.title === "Framework" && html`<${LeftOut} job=${context.job} />`}
        ${section.title === "Layout" && html`<${Derived} ...${{ context, estimate }} />`}
        <${Others} ...${{ section, context }} />
      </section>`,
    )}`;
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
