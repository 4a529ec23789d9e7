/** The control that a value is edited with, by the forms that the document gives it. */

import { nameOf } from "../job/said.js";
import { formOf } from "../job/schema.js";
import { at } from "../job/pointer.js";
import { html } from "../vendor/htm-preact.js";
import { capital } from "../words.js";
import { useDraft } from "./drafts.js";

const GIB = 2 ** 30;

/**
 * @typedef {import("trainfit").Json} Json
 * @typedef {import("../job/schema.js").Field} Field
 * @typedef {import("../job/schema.js").Form} Form
 * @typedef {object} InputProps
 * @property {Field} field
 * @property {string} pointer
 * @property {string} id
 * @property {string} described
 * @property {import("./field.js").Context} context
 * @typedef {InputProps & {form: Form, label?: string}} OpenProps
 */

/** @param {InputProps} props */
export function Input(props) {
  const { field, pointer, id, context } = props;
  const value = at(context.job, pointer) ?? undefined;
  const form = formOf(field, value);
  const [first] = field.forms;
  if (value !== undefined && !form) return html`<${JsonInput} ...${props} form=${first} />`;
  if (field.forms.length === 1 && first && isOpen(first))
    return html`<${Open} ...${props} form=${first} />`;
  const open = form && isOpen(form) && form.kind !== "object";
  return html`<div class="forms">
    <${Choice} ...${{ ...props, value, form }} />
    ${open && html`<${Open} ...${{ ...props, form }} id=${`${id}-value`} label=${form.name} />`}
  </div>`;
}

/** Whether values are written rather than chosen. @param {Form} form */
function isOpen({ values }) {
  return values.length === 0;
}

/** @param {OpenProps} props */
function Open(props) {
  const { kind, items } = props.form;
  if (kind === "list" && items?.values.length) return html`<${Several} ...${props} />`;
  if (kind === "integer" || kind === "number") return html`<${NumberInput} ...${props} />`;
  const words = kind === "string" || (kind === "list" && items?.kind !== "object");
  if (words) return html`<${TextInput} ...${props} />`;
  return html`<${JsonInput} ...${props} />`;
}

/**
 * One of some values, or of some forms of one.
 * @param {InputProps & {value: Json | undefined, form: Form | undefined}} props
 */
function Choice({ field, pointer, id, described, context, value, form }) {
  const framework = context.job.framework?.name ?? "";
  const honoured = (/** @type {Json} */ one) =>
    one === value || !framework || (field.only[String(one)]?.includes(framework) ?? true);
  const options = field.forms.flatMap((each) =>
    isOpen(each)
      ? [{ key: String(each.tag?.value ?? each.name), words: each.name, form: each, value: null }]
      : each.values
          .filter(honoured)
          .map((one) => ({ key: String(one), words: said(one), form: each, value: one })),
  );
  const chosen = options.find((each) =>
    isOpen(each.form) ? each.form === form : each.value === value,
  );
  const choose = (/** @type {string} */ key) => {
    const option = options.find((each) => each.key === key);
    const next = option?.value ?? (option && context.schema.begun(field, option.form, value));
    context.set(pointer, next);
  };
  return html`<select id=${id} aria-describedby=${described} value=${chosen?.key ?? ""}
    onChange=${textOf(choose)}>
    <option value="">${unset(field, pointer, context)}</option>
    ${options.map(({ key, words }) => html`<option key=${key} value=${key}>${words}</option>`)}
  </select>`;
}

/**
 * What a field has that is not given.
 * @param {Field} field
 * @param {string} pointer
 * @param {import("./field.js").Context} context
 */
function unset(field, pointer, context) {
  const value = usual(field, pointer, context);
  if (value === undefined || value === null) {
    if (context.scope) return "not said";
    return context.filled !== undefined && field.optional ? "none" : "default";
  }
  if (typeof value !== "object") return `default: ${said(value)}`;
  const { tag } = formOf(field, value) ?? {};
  return tag ? `default: ${tag.value}` : "default";
}

/** What a field has that is not given; what is asked for beside the form has nothing.
 * @param {Field} field
 * @param {string} pointer
 * @param {import("./field.js").Context} context
 */
function usual(field, pointer, { filled, scope }) {
  return at(filled, pointer) ?? (scope ? undefined : field.default);
}

/** @param {OpenProps} props */
function NumberInput({ form, field, pointer, id, described, context, label }) {
  const { draft, write, hold, leave } = useDraft(context.scope + pointer, pointer, context.job);
  const value = /** @type {number | undefined} */ (at(context.job, pointer) ?? undefined);
  const onInput = (/** @type {Event} */ event) => {
    const { value: text, validity } = /** @type {HTMLInputElement} */ (event.currentTarget);
    const number = text === "" ? undefined : scaled(Number(text), pointer);
    const lacking = number === undefined && (validity.badInput || field.forms.length > 1);
    if (lacking || (number !== undefined && !Number.isFinite(number)))
      return hold(text, `${nameOf(pointer)} is not a number yet`);
    context.set(pointer, number);
    return write(text, number);
  };
  return html`<input id=${id} type="number"
      inputmode=${form.kind === "integer" ? "numeric" : "decimal"}
      aria-describedby=${described}
      aria-label=${label} aria-invalid=${draft?.wrong ? "true" : undefined}
      min=${shown(form.minimum, pointer)} max=${shown(form.maximum, pointer)}
      step=${form.kind === "integer" && !inBytes(pointer) ? 1 : "any"}
      value=${draft?.text ?? (value === undefined ? "" : shown(value, pointer))}
      placeholder=${placeholder(field, pointer, context)}
      onInput=${onInput} onBlur=${leave} />
    <${Wrong} of=${draft?.wrong} />`;
}

