/** What the OpenAPI document says of a field of a job: its type, its bounds, its words. */

import { steps } from "./pointer.js";

/**
 * @typedef {object} Field
 * @property {"integer" | "number" | "boolean" | "string" | "array" | "object"} type
 * @property {string[]} choices Values of an enumeration, or of the items of a list.
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {string} description
 * @property {boolean} optional Whether null may stand for what the service fills in.
 * @property {import("trainfit").Json} [default]
 */

/** @typedef {Record<string, any>} Schema */

/** The schemas of one OpenAPI document, by JSON Pointers into a job. */
export class JobSchema {
  /** @param {Schema} document */
  constructor(document) {
    /** @type {Record<string, Schema>} */
    this.schemas = document.components.schemas;
    /** @type {string} */
    this.version = document.info.version;
  }

  /**
   * The field at a pointer into a job that runs under this framework.
   * @param {string} pointer
   * @param {string} framework
   * @returns {Field | undefined} undefined where this framework has no such field
   */
  field(pointer, framework) {
    const schema = this.#at(pointer, framework);
    return schema && this.#field(schema);
  }

  /**
   * @param {string} pointer
   * @param {string} framework
   * @returns {Schema | undefined}
   */
  #at(pointer, framework) {
    let schema = /** @type {Schema | undefined} */ (this.schemas.Job);
    for (const step of steps(pointer)) {
      schema = this.#part(schema, framework)?.properties?.[step];
    }
    return schema;
  }

  /**
   * Pointers to the plain fields below a pointer, in the order of the document.
   * @param {string} pointer
   * @param {string} framework
   * @returns {string[]}
   */
  below(pointer, framework) {
    const part = this.#part(this.#at(pointer, framework), framework);
    if (!part) return [pointer];
    const names = Object.keys(part.properties);
    return names.flatMap((name) => this.below(`${pointer}/${name}`, framework));
  }

  /**
   * The object that a schema stands for: of the frameworks the one that is meant.
   * @param {Schema | undefined} schema
   * @param {string} framework
   * @returns {Schema | undefined}
   */
  #part(schema, framework) {
    if (schema === undefined) return undefined;
    if (schema.$ref) return this.#part(this.#referred(schema), framework);
    if (schema.discriminator?.propertyName === "name") {
      return this.#part({ $ref: schema.discriminator.mapping[framework] }, framework);
    }
    const options = [...(schema.anyOf ?? []), ...(schema.allOf ?? [])];
    return schema.properties
      ? schema
      : options.map((option) => this.#part(option, framework)).find((part) => part?.properties);
  }

  /** @param {Schema} schema */
  #referred(schema) {
    return this.schemas[schema.$ref.split("/").pop()];
  }

  /**
   * @param {Schema} schema
   * @returns {Field}
   */
  #field(schema) {
    const options = (schema.anyOf ?? [schema]).filter(
      (/** @type {Schema} */ each) => each.type !== "null",
    );
    const plain = options.find((/** @type {Schema} */ each) => !each.$ref) ?? options[0];
    const choices = plain.items?.enum ?? plain.enum ?? (plain.const ? [plain.const] : []);
    return {
      type: plain.type ?? "object",
      choices,
      minimum: plain.minimum ?? plain.exclusiveMinimum,
      maximum: plain.maximum,
      description: schema.description ?? "",
      optional: (schema.anyOf ?? []).some((/** @type {Schema} */ each) => each.type === "null"),
      // A union has none: of its kinds one has it.
      default: options.find((/** @type {Schema} */ each) => "default" in each)?.default,
    };
  }
}
