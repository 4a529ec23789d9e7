/** What can be taken away: the question as a link and as commands, the answer as files. */

import { html, useRef, useState } from "../vendor/htm-preact.js";
import { useAsked } from "../asked.js";
import { commandLine, curl, launchText } from "./command.js";
import { targetOf, WrittenFor } from "./launch.js";
import { png, standalone } from "./picture.js";
import { csv } from "./table.js";

/**
 * @typedef {import("../state.js").State} State
 * @typedef {import("../state.js").Answer} Answer
 */

const WAYS = { link: "Link", curl: "curl", cli: "Command line", launch: "Launch flags" };

/**
 * @param {{state: State, answer: Answer, title: string, flags: import("./command.js").Flags,
 *   stale: boolean}} props
 */
export function Share({ state, answer, title, flags, stale }) {
  const [way, setWay] = useState(/** @type {keyof typeof WAYS} */ ("link"));
  const [told, setTold] = useState("");
  const shown = useRef(/** @type {HTMLElement | null} */ (null));
  const base = new URL(".", document.baseURI).href;
  const question = way === "launch" ? { job: state.job, to: targetOf(state.job) } : null;
  const written = useAsked("v1/jobs:to-launch", question);
  const launch = written.stale ? { ...written, answer: null, problem: null } : written;
  const refused = way === "launch" ? launch.problem : null;
  const text = {
    link: () => location.href,
    curl: () => curl(state.job, state.headroom, base),
    cli: () => commandLine(state.job, flags),
    launch: () => (launch.answer ? launchText(launch.answer) : ""),
  }[way]();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setTold("Copied.");
    } catch {
      // Browsers let pages copy over HTTPS and on this machine only.
      if (shown.current) getSelection()?.selectAllChildren(shown.current);
      setTold("Selected: copy it with the keyboard.");
    }
  };
  const choose = (/** @type {keyof typeof WAYS} */ next) => {
    setWay(next);
    setTold("");
  };
  return html`<section class="card share" aria-labelledby="share-title">
    <div class="card-head"><h2 id="share-title">Share and take away</h2>
      <${Ways} way=${way} choose=${choose} /></div>
    ${way === "launch" && html`<${WrittenFor} ...${launch} take=${save} />`}
    ${!refused &&
    html`<pre ref=${shown} tabindex="0" aria-label=${`The question as ${WAYS[way]}`}>${text}</pre>`}
    <div class="row">
      ${!refused && html`<button type="button" onClick=${copy}>Copy</button>`}
      <span class="note" role="status">${told}</span>
      <${Files} ...${{ answer, title, stale }} />
    </div>
  </section>`;
}

/** @param {{way: keyof typeof WAYS, choose: (way: keyof typeof WAYS) => void}} props */
function Ways({ way, choose }) {
  const ways = /** @type {[keyof typeof WAYS, string][]} */ (Object.entries(WAYS));
  return html`<div class="ways" role="group" aria-label="The question as">
    ${ways.map(
      ([key, label]) => html`<button type="button" key=${key} aria-pressed=${way === key}
        onClick=${() => choose(key)}>${label}</button>`,
    )}
  </div>`;
}

/** The answer as files: not while it is one to another question.
 * @param {{answer: Answer, title: string, stale: boolean}} props
 */
function Files({ answer, title, stale }) {
  const document_ = JSON.stringify(answer.fit ?? answer.estimate, null, 2);
  const picture = () => standalone(bars(), title);
  const files = /** @type {const} */ ([
    ["JSON", "application/json", () => document_],
    ["CSV", "text/csv", () => csv(answer.estimate)],
    ["SVG", "image/svg+xml", picture],
    ["PNG", "image/png", () => png(picture())],
  ]);
  const take = async (/** @type {typeof files[number]} */ [name, type, content]) =>
    save(await content(), type, `trainfit.${name.toLowerCase()}`);
  return html`<span class="files">
    ${files.map(
      (file) => html`<button type="button" key=${file[0]} disabled=${stale}
        onClick=${() => take(file)}>
        ${file[0]}</button>`,
    )}
    <button type="button" disabled=${stale} onClick=${() => print()}>Print</button>
  </span>`;
}

function bars() {
  return /** @type {SVGSVGElement} */ (
    /** @type {unknown} */ (document.getElementById("stage-bars"))
  );
}

/** @param {BlobPart} content @param {string} type @param {string} name */
function save(content, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
