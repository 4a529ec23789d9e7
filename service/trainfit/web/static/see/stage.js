/** One stage from its components down to its tensors, and its step. */

import { useAsked } from "../asked.js";
import { html, useRef } from "../vendor/htm-preact.js";
import { counted } from "../words.js";
import { Composition, moment } from "./composition.js";
import { layersOf } from "./stages.js";
import { Timeline } from "./timeline.js";
import { Allocator } from "./trace.js";
import { ModuleTree } from "./tree.js";

const NOT_DRAWN =
  "This schedule is priced by a bound on its activations, or its step is too long to draw.";

/** @param {{answer: import("../state.js").Answer, rank: number}} props */
export function StageDetail({ answer, rank }) {
  const stage = answer.estimate.stages[rank];
  const { answer: ledger, stale } = useAsked("v1/ledger", { ...answer.job, pp_rank: rank });
  // A first look does not say whether there is an order to replay: what was there stays.
  const ordered = useRef(false);
  if (!stage) return null;
  if (!answer.first) ordered.current = stage.reserved_basis === "replayed";
  const current = ledger?.pp_rank === rank ? ledger : null;
  const card = `card ${stale ? "stale" : ""}`;
  return html`<section class="card" aria-labelledby="stage-title">
      <div class="card-head"><h2 id="stage-title">Stage ${rank} at its peak</h2>
        <span class="note">
          ${counted(layersOf(stage), "layer")} · peak at ${moment(stage)}</span></div>
      <${Composition} stage=${stage} />
    </section>
    <section class=${card} aria-labelledby="step-title">
      <div class="card-head"><h2 id="step-title">One step of stage ${rank}</h2>
        <span class="note">activations and what operations borrow</span></div>
      ${current?.course
        ? html`<${Timeline} course=${current.course} stage=${stage} />`
        : html`<p class="note placeholder">${current ? NOT_DRAWN : ""}</p>`}
    </section>
    ${ordered.current &&
    html`<section class="card allocator" aria-labelledby="allocator-title">
      <div class="card-head"><h2 id="allocator-title">PyTorch's allocator on stage ${rank}</h2>
        <span class="note">allocated and reserved</span></div>
      <${Allocator} job=${answer.job} rank=${rank} />
    </section>`}
    <section class=${`${card} modules`} aria-labelledby="modules-title">
      <div class="card-head"><h2 id="modules-title">Modules of stage ${rank}</h2></div>
      ${current
        ? html`<${ModuleTree} ledger=${current} stage=${stage} />`
        : html`<p class="note placeholder"></p>`}
    </section>`;
}
