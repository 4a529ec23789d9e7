/**
 * The whole state in the address, after the #, so that it is never sent to a server.
 *
 * A job stands there field by field: model.hf_id=org/name&parallelism.tp=4. Strings that would be
 * read as something else are quoted as in JSON; lists and a config.json are written in JSON. A
 * pinned layout is its name, and its fields behind that: pin=before&pin.model.hf_id=org/name.
 */

import { leaves, put } from "./pointer.js";

/** @typedef {import("trainfit").Json} Json */
/** @typedef {import("trainfit").Job} Job */
/** @typedef {import("../state.js").State} State */

const PARTS = [
  ...["model", "parallelism", "training", "framework", "gpu"],
  ...["estimator_version", "calibration", "speed"],
];
const WHOLE = ["/model/hf_config", "/model/spec", "/calibration"];

/**
 * @param {State} state
 * @returns {string} what follows the #
 */
export function toAddress(state) {
  const parameters = new URLSearchParams(fieldsOf(state.job));
  if (state.headroom) parameters.set("headroom", String(state.headroom));
  if (state.stage !== null) parameters.set("stage", String(state.stage));
  if (state.map) parameters.set("map", Object.values(state.map).filter(Boolean).join());
  for (const pin of state.pins) {
    parameters.append("pin", pin.name);
    for (const [field, value] of fieldsOf(pin.job)) parameters.append(`pin.${field}`, value);
  }
  return readable(parameters.toString());
}

/**
 * The state that an address holds; what it leaves out is as in `initial`.
 * @param {string} address
 * @param {State} initial
 * @returns {State}
 */
export function fromAddress(address, initial) {
  const parameters = new URLSearchParams(address.replace(/^#/, ""));
  const job = jobOf(parameters);
  if (!job) return initial;
  const [across, down, by] = (parameters.get("map") ?? "").split(",");
  const stage = parameters.get("stage");
  return {
    ...initial,
    job,
    headroom: ratio(parameters.get("headroom")),
    stage: stage !== null && /^\d+$/.test(stage) ? Number(stage) : null,
    map: across && down ? { across, down, ...(by === "time" ? { by } : {}) } : null,
    pins: pinsOf(parameters),
  };
}

/** @param {URLSearchParams} parameters @returns {State["pins"]} */
function pinsOf(parameters) {
  /** @type {{name: string, fields: URLSearchParams}[]} */
  const pins = [];
  for (const [name, text] of parameters) {
    if (name === "pin") pins.push({ name: text, fields: new URLSearchParams() });
    else if (name.startsWith("pin.")) pins.at(-1)?.fields.append(name.slice("pin.".length), text);
  }
  return pins.flatMap((pin) => {
    const { name, fields } = pin.fields.toString() ? pin : asOnceWritten(pin.name);
    const job = jobOf(fields);
    return job ? [{ name, job }] : [];
  });
}

/**
 * A pin of an older link: the name, a question mark and the fields in one text, encoded again.
 * @param {string} text
 */
function asOnceWritten(text) {
  const [name, fields] = split(text);
  return { name: decoded(name), fields: new URLSearchParams(fields) };
}

/** @param {Job} job @returns {[string, string][]} */
function fieldsOf(job) {
  /** @type {[string, string][]} */
  const fields = [];
  for (const [part, inner] of Object.entries(job)) {
    for (const [pointer, value] of leavesOf(inner, `/${part}`)) {
      fields.push([pointer.slice(1).replaceAll("/", "."), written(value)]);
    }
  }
  return fields;
}

/** @param {unknown} part @param {string} pointer @returns {[string, Json][]} */
function leavesOf(part, pointer) {
  if (WHOLE.includes(pointer)) return [[pointer, /** @type {Json} */ (part)]];
  if (pointer !== "/model" || part === null || typeof part !== "object")
    return leaves(part, pointer);
  return Object.entries(part).flatMap(([name, inner]) => {
    const here = `${pointer}/${name}`;
    return WHOLE.includes(here)
      ? [/** @type {[string, Json]} */ ([here, inner])]
      : leaves(inner, here);
  });
}

/** @param {URLSearchParams} parameters @returns {Job | undefined} */
function jobOf(parameters) {
  let job = /** @type {Job} */ ({});
  for (const [name, text] of parameters) {
    const [part = ""] = name.split(".");
    if (!PARTS.includes(part) || text === "") continue;
    job = put(job, `/${name.replaceAll(".", "/")}`, read(text));
  }
  return job.model ? job : undefined;
}

/** @param {Json} value */
function written(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return typeof read(value) === "string" && !value.startsWith('"') ? value : JSON.stringify(value);
}

/** @param {string} text @returns {Json} */
function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @param {string | null} text */
function ratio(text) {
  const value = Number(text ?? 0);
  return value >= 0 && value < 1 ? value : 0;
}

/** @param {string} text @returns {[string, string]} */
function split(text) {
  const end = text.indexOf("?");
  return [text.slice(0, end), text.slice(end + 1)];
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Slashes and commas need no escape after the #. @param {string} text */
function readable(text) {
  return text.replaceAll("%2F", "/").replaceAll("%2C", ",");
}
