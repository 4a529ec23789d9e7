/** A run described by the launch files that a team already has. */

import { ask, problemOf } from "../api.js";
import { html, useRef, useState } from "../vendor/htm-preact.js";
import { counted, number } from "../words.js";
import { Account, Refused } from "./account.js";
import { Drafted } from "./drafted.js";
import { objectOf } from "./config.js";
import { useDraft } from "./drafts.js";
import { useDropped } from "./dropped.js";
import { asked, Facts, isOfFact } from "./facts.js";

/**
 * @typedef {import("trainfit").JobFromLaunch} JobFromLaunch
 * @typedef {import("trainfit").Problem} Problem
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("./field.js").Context} Context
 * @typedef {import("./facts.js").Given} Given
 * @typedef {{path: string, content: string}} LaunchFile
 */

/**
 * The files that were dropped last, what is given beside them, and what became of both.
 * @typedef {object} Reading
 * @property {string} name What the files are called.
 * @property {LaunchFile[]} files
 * @property {Given} given
 * @property {string[]} pointers To what was asked for beside the files.
 * @property {JobFromLaunch} [read]
 * @property {Problem | string} [refused]
 * @property {import("trainfit").DraftedJob} [drafted] Where no reader knows them.
 * @property {boolean} [taken] Whether their run is the one that is asked about.
 */

/** @type {Reading} */
const NOTHING = { name: "", files: [], given: {}, pointers: [] };

/** @param {{context: Context, shown: boolean, show: (way: "launch" | "paste") => void}} props */
export function LaunchFiles({ context, shown, show }) {
  const { reading, take, use, change, again } = useReading(context, show);
  const over = useDropped(take);
  const { read, refused, taken, pointers, drafted, name, given } = reading;
  const findings = typeof refused === "object" ? refused.errors : [];
  const beside = findings.length > 0 && findings.every(isOfFact);
  return html`<div class="launch" hidden=${!shown && !over}>
    <label class=${`drop ${over ? "over" : ""}`}>
      <span>
        Drop launch files here, or choose them: a script with Megatron's arguments, a DeepSpeed
        configuration, a YAML or TOML of a trainer, and what they refer to. They are read,
        never run.</span>
      <input type="file" multiple aria-label="Launch files"
        onClick=${(/** @type {Event} */ event) => {
          // The same file may have changed since.
          /** @type {HTMLInputElement} */ (event.currentTarget).value = "";
        }}
        onChange=${(/** @type {Event} */ event) =>
          take(/** @type {HTMLInputElement} */ (event.currentTarget).files)} />
    </label>
    ${refused && !beside && !drafted &&
    html`<${Refused} problem=${refused} pointers=${pointers} />`}
    ${drafted && !taken &&
    html`<${Drafted} ...${{ drafted, name, given, change, use, context }} />`}
    ${pointers.length > 0 &&
    html`<${Facts} ...${reading} ...${{ change, again, findings, context }} />`}
    ${read && html`<${Account} ...${{ read, pointers }} use=${taken ? null : use} />`}
  </div>`;
}

/**
 * Until their run is taken over, or they are set aside, no answer is one to what was dropped.
 * @param {Context} context
 * @param {(way: "launch" | "paste") => void} show
 */
function useReading(context, show) {
  const { draft, hold, drop } = useDraft("launch", "/model", context.job);
  const [reading, setReading] = useState(NOTHING);
  const latest = useRef(new AbortController());
  const held = useRef(hold);
  held.current = hold;
  const use = (/** @type {Job} */ job) => {
    drop();
    setReading((before) => ({ ...before, taken: true }));
    context.use(job);
  };
  const begun = (/** @type {string} */ name) => {
    latest.current.abort();
    latest.current = new AbortController();
    hold(name, `${name} is being read`, true);
    return latest.current.signal;
  };
  const ask = async (/** @type {Reading} */ asking, /** @type {AbortSignal} */ signal) => {
    const next = await readingOf(asking, context, signal);
    if (next === null) return;
    setReading(next);
    if (next.read && isCertain(next.read)) use(next.read.job);
    else held.current(asking.name, `${asking.name} is not taken over`, true);
  };
  const take = async (/** @type {FileList | null} */ list) => {
    if (!list?.length) return;
    const chosen = [...list];
    const name = chosen.length === 1 ? (chosen[0]?.name ?? "") : counted(chosen.length, "file");
    const signal = begun(name);
    setReading(NOTHING);
    const read = await contents(chosen, context.schema.launch);
    if (signal.aborted) return;
    const config = configOf(read);
    const files = config ? read : withinBounds(read, context.schema.launch);
    if (config) {
      drop();
      show("paste");
      context.set("/model", { hf_config: config });
      return;
    }
    show("launch");
    if (typeof files === "object") return void ask({ ...NOTHING, name, files }, signal);
    setReading({ ...NOTHING, name, refused: files });
    held.current(name, `${name} is not taken over`, true);
  };
  const change = (/** @type {Given} */ given) => {
    latest.current.abort();
    setReading({ ...reading, given, taken: false });
    const yet = reading.drafted ? "taken over" : "read with that yet";
    hold(reading.name, `${reading.name} is not ${yet}`, true);
  };
  const again = () => void ask(reading, begun(reading.name));
  return { reading: draft || reading.taken ? reading : NOTHING, take, use, change, again };
}

