/** The question as others ask it: curl, and the command line. */

import { leaves } from "../job/pointer.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {Record<string, string>} Flags The flag of each field by its pointer.
 */

/** @param {Job} job @param {number} headroom @param {string} origin */
export function curl(job, headroom, origin) {
  const checks = job.gpu !== undefined && job.gpu !== null;
  const question = checks && headroom ? { ...job, policy: { headroom_ratio: headroom } } : job;
  const path = checks ? "fit-check" : "estimate";
  const header = "--header 'Content-Type: application/json'";
  const body = quoted(JSON.stringify(question, null, 2));
  return `curl --silent ${origin}v1/${path} ${header} --data ${body}`;
}

/** @param {Job} job @param {Flags} flags */
export function commandLine(job, flags) {
  const { model, ...parts } = job;
  const words = Object.entries(parts).flatMap(([part, inner]) =>
    leaves(inner, `/${part}`).map(([pointer, value]) => written(flags[pointer], value)),
  );
  if (!model.hf_id || words.includes(null)) {
    return `trainfit estimate --job /dev/stdin <<'JSON'\n${JSON.stringify(job, null, 2)}\nJSON`;
  }
  const revision = model.revision ? [`--revision ${quoted(model.revision)}`] : [];
  return ["trainfit estimate", quoted(model.hf_id), ...revision, ...words].join(" ");
}

/**
 * A flag with its value, null where the command line has none.
 * @param {string | undefined} flag
 * @param {import("trainfit").Json} value
 */
function written(flag, value) {
  const plain = value !== null && (typeof value !== "object" || Array.isArray(value));
  if (flag === undefined || !plain) return null;
  if (typeof value === "boolean") return value ? flag : flag.replace("--", "--no-");
  const values = Array.isArray(value) ? value : [value];
  return [flag, ...values.map((each) => quoted(String(each)))].join(" ");
}

/** Arguments, files and variables that a framework is launched with: a line for each argument, and
 * each file under its name.
 * @param {import("trainfit").WrittenLaunch} launch
 */
export function launchText({ arguments: words, files, environment }) {
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${quoted(value)}`);
  const documents = files.map(({ path, content }) => `# ${path}\n${content.trimEnd()}`);
  const flags = words.map((word) => (word.startsWith("--") ? "\\\n  " : "") + quoted(word));
  const line = [...variables, ...flags].join(" ").replace(/^\\\n */, "");
  return [line, ...documents].filter(Boolean).join("\n\n");
}

/** As a POSIX shell reads it. @param {string} text */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
