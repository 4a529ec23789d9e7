/** JSON Pointers (RFC 6901) and JSON Patches (RFC 6902) on jobs, never changed in place. */

/** @typedef {import("trainfit").Json} Json */
/** @typedef {import("trainfit").Change} Change */

/** @param {string} pointer */
export function steps(pointer) {
  const names = pointer.split("/").slice(1);
  // A page of fields asks thousands of times, of names without signs that are escaped.
  if (!pointer.includes("~")) return names;
  return names.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/**
 * What the pointer leads to, undefined where nothing is.
 * @param {unknown} document
 * @param {string} pointer
 * @returns {Json | undefined}
 */
export function at(document, pointer) {
  let found = /** @type {any} */ (document);
  for (const step of steps(pointer)) {
    if (found === null || typeof found !== "object") return undefined;
    found = found[step];
  }
  return found;
}

/**
 * The document with a value at the pointer, or without one where it is undefined. Objects that are
 * left empty go with it.
 * @template {object} T
 * @param {T} document
 * @param {string} pointer
 * @param {Json | undefined} value
 * @returns {T}
 */
export function put(document, pointer, value) {
  return /** @type {T} */ (putAt(/** @type {any} */ (document), steps(pointer), value) ?? {});
}

/**
 * @param {any} part
 * @param {string[]} path
 * @param {Json | undefined} value
 * @returns {Json | undefined}
 */
function putAt(part, [step, ...rest], value) {
  if (step === undefined) return value;
  const object = part !== null && typeof part === "object" && !Array.isArray(part) ? part : {};
  const { [step]: old, ...others } = object;
  const inner = putAt(old, rest, value);
  if (inner !== undefined) return { ...object, [step]: inner };
  return Object.keys(others).length ? others : undefined;
}

/**
 * The document after a patch. Patches of the service name whole parts where the job has none.
 * @template {object} T
 * @param {T} document
 * @param {readonly Change[]} patch
 * @returns {T}
 */
export function patched(document, patch) {
  return patch.reduce(
    (job, change) =>
      put(
        job,
        change.path,
        change.op === "remove" ? undefined : /** @type {Json} */ (change.value),
      ),
    document,
  );
}

/**
 * Every plain value of a job with its pointer; lists and empty objects are plain.
 * @param {unknown} part
 * @param {string} pointer
 * @returns {[string, Json][]}
 */
export function leaves(part, pointer = "") {
  const fields =
    part !== null && typeof part === "object" && !Array.isArray(part) ? Object.entries(part) : [];
  if (!fields.length) return [[pointer, /** @type {Json} */ (part)]];
  return fields.flatMap(([name, inner]) => leaves(inner, `${pointer}/${escaped(name)}`));
}

/** @param {string} name */
function escaped(name) {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
