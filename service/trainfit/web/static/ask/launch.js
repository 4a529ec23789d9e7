/** A run described by the launch files that a team already has. */

import { ask, problemOf } from "../api.js";
import { html, useRef, useState } from "../vendor/htm-preact.js";
import { counted } from "../words.js";
import { Account, Refused } from "./account.js";
import { objectOf } from "./config.js";
import { useDraft } from "./drafts.js";
import { useDropped } from "./dropped.js";

/**
 * @typedef {import("trainfit").JobFromLaunch} JobFromLaunch
 * @typedef {import("trainfit").Problem} Problem
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("./field.js").Context} Context
 * @typedef {{path: string, content: string}} LaunchFile
 */

/**
 * What became of the files that were dropped last.
 * @typedef {object} Reading
 * @property {JobFromLaunch} [read]
 * @property {Problem | string} [refused]
 * @property {boolean} [taken] Whether their run is the one that is asked about.
 */

/** @param {{context: Context, shown: boolean, show: (way: "launch" | "paste") => void}} props */
export function LaunchFiles({ context, shown, show }) {
  const { reading, take, use } = useReading(context, show);
  const over = useDropped(take);
  const { read, refused, taken } = reading;
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
    ${refused && html`<${Refused} problem=${refused} />`}
    ${read && html`<${Account} read=${read} use=${taken ? null : () => use(read)} />`}
  </div>`;
}

/**
 * Until their run is taken over, or they are set aside, no answer is one to what was dropped.
 * @param {Context} context
 * @param {(way: "launch" | "paste") => void} show
 */
function useReading(context, show) {
  const { draft, hold, drop } = useDraft("launch", "/model", context.job);
  const [reading, setReading] = useState(/** @type {Reading} */ ({}));
  const latest = useRef(new AbortController());
  const held = useRef(hold);
  held.current = hold;
  const use = (/** @type {JobFromLaunch} */ read) => {
    drop();
    setReading({ read, taken: true });
    context.use(read.job);
  };
  const take = async (/** @type {FileList | null} */ list) => {
    if (!list?.length) return;
    latest.current.abort();
    const { signal } = (latest.current = new AbortController());
    const chosen = [...list];
    const name = chosen.length === 1 ? (chosen[0]?.name ?? "") : counted(chosen.length, "file");
    setReading({});
    hold(name, `${name} is being read`, true);
    const files = await contents(chosen);
    if (signal.aborted) return;
    const config = configOf(files);
    if (config) {
      drop();
      show("paste");
      context.set("/model", { hf_config: config });
      return;
    }
    show("launch");
    const next = await readingOf(files, context, signal);
    if (next === null) return;
    setReading(next);
    if (next.read?.account.unsupported.length === 0) use(next.read);
    else held.current(name, `${name} is not taken over`, true);
  };
  return { reading: draft || reading.taken ? reading : {}, take, use };
}

/** @param {File[]} list @returns {Promise<LaunchFile[] | string>} or why they cannot be read */
async function contents(list) {
  const files = [];
  for (const file of list) {
    try {
      files.push({ path: file.name, content: await file.text() });
    } catch {
      return `${file.name} cannot be read: it is a folder, or has changed since`;
    }
  }
  return files;
}

/** A model's config.json, which says nothing of a launch. @param {LaunchFile[] | string} files */
function configOf(files) {
  const [file, ...others] = files;
  const config = typeof file === "object" && !others.length ? objectOf(file.content) : null;
  return typeof config?.model_type === "string" ? config : null;
}

/**
 * @param {LaunchFile[] | string} files
 * @param {Context} context
 * @param {AbortSignal} signal
 * @returns {Promise<Reading | null>} null where other files were dropped meanwhile
 */
async function readingOf(files, { job: { gpu } }, signal) {
  if (typeof files === "string") return { refused: files };
  try {
    return { read: await ask("v1/jobs:from-launch", { files, ...(gpu ? { gpu } : {}) }, signal) };
  } catch (error) {
    const problem = problemOf(error);
    return problem && { refused: problem };
  }
}
