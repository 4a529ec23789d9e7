/** What launch files leave open, asked for beside them and sent with them. */

import { patched } from "../job/pointer.js";
import { html } from "../vendor/htm-preact.js";
import { LABELS } from "./controls.js";
import { textOf } from "./input.js";
import { controlOf, Part } from "./parts.js";

/**
 * @typedef {import("trainfit").Finding} Finding
 * @typedef {import("./field.js").Context} Context
 * @typedef {import("trainfit").Questions["v1/jobs:from-launch"]} Launch
 * @typedef {Pick<Launch, "overrides" | "env" | "argv">} Given
 */

const OVERRIDES = "/overrides";
const ENV = "/env/";
const ARGV = "/argv";
const IN_OVERRIDES = /(\/\w[\w/]*) in overrides/g;
const SCOPE = "launch";

/** What names a model that is not named; of its sizes files are not silent. */
const NAMES = ["/model/hf_id", "/model/hf_config"];

/**
 * The fewest places where facts would settle all errors that facts can settle; of two that settle
 * as many a field of the job, which is known by its bounds.
 * @param {readonly {missing?: string[]}[]} lacking
 * @returns {string[]} pointers into the launch
 */
export function asked(lacking) {
  /** @type {string[]} */
  const found = [];
  let open = lacking.flatMap(({ missing }) => (missing?.length ? [missing] : []));
  while (open.length) {
    const settled = (/** @type {string} */ pointer) =>
      open.filter((each) => each.includes(pointer)).length +
      (pointer.startsWith(OVERRIDES) ? 0.5 : 0);
    const [best = ""] = open.flat().sort((a, b) => settled(b) - settled(a));
    found.push(best);
    open = open.filter((each) => !each.includes(best));
  }
  return found;
}

/** Whether something is wrong with a fact that was given. @param {Finding} finding */
export function isOfFact({ pointer }) {
  return pointer.startsWith(`${OVERRIDES}/`);
}

/** What is said of something that a fact settles, in the words of the fields that ask for it.
 * @param {string} message
 * @param {readonly string[]} missing pointers into the launch
 * @param {readonly string[]} pointers to what is asked for
 */
export function below(message, missing, pointers) {
  const chosen = missing.find((each) => pointers.includes(each));
  if (chosen === undefined) return message;
  const give = `give ${labelOf(chosen)} below`;
  const asking = /give ([^;]*in env\b|the arguments of the script in argv, \[\] for none)/;
  const said = message.replace(asking, give).replaceAll(IN_OVERRIDES, (_, field) => {
    return `${labelOf(OVERRIDES + field)} below`;
  });
  return said === message ? `${message}; or ${give}` : said;
}

/** What a fact is called. @param {string} pointer into the launch */
function labelOf(pointer) {
  if (pointer === ARGV) return "the arguments of the script";
  if (pointer.startsWith(ENV)) return pointer.slice(ENV.length);
  return fieldOf(pointer.slice(OVERRIDES.length)).label;
}

/** @param {string} pointer to a field of the job */
function fieldOf(pointer) {
  const control = controlOf(pointer);
  return { ...control, label: LABELS.get(pointer) ?? control.label };
}

/**
 * @param {{name: string, pointers: string[], given: Given, change: (given: Given) => void,
 *   again: () => void, findings: Finding[], context: Context, action?: string}} props
 */
export function Facts({ name, pointers, given, change, again, findings, context, action }) {
  const inner = overridden({ given, change, findings, context });
  const entered = (/** @type {KeyboardEvent} */ event) => {
    const { tagName, type } = /** @type {HTMLInputElement} */ (event.target);
    if (event.key !== "Enter" || tagName !== "INPUT" || type === "checkbox") return;
    event.preventDefault();
    again();
  };
  return html`<fieldset class="facts" onKeyDown=${entered}>
    <legend>What ${name} leaves open</legend>
    ${pointers.map((pointer) => html`<${Fact} key=${pointer} ...${{ pointer, given, change }}
      context=${inner} />`)}
    <button type="button" onClick=${again}>${action ?? "Read it with these"}</button>
  </fieldset>`;
}

/** @param {{pointer: string, given: Given, change: (given: Given) => void, context: Context}} props
 */
function Fact({ pointer, given, change, context }) {
  if (pointer === ARGV) return html`<${Arguments} ...${{ given, change }} />`;
  if (pointer.startsWith(ENV))
    return html`<${Variable} name=${pointer.slice(ENV.length)} ...${{ given, change }} />`;
  const field = pointer.slice(OVERRIDES.length);
  return (field === "/model" ? NAMES : [field]).map(
    (each) => html`<${Part} key=${each} context=${context}
      control=${fieldOf(each)} />`,
  );
}

/** @param {{name: string, given: Given, change: (given: Given) => void}} props */
function Variable({ name, given, change }) {
  const id = `launch-env-${name}`;
  const write = textOf((text) => change({ ...given, env: { ...given.env, [name]: text } }));
  return html`<div class="field"><div class="field-row">
    <label for=${id}>Variable <code>${name}</code></label>
    <input id=${id} type="text" spellcheck="false" value=${given.env?.[name] ?? ""}
      onInput=${write} />
  </div></div>`;
}

/** None is said by hand: an empty field says nothing.
 * @param {{given: Given, change: (given: Given) => void}} props
 */
function Arguments({ given, change }) {
  const none = given.argv === "";
  const write = textOf((text) => change({ ...given, argv: text || undefined }));
  return html`<div class="field"><div class="field-row">
    <label for="launch-argv">Arguments of the script</label>
    <input id="launch-argv" type="text" spellcheck="false" disabled=${none}
      value=${given.argv ?? ""} onInput=${write} />
    <label><input type="checkbox" checked=${none}
      onChange=${() => change({ ...given, argv: none ? undefined : "" })} /> none</label>
  </div></div>`;
}

/**
 * The overrides as a job of its own, whose fields are those of the form.
 * @param {Omit<Parameters<typeof Facts>[0], "name" | "pointers" | "again" | "action">} props
 * @returns {Context}
 */
function overridden({ given, change, findings, context }) {
  const job = /** @type {import("trainfit").Job} */ (given.overrides ?? {});
  const use = (/** @type {object} */ next) =>
    change({ ...given, overrides: /** @type {Given["overrides"]} */ (next) });
  /** @type {Context["set"]} */
  const set = (pointer, value) => use(context.schema.edited(job, pointer, value));
  return {
    ...context,
    job,
    filled: undefined,
    set,
    type: set,
    apply: (patch) => use(patched(job, patch)),
    use,
    findings: findings.filter(isOfFact).map(({ pointer, message, ...others }) => ({
      ...others,
      pointer: pointer.slice(OVERRIDES.length),
      message: message.replace(/^\S+ of the overrides: /, ""),
    })),
    outlook: () => undefined,
    scope: SCOPE,
  };
}