/** Whether files tell of one run, all of which is modelled. @param {JobFromLaunch} read */
function isCertain({ account, variants }) {
  const open = account.unsupported.length + (account.bounded ?? []).length + variants.length;
  return open === 0;
}

/** @typedef {import("../job/schema.js").JobSchema["launch"]} Bounds */

/** The status of what is understood and cannot be read. */
const UNREAD = 422;

/** Of characters, in UTF-8. */
const MOST_BYTES = 4;

/**
 * @param {File[]} list
 * @param {Bounds} bounds
 * @returns {Promise<LaunchFile[] | string>} or why they cannot be read
 */
async function contents(list, bounds) {
  if (list.length > bounds.files)
    return `${list.length} files are more than the ${bounds.files} that a launch may have`;
  const files = [];
  for (const file of list) {
    if (file.size > MOST_BYTES * bounds.characters) return tooLong(file.name, bounds);
    try {
      files.push({ path: file.name, content: await file.text() });
    } catch {
      return `${file.name} cannot be read: it is a folder, or has changed since`;
    }
  }
  return files;
}

/** @param {LaunchFile[] | string} files @param {Bounds} bounds */
function withinBounds(files, bounds) {
  const long =
    typeof files === "object" &&
    files.find(({ content }) => [...content].length > bounds.characters);
  return long ? tooLong(long.path, bounds) : files;
}

/** @param {string} name @param {Bounds} bounds */
function tooLong(name, { characters }) {
  return `${name} is longer than a launch file may be: ${number(characters)} characters`;
}

/** A model's config.json, which says nothing of a launch. @param {LaunchFile[] | string} files */
function configOf(files) {
  const [file, ...others] = files;
  const config = typeof file === "object" && !others.length ? objectOf(file.content) : null;
  return typeof config?.model_type === "string" ? config : null;
}

/**
 * @param {Reading} asking
 * @param {Context} context
 * @param {AbortSignal} signal
 * @returns {Promise<Reading | null>} null where other files were dropped meanwhile
 */
async function readingOf({ name, files, given, pointers }, { job: { gpu } }, signal) {
  const lacking = (/** @type {readonly {missing?: string[]}[]} */ found) => ({
    name,
    files,
    given,
    pointers: [...new Set([...pointers, ...asked(found)])],
  });
  try {
    const question = { files, ...given, ...(gpu ? { gpu } : {}) };
    const read = await ask("v1/jobs:from-launch", question, signal);
    return { ...lacking(read.account.unsupported), read };
  } catch (error) {
    const problem = problemOf(error);
    if (!problem) return null;
    const drafted = await draftedOf(problem, { files, ...given }, signal);
    return { ...lacking(problem.errors), refused: problem, ...(drafted ? { drafted } : {}) };
  }
}

/** A draft, where no fact would let a reader read the files, and they have words of a job.
 * @param {Problem} problem
 * @param {import("trainfit").Questions["v1/jobs:draft"]} question
 * @param {AbortSignal} signal
 */
async function draftedOf({ status, errors }, question, signal) {
  if (status !== UNREAD || errors.some(({ missing }) => missing?.length)) return null;
  try {
    const drafted = await ask("v1/jobs:draft", question, signal);
    return drafted.said.length ? drafted : null;
  } catch {
    return null;
  }
}
