/** What the OpenAPI document says of a place in a job: which forms a value may have there. */

import { at, put, steps } from "./pointer.js";

/** @typedef {import("trainfit").Json} Json */
/** @typedef {Record<string, any>} Schema */

/**
 * @typedef {object} Form One of the forms that a value may have.
 * @property {"integer" | "number" | "boolean" | "string" | "list" | "object" | "any"} kind
 * @property {string} name What tells it from its neighbours.
 * @property {Json[]} values All of them, where they can be counted.
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {Form} [items] Of a list.
 * @property {Record<string, Schema>} fields Of an object.
 * @property {string[]} required Those that an object cannot do without.
 * @property {{field: string, value: Json}} [tag] The field that says which object it is.
 */

/**
 * @typedef {object} Field A place in a job.
 * @property {Form[]} forms Without null, which stands for what the service fills in.
 * @property {boolean} optional Whether null may stand there.
 * @property {string} description
 * @property {Json} [default]
 * @property {Record<string, string[]>} only The frameworks that honour a value, where not all do.
 */

/** @type {Form} */
const ANY = { kind: "any", name: "JSON", values: [], fields: {}, required: [] };

/** Parts of a job that are documents of their own, which nobody fills in field by field. */
const WHOLE = ["calibration"];

/** The schemas of one OpenAPI document, by JSON Pointers into a job. */
export class JobSchema {
  /** @type {WeakMap<Schema, Form[]>} */
  #forms = new WeakMap();

  /** @param {Schema} document */
  constructor(document) {
    /** @type {Record<string, Schema>} */
    this.schemas = document.components.schemas;
    /** @type {string} */
    this.version = document.info.version;
  }

  /** How many files a launch may have, and how many characters each. */
  get launch() {
    const { Launch, LaunchFile } = this.schemas;
    return {
      files: /** @type {number} */ (Launch?.properties.files.maxItems),
      characters: /** @type {number} */ (LaunchFile?.properties.content.maxLength),
    };
  }

  /**
   * The field at a pointer into a job: of several forms on the way, those that the job has there.
   * @param {string} pointer
   * @param {unknown} job
   * @returns {Field | undefined} undefined where such a job has no such field
   */
  field(pointer, job) {
    let schema = /** @type {Schema | undefined} */ (this.schemas.Job);
    let value = /** @type {any} */ (job);
    for (const step of steps(pointer)) {
      schema = schema && this.#object(schema, value)?.fields[step];
      value = value?.[step];
    }
    return schema && this.#field(schema);
  }

  /**
   * Whether the framework that a job names honours a field; what a job has is shown anyway.
   * @param {string} pointer
   * @param {unknown} job
   */
  honours(pointer, job) {
    const framework = at(job, "/framework/name");
    if (typeof framework !== "string" || at(job, pointer) !== undefined) return true;
    let schema = /** @type {Schema | undefined} */ (this.schemas.Job);
    let value = /** @type {any} */ (job);
    for (const step of steps(pointer)) {
      schema = schema && this.#object(schema, value)?.fields[step];
      if (schema?.["x-frameworks"]?.includes(framework) === false) return false;
      value = value?.[step];
    }
    return true;
  }

  /**
   * Pointers to the fields of the object at a pointer; none where something else stands, and none
   * that the framework of the job does not honour.
   * @param {string} pointer
   * @param {unknown} job
   * @returns {string[]}
   */
  inside(pointer, job) {
    const field = this.field(pointer, job);
    const form = field && (formOf(field, at(job, pointer)) ?? untold(field));
    return Object.keys(form?.fields ?? {})
      .filter((name) => name !== form?.tag?.field && (pointer || !WHOLE.includes(name)))
      .map((name) => `${pointer}/${name}`)
      .filter((each) => this.honours(each, job));
  }

  /**
   * Pointers to the fields below a pointer, through objects that have one form only, in the order
   * of the document.
   * @param {string} pointer
   * @param {unknown} job
   * @returns {string[]}
   */
  below(pointer, job) {
    const inner = this.inside(pointer, job);
    if (!inner.length) return [pointer];
    const grouped = (/** @type {string} */ each) => this.field(each, job)?.forms.length === 1;
    return inner.flatMap((each) => (grouped(each) ? this.below(each, job) : [each]));
  }

