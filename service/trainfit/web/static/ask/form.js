/** The sections of the form: the fields that most ask for, and on request all others. */

import { html, useState } from "../vendor/htm-preact.js";
import { SECTIONS } from "./controls.js";
import { Derived } from "./derived.js";
import { belongsTo, ControlledField, Findings } from "./field.js";

/**
 * @typedef {import("./controls.js").Control} Control
 * @typedef {import("./controls.js").Section} Section
 * @typedef {import("./field.js").Context} Context
 * @typedef {import("../job/schema.js").JobSchema} JobSchema
 */

/**
 * @param {{context: Context, schema: JobSchema,
 *   estimate: import("trainfit").Estimate | undefined}} props
 */
export function Form({ context, schema, estimate }) {
  const framework = context.job.framework?.name ?? "megatron";
  const fields = SECTIONS.map((section) => ({
    section,
    others: others(section, schema, framework),
  }));
  const known = fields.flatMap(({ section, others }) => [...section.controls, ...others]);
  const elsewhere = context.findings.filter(
    ({ pointer }) =>
      !/^\/(model|gpu)/.test(pointer) &&
      !known.some((control) => belongsTo(pointer, control.pointer)),
  );
  return html`<${Findings} ...${{ findings: elsewhere, id: "job-wrong", context }} />
    ${fields.map(
      ({ section, others }) => html`<section class="card" key=${section.title}
        aria-labelledby=${`section-${section.title}`}>
        <div class="card-head"><h2 id=${`section-${section.title}`}>${section.title}</h2></div>
        ${section.controls.map(
          (control) =>
            html`<${ControlledField} key=${control.pointer} ...${{ control, context }} />`,
        )}
        ${section.title === "Layout" && html`<${Derived} ...${{ context, estimate }} />`}
        <${Others} ...${{ controls: others, context }} />
      </section>`,
    )}`;
}

/** Fields of the section's parts that it does not show at once.
 * @param {Section} section
 * @param {JobSchema} schema
 * @param {string} framework
 * @returns {Control[]}
 */
function others(section, schema, framework) {
  const shown = section.controls.map((control) => control.pointer);
  return section.parts
    .flatMap((part) => schema.below(part, framework))
    .filter((pointer) => !shown.includes(pointer))
    .map((pointer) => ({ pointer, label: nameOf(pointer) }));
}

/** /training/moe/grouped_gemm -> moe: grouped gemm @param {string} pointer */
function nameOf(pointer) {
  return pointer.split("/").slice(2).join(": ").replaceAll("_", " ");
}

/** @param {{controls: Control[], context: Context}} props */
function Others({ controls, context }) {
  const [open, setOpen] = useState(false);
  if (!controls.length) return null;
  const wrong = context.findings.some(({ pointer }) =>
    controls.some((control) => belongsTo(pointer, control.pointer)),
  );
  return html`<details class="others" open=${open || wrong}
    onToggle=${(/** @type {Event} */ event) =>
      setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary>${controls.length} more</summary>
    ${(open || wrong) &&
    controls.map(
      (control) => html`<${ControlledField} key=${control.pointer} ...${{ control, context }} />`,
    )}
  </details>`;
}
