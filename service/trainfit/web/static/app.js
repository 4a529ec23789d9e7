/** The page as a whole: the question on one side, the answer on the other. */

import { CardChoice, listed } from "./ask/card.js";
import { Form } from "./ask/form.js";
import { ModelChoice } from "./ask/model.js";
import { Presets } from "./ask/presets.js";
import { probeId } from "./ask/probe.js";
import { ComparisonTable } from "./decide/comparison.js";
import { LayoutMap } from "./decide/map.js";
import { Suggestions } from "./decide/suggestions.js";
import { fromAddress, toAddress } from "./job/address.js";
import { layoutOf } from "./job/difference.js";
import { patched, put } from "./job/pointer.js";
import { Question } from "./question.js";
import { Basis } from "./see/basis.js";
import { Pipeline } from "./see/pipeline.js";
import { StageDetail } from "./see/stage.js";
import { Run } from "./see/run.js";
import { CapacityLegend, Legend, StageBars } from "./see/stages.js";
import { Verdict } from "./see/verdict.js";
import { Share } from "./share/share.js";
import { INITIAL, Store } from "./state.js";
import { html, useEffect, useMemo, useState } from "./vendor/htm-preact.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {object} Known What the service knows by name.
 * @property {import("./job/schema.js").JobSchema} schema
 * @property {import("trainfit").BundledModel[]} models
 * @property {import("trainfit").Gpu[]} gpus
 * @property {import("./share/command.js").Flags} flags
 * @property {import("./ask/presets.js").Preset[]} presets
 */

/** @template T @param {Store<T>} store @returns {T} */
function useStore(store) {
  const [value, setValue] = useState(store.value);
  useEffect(() => store.subscribe(setValue), [store]);
  return value;
}

/** The state, kept in the address. @returns {Store<State>} */
function useAddress() {
  const store = useMemo(() => new Store(fromAddress(location.hash, INITIAL)), []);
  useEffect(() => {
    const reopened = () => {
      if (location.hash.slice(1) !== toAddress(store.value)) {
        store.update(fromAddress(location.hash, INITIAL));
      }
    };
    addEventListener("hashchange", reopened);
    const ended = store.subscribe((state) => history.replaceState(null, "", `#${toAddress(state)}`));
    return () => {
      removeEventListener("hashchange", reopened);
      ended();
    };
  }, [store]);
  return store;
}

/** @param {{known: Known}} props */
export function App({ known }) {
  const store = useAddress();
  const question = useMemo(() => new Question(), []);
  const state = useStore(store);
  const answers = useStore(question.answers);
  const { answer, problem } = answers;
  useEffect(() => question.asked(state), [question, state.job, state.headroom]);

  const setJob = (/** @type {State["job"]} */ job) => store.update({ job });
  /** A change of one click that the browser's back button takes back. */
  const use = (/** @type {State["job"]} */ job) => {
    history.pushState(null, "", location.href);
    setJob(job);
  };
  const apply = (/** @type {readonly import("trainfit").Change[]} */ patch) => use(patched(store.value.job, patch));
  const pin = () => store.update({ pins: [...state.pins, { name: layoutOf(state.job), job: state.job }] });
  const context = {
    job: state.job,
    filled: answer?.fit?.job ?? answer?.estimate.job,
    field: (/** @type {string} */ pointer) =>
      known.schema.field(pointer, state.job.framework?.name ?? "megatron"),
    set: (/** @type {string} */ pointer, /** @type {any} */ value) =>
      setJob(put(store.value.job, pointer, value)),
    apply,
    use,
    findings: problem?.errors ?? [],
    outlook: (/** @type {string} */ pointer, /** @type {unknown} */ value) =>
      answers.outlook.get(probeId(pointer, value)),
  };
  const estimate = answer?.estimate;
  const selected = Math.min(state.stage ?? estimate?.binding.pp_rank ?? 0, (estimate?.stages.length ?? 1) - 1);
  const cardName = cardOf(known, state.job.gpu);
  return html`<header class="top">
      <h1><img src="page/icon.svg" alt="" width="22" height="22" /> Trainfit</h1>
      <p>How much memory every rank of a training run will need, before it starts</p>
      <nav aria-label="Elsewhere">
        <button type="button" class="to-form" onClick=${() => document.querySelector(".ask")?.scrollIntoView()}>Change the run</button>
        <a href="docs">API</a></nav>
    </header>
    <div class="columns">
      <form class="ask" aria-label="The training run" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
        <${Presets} presets=${known.presets} job=${state.job} use=${use} />
        <${ModelChoice} models=${known.models} context=${context} priced=${problem ? undefined : estimate?.model}
          gated=${problem?.type.endsWith("/gated-model")} retry=${() => question.asked(state)} />
        <${CardChoice} gpus=${known.gpus} context=${context} headroom=${state.headroom}
          setHeadroom=${(/** @type {number} */ headroom) => store.update({ headroom })} />
        <${Form} context=${context} schema=${known.schema} estimate=${problem ? undefined : estimate} />
      </form>
      <main class=${`answer ${problem ? "stale" : ""}`} aria-busy=${answers.waiting}>
        ${problem && html`<div class="verdict problem" role="status">
          <p class="headline"><strong>${problem.title}</strong></p>
          <p>${problem.detail}${answer && ". Below is the answer to the question before."}</p>
          ${!problem.errors.length && html`<button type="button" onClick=${() => question.asked(state)}>Ask again</button>`}</div>`}
        ${answer && estimate && html`
          ${!problem && html`<${Verdict} estimate=${estimate} fit=${answer.fit} cardName=${cardName} />`}
          <${Run} answer=${answer} />
          <section class="card" aria-labelledby="stages-title">
            <div class="card-head"><h2 id="stages-title">Memory of each pipeline stage</h2>
              <${CapacityLegend} fit=${answer.fit} cardName=${cardName} /></div>
            <${StageBars} estimate=${estimate} fit=${answer.fit} selected=${selected}
              select=${(/** @type {number} */ stage) => store.update({ stage })} />
            <${Legend} />
          </section>
          ${answer.fit && html`<${Suggestions} suggestions=${answers.suggestions} verdict=${answer.fit.verdict} apply=${apply} />`}
          <${ComparisonTable} state=${state} usable=${answer.fit?.usable_bytes ?? 0} pin=${pin} use=${use}
            unpin=${(/** @type {number} */ index) => store.update({ pins: state.pins.filter((_, other) => other !== index) })} />
          <${LayoutMap} job=${state.job} axes=${state.map} usable=${answer.fit?.usable_bytes ?? 0}
            setAxes=${(/** @type {State["map"]} */ map) => store.update({ map })} set=${use} />
          <${StageDetail} answer=${answer} rank=${selected} />
          ${estimate.stages.length > 1 &&
          html`<section class="card" aria-labelledby="pipeline-title">
            <div class="card-head"><h2 id="pipeline-title">Layers of each stage</h2></div>
            <${Pipeline} stages=${estimate.stages} selected=${selected}
              select=${(/** @type {number} */ stage) => store.update({ stage })} />
          </section>`}
          <${Basis} estimate=${estimate} />
          <${Share} state=${state} answer=${answer} flags=${known.flags}
            title=${`${estimate.model.name ?? estimate.model.model_type}: ${layoutOf(state.job)} on ${estimate.parallelism.num_gpus} GPUs`} />`}
      </main>
    </div>`;
}

/** @param {Known} known @param {State["job"]["gpu"]} gpu */
function cardOf(known, gpu) {
  if (gpu !== null && typeof gpu === "object") return gpu.name ?? "the card";
  return listed(known.gpus, gpu)?.name ?? gpu ?? "";
}
