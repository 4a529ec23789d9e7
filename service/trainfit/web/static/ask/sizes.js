/** A model by its dimensions, in Megatron's names. */

import { html, useState } from "../vendor/htm-preact.js";
import { belongsTo } from "./field.js";
import { controlOf, Part } from "./parts.js";
import { Unchanged } from "./unchanged.js";

const SPEC = "/model/spec";

/** @param {{context: import("./field.js").Context}} props */
export function Sizes({ context }) {
  const { job, schema } = context;
  const [all, setAll] = useState(false);
  const edited = (/** @type {typeof context.set} */ set) =>
    /** @type {typeof context.set} */ ((pointer, value) => {
      const before = { model: { spec: job.model.spec ?? {} } };
      const { spec } = schema.edited(before, pointer, value).model;
      set("/model", { spec: /** @type {any} */ (spec) ?? {} });
    });
  const inner = { ...context, set: edited(context.set), type: edited(context.type) };
  const fields = schema.inside(SPEC, job);
  const needed = schema.field(SPEC, job)?.forms[0]?.required ?? [];
  const first = fields.filter((pointer) => needed.some((name) => pointer === `${SPEC}/${name}`));
  const part = (/** @type {string} */ pointer) =>
    html`<${Part} key=${pointer} control=${controlOf(pointer)} context=${inner} />`;
  const others = fields.filter((pointer) => !first.includes(pointer));
  const wrong = context.findings.some(({ pointer }) =>
    others.some((each) => belongsTo(pointer, each)),
  );
  return html`<div class="sizes">
    ${first.map(part)}
    <details class="others" open=${all || wrong} onToggle=${(/** @type {Event} */ event) =>
      setAll(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
      <summary>${others.length} more</summary>${(all || wrong) && others.map(part)}</details>
    <${Unchanged} unless=${job.model.spec} model=${job.model} />
  </div>`;
}
