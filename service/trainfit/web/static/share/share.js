/** What can be taken away: the question as a link and as commands, the answer as files. */

import { html, useRef, useState } from "../vendor/htm-preact.js";
import { useAsked } from "../asked.js";
import { commandLine, curl, launchText } from "./command.js";
import { png, standalone } from "./picture.js";
import { csv } from "./table.js";

/**
 * @typedef {import("../state.js").State} State
 * @typedef {import("../state.js").Answer} Answer
 */

const WAYS = { link: "Link", curl: "curl", cli: "Command line", launch: "Launch flags" };
/** In whose keys a job of each framework is written. */
const TARGETS = /** @type {const} */ ({ megatron: "megatron-args", torchtitan: "torchtitan" });

/** @param {{state: State, answer: Answer, title: string, flags: import("./command.js").Flags}} props */
export function Share({ state, answer, title, flags }) {
  const [way, setWay] = useState(/** @type {keyof typeof WAYS} */ ("link"));
  const [told, setTold] = useState("");
  const shown = useRef(/** @type {HTMLElement | null} */ (null));
  const base = new URL(".", document.baseURI).href;
  const target = TARGETS[/** @type {keyof typeof TARGETS} */ (state.job.framework?.name ?? "megatron")];
  const launch = useAsked("v1/jobs:to-launch", way === "launch" && target ? { job: state.job, to: target } : null);
  const text = {
    link: () => location.href,
    curl: () => curl(state.job, state.headroom, base),
    cli: () => commandLine(state.job, flags),
    launch: () => launched(launch, Boolean(target)),
  }[way]();
  const document_ = JSON.stringify(answer.fit ?? answer.estimate, null, 2);
  const picture = () => standalone(bars(), title);
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
  return html`<section class="card share" aria-labelledby="share-title">
    <div class="card-head"><h2 id="share-title">Share and take away</h2>
      <div class="ways" role="group" aria-label="The question as">
        ${Object.entries(WAYS).map(
          ([key, label]) => html`<button type="button" key=${key} aria-pressed=${way === key}
            onClick=${() => {
              setWay(/** @type {keyof typeof WAYS} */ (key));
              setTold("");
            }}>${label}</button>`,
        )}
      </div></div>
    <pre ref=${shown} tabindex="0" aria-label=${`The question as ${WAYS[way]}`}>${text}</pre>
    <div class="row">
      <button type="button" onClick=${copy}>Copy</button>
      <span class="note" role="status">${told}</span>
      <span class="files">
        <button type="button" onClick=${() => save(document_, "application/json", "trainfit.json")}>JSON</button>
        <button type="button" onClick=${() => save(csv(answer.estimate), "text/csv", "trainfit.csv")}>CSV</button>
        <button type="button" onClick=${() => save(picture(), "image/svg+xml", "trainfit.svg")}>SVG</button>
        <button type="button" onClick=${async () => save(await png(picture()), "image/png", "trainfit.png")}>PNG</button>
        <button type="button" onClick=${() => print()}>Print</button>
      </span>
    </div>
  </section>`;
}

/** @param {import("../asked.js").Asked<"v1/jobs:to-launch">} launch @param {boolean} written */
function launched({ answer, problem }, written) {
  if (!written) return "Jobs of this framework are not written as launch flags.";
  return answer ? launchText(answer) : (problem?.errors.map((each) => each.message).join("\n") ?? "");
}

function bars() {
  return /** @type {SVGSVGElement} */ (/** @type {unknown} */ (document.getElementById("stage-bars")));
}

/** @param {BlobPart} content @param {string} type @param {string} name */
function save(content, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