  /**
   * The job with a value at the pointer, or without one where it is undefined. An object goes when
   * nothing is left in it, unless it says something by being there: one of several forms, or a
   * part that no job can do without.
   * @template {object} T
   * @param {T} job
   * @param {string} pointer
   * @param {Json | undefined} value
   * @returns {T}
   */
  edited(job, pointer, value) {
    const next = put(job, pointer, value);
    let here = pointer;
    while ((here = here.slice(0, here.lastIndexOf("/")))) {
      const gone = at(job, here) !== undefined && at(next, here) === undefined;
      if (gone && this.#speaks(here, job)) return put(next, here, {});
    }
    return next;
  }

  /**
   * What stands in place of a value once another form is chosen: of an object, all that both have.
   * @param {Field} field
   * @param {Form} form
   * @param {Json | undefined} before
   * @returns {Json}
   */
  begun(field, form, before) {
    if (accepts(form, field.default)) return /** @type {Json} */ (field.default);
    if (form.kind === "list") return [];
    if (form.kind === "string") return "";
    if (form.kind !== "object") return form.minimum ?? 0;
    const shared = Object.entries(form.fields).flatMap(([name, schema]) => {
      const value = name === form.tag?.field ? undefined : at(before, `/${name}`);
      return this.#formsOf(schema).some((each) => accepts(each, value)) ? [[name, value]] : [];
    });
    const tag = form.tag ? [[form.tag.field, form.tag.value]] : [];
    return Object.fromEntries([...tag, ...shared]);
  }

  /** @param {string} pointer @param {unknown} job */
  #speaks(pointer, job) {
    const whole = /** @type {Field} */ (this.field(pointer, job));
    return whole.forms.length > 1 || pointer === "/model";
  }

  /** The object that a value is, or may become. @param {Schema} schema @param {unknown} value */
  #object(schema, value) {
    const field = this.#field(schema);
    const form = formOf(field, value);
    return form?.kind === "object" ? form : field.forms.find(({ kind }) => kind === "object");
  }

  /** @param {Schema} schema @returns {Field} */
  #field(schema) {
    return {
      forms: this.#formsOf(schema),
      optional: (schema.anyOf ?? []).some((/** @type {Schema} */ each) => each.type === "null"),
      description: schema.description ?? "",
      default: schema["x-default"],
      only: schema["x-frameworks-by-value"] ?? {},
    };
  }

  /** @param {Schema} schema @returns {Form[]} */
  #formsOf(schema) {
    let forms = this.#forms.get(schema);
    if (!forms) this.#forms.set(schema, (forms = this.#read(schema)));
    return forms;
  }

  /** @param {Schema} schema @returns {Form[]} */
  #read(schema) {
    if (schema.$ref) return this.#formsOf(this.#referred(schema.$ref));
    const options = schema.anyOf ?? schema.oneOf ?? schema.allOf;
    if (options) return options.flatMap((/** @type {Schema} */ each) => this.#formsOf(each));
    return schema.type === "null" ? [] : [this.#form(schema)];
  }

  /** @param {Schema} schema @returns {Form} */
  #form(schema) {
    const { type, minimum, exclusiveMinimum, maximum } = schema;
    if (type === "array") {
      const [items, ...others] = this.#formsOf(schema.items ?? {});
      return others.length ? ANY : { ...ANY, kind: "list", name: "a list", items };
    }
    if (type === "object" && schema.properties) return this.#objectForm(schema);
    const counted = schema.enum ?? ("const" in schema ? [schema.const] : []);
    const values = type === "boolean" ? [true, false] : counted;
    const name = type === "string" ? "by name" : "a number";
    if (!["integer", "number", "boolean", "string"].includes(type)) return ANY;
    const bounds = { minimum: minimum ?? exclusiveMinimum, maximum };
    return { ...ANY, ...bounds, kind: type, name, values };
  }

  /** @param {Schema} schema @returns {Form} */
  #objectForm({ properties, required = [] }) {
    const field = required.find((/** @type {string} */ each) => "const" in properties[each]);
    const tag = field && { field, value: properties[field].const };
    const name = tag ? String(tag.value).replaceAll("_", " ") : "field by field";
    return { ...ANY, kind: "object", name, fields: properties, required, tag };
  }

  /** @param {string} reference */
  #referred(reference) {
    return /** @type {Schema} */ (this.schemas[reference.slice(reference.lastIndexOf("/") + 1)]);
  }
}

/** The form of a value that is not given: known where there is one, or where an object has to be.
 * @param {Field} field
 */
function untold({ forms, optional, ...others }) {
  const needed = !optional && others.default === undefined;
  return needed || forms.length === 1 ? forms.find((form) => form.kind === "object") : undefined;
}

/**
 * The form that a value has: of several objects the one whose fields it has.
 * @param {Field} field
 * @param {unknown} value
 * @returns {Form | undefined} undefined where it has none of them
 */
export function formOf({ forms }, value) {
  const found = forms.filter((form) => accepts(form, value));
  if (found.length < 2) return found[0];
  const given = Object.keys(/** @type {object} */ (value));
  const whole = (/** @type {Form} */ { fields, required }) =>
    given.every((name) => name in fields) && required.every((name) => given.includes(name));
  return found.find(whole) ?? found[0];
}

/** @param {Form} form @param {unknown} value @returns {boolean} */
function accepts({ kind, values, tag, items }, value) {
  if (value === undefined || value === null) return false;
  if (values.length) return values.includes(/** @type {Json} */ (value));
  if (kind === "any") return true;
  if (kind === "integer") return Number.isInteger(value);
  if (kind === "list")
    return Array.isArray(value) && value.every((each) => !items || accepts(items, each));
  if (kind !== "object") return typeof value === kind;
  if (typeof value !== "object" || Array.isArray(value)) return false;
  return !tag || /** @type {any} */ (value)[tag.field] === tag.value;
}
