/** What can be taken away: the question as a link and as commands, the answer as files. */

import { useAsked } from "../asked.js";
import { COMPONENTS } from "../see/components.js";
import { told } from "../see/verdict.js";
import { html, useRef, useState } from "../vendor/htm-preact.js";
import { plain } from "../words.js";
import { commandLine, curl, launchText } from "./command.js";
import { copied } from "./copy.js";
import { targetOf, WrittenFor } from "./launch.js";
import { png, standalone } from "./picture.js";
import { save } from "./save.js";
import { csv } from "./table.js";

/**
 * @typedef {import("../state.js").State} State
 * @typedef {import("../state.js").Answer} Answer
 */

const WAYS = { link: "Link", curl: "curl", cli: "Command line", launch: "Launch flags" };

/**
 * @param {{state: State, answer: Answer, title: string, flags: import("./command.js").Flags,
 *   stale: boolean, cardName: string}} props
 */
export function Share({ state, answer, title, flags, stale, cardName }) {
  const [way, setWay] = useState(/** @type {keyof typeof WAYS} */ ("link"));
  const [said, setSaid] = useState("");
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
  const copy = async () => setSaid(await copied(text, shown.current));
  const choose = (/** @type {keyof typeof WAYS} */ next) => {
    setWay(next);
    setSaid("");
  };
  return html`<section class="card share" aria-labelledby="share-title">
    <div class="card-head"><h2 id="share-title">Share and take away</h2>
      <${Ways} way=${way} choose=${choose} /></div>
    ${way === "launch" && html`<${WrittenFor} ...${launch} take=${save} />`}
    ${!refused &&
    html`<pre ref=${shown} tabindex="0" aria-label=${`The question as ${WAYS[way]}`}>${text}</pre>`}
    <div class="row">
      ${!refused && html`<button type="button" onClick=${copy}>Copy</button>`}
      <span class="note" role="status">${said}</span>
      <${Files} ...${{ answer, title, stale, cardName }} />
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
 * @param {{answer: Answer, title: string, stale: boolean, cardName: string}} props
 */
function Files({ answer, title, stale, cardName }) {
  const document_ = JSON.stringify(answer.fit ?? answer.estimate, null, 2);
  const verdict = answer.fit ? told(answer.fit, cardName) : "";
  const legend = /** @type {[string, string][]} */ (
    Object.entries(COMPONENTS).map(([name, colour]) => [plain(name), colour])
  );
  const picture = () => standalone(bars(), title, verdict, legend);
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