/** A text, or a list of words or numbers. @param {OpenProps} props */
function TextInput({ form, field, pointer, id, described, context, label }) {
  const { draft, write, hold, leave } = useDraft(context.scope + pointer, pointer, context.job);
  const value = at(context.job, pointer) ?? undefined;
  const onInput = textOf((text) => {
    const next = form.kind === "list" ? listed(text, form.items) : text;
    if (next === null) return hold(text, `${nameOf(pointer)} is not a list yet`);
    // One of several forms is there as long as it is chosen, even with nothing in it.
    const given = text.trim() === "" && field.forms.length === 1 ? undefined : next;
    context.type(pointer, given);
    return write(text, given);
  });
  return html`<input id=${id} type="text" aria-describedby=${described} spellcheck="false"
      aria-label=${label} aria-invalid=${draft?.wrong ? "true" : undefined}
      value=${draft?.text ?? (Array.isArray(value) ? joined(value) : (value ?? ""))}
      placeholder=${placeholder(field, pointer, context)} onInput=${onInput} onBlur=${leave} />
    <${Wrong} of=${draft?.wrong} />`;
}

/** What has no control of its own, as JSON. @param {OpenProps} props */
function JsonInput({ form, pointer, id, described, context, label }) {
  const { draft, write, hold, leave } = useDraft(context.scope + pointer, pointer, context.job);
  const value = at(context.job, pointer) ?? undefined;
  const onInput = textOf((text) => {
    const next = text.trim() ? parsed(text) : undefined;
    if (next === null) return hold(text, `${nameOf(pointer)} is not JSON yet`);
    context.type(pointer, next);
    return write(text, next);
  });
  return html`<textarea id=${id} rows=${form.kind === "any" ? 4 : 1} spellcheck="false"
      aria-describedby=${described} aria-label=${label}
      aria-invalid=${draft?.wrong ? "true" : undefined}
      value=${draft?.text ?? (value === undefined ? "" : JSON.stringify(value))}
      onInput=${onInput} onBlur=${leave}></textarea>
    <${Wrong} of=${draft?.wrong} />`;
}

/** Any of some values. @param {OpenProps} props */
function Several({ form, field, pointer, id, described, context }) {
  const given = /** @type {Json[] | undefined} */ (at(context.job, pointer) ?? undefined);
  const filled = /** @type {Json[]} */ (usual(field, pointer, context) ?? []);
  const chosen = given ?? filled;
  const choices = form.items?.values ?? [];
  const toggle = (/** @type {Json} */ choice) => {
    const next = choices.filter((each) => chosen.includes(each) !== (each === choice));
    context.set(pointer, next);
  };
  const words = chosen.length ? joined(chosen) : "none";
  return html`<details class="several" id=${id}>
    <summary aria-labelledby=${`${id}-label ${id}-chosen`} aria-describedby=${described}>
      <span id=${`${id}-chosen`}>${given ? words : `default: ${words}`}</span>
    </summary>
    ${choices.map(
      (choice) => html`<label key=${choice}>
        <input type="checkbox" checked=${chosen.includes(choice)}
          onChange=${() => toggle(choice)} />
        ${choice}
      </label>`,
    )}
    ${given &&
    html`<button type="button" class="link" onClick=${() => context.set(pointer, undefined)}>
      Back to the default</button>`}
  </details>`;
}

/** Why a draft is no part of the question. @param {{of: string | undefined}} props */
export function Wrong({ of }) {
  return of ? html`<p class="unread" role="alert">${capital(of)}.</p>` : null;
}

/** Whether a field is one of bytes, which are written in GiB. @param {string} pointer */
export function inBytes(pointer) {
  return pointer.endsWith("_bytes");
}

/** A number as it is written. @param {number | undefined} value @param {string} pointer */
function shown(value, pointer) {
  return value !== undefined && inBytes(pointer) ? value / GIB : value;
}

/** A number that was written. @param {number} value @param {string} pointer */
function scaled(value, pointer) {
  return inBytes(pointer) ? Math.round(value * GIB) : value;
}

/** @param {(text: string) => void} act */
export function textOf(act) {
  return (/** @type {Event} */ { currentTarget }) =>
    act(/** @type {HTMLInputElement | HTMLSelectElement} */ (currentTarget).value);
}

/** @param {Field} field @param {string} pointer @param {import("./field.js").Context} context */
function placeholder(field, pointer, context) {
  const value = usual(field, pointer, context);
  if (Array.isArray(value)) return joined(value);
  if (typeof value === "number") return String(shown(value, pointer));
  return value === undefined || value === null || typeof value === "object" ? "" : said(value);
}

/** @param {Json} value */
function said(value) {
  return value === true ? "yes" : value === false ? "no" : String(value);
}

/** @param {Json[]} values */
function joined(values) {
  const plain = values.every((each) => /^[^\s,"[\]]+$/.test(String(each)));
  return plain ? values.join(", ") : JSON.stringify(values);
}

/**
 * A list as it is written: words between commas, or JSON.
 * @param {string} text
 * @param {Form | undefined} items
 * @returns {Json[] | null} null where it is none, yet
 */
function listed(text, items) {
  const written = text.trim();
  const found = written.startsWith("[") ? parsed(written) : written.split(/[\s,]+/).filter(Boolean);
  if (!Array.isArray(found)) return null;
  if (items?.kind !== "integer" && items?.kind !== "number") return found.map(String);
  const numbers = found.map(Number);
  return numbers.every(Number.isFinite) ? numbers : null;
}

/** @param {string} text @returns {Json} null where it is no JSON */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
