/** A calibration of runs that were put beside their prediction. */

import { ask, problemOf } from "../api.js";
import { keep } from "../ask/calibration.js";
import { textOf } from "../ask/input.js";
import { html, useState } from "../vendor/htm-preact.js";
import { capital, counted } from "../words.js";

/**
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("trainfit").Run} Run
 * @typedef {"driver" | "nccl" | "torch"} Version
 */

/** @type {Record<Version, string>} */
const VERSIONS = { driver: "driver", nccl: "NCCL", torch: "PyTorch" };
/** The service takes so many at once. */
const MOST_RUNS = 16;

/** Runs of the cluster that were learned from since the page was opened.
 * @type {{job: Job, run: Run}[]}
 */
let runs = [];

/** @param {{job: Job, run: Run, use: (job: Job) => void}} props */
export function Learn({ job, run, use }) {
  const [versions, setVersions] = useState(/** @type {Partial<Record<Version, string>>} */ ({}));
  const [said, say] = useState("");
  const { calibration: _, ...bare } = job;
  const key = JSON.stringify([bare, run]);
  const others = runs.filter((each) => JSON.stringify([each.job, each.run]) !== key);
  const learn = async () => {
    const together = [...others, { job: bare, run }].slice(-MOST_RUNS);
    const given = Object.fromEntries(Object.entries(versions).filter(([, text]) => text));
    try {
      const asked = { ...given, runs: together.map((each) => ({ ...each.job, run: each.run })) };
      const { calibration } = await ask("v1/calibrations:fit", asked);
      runs = together;
      keep(calibration);
      say(`${counted(together.length, "run")} learned from; the next answer counts with it.`);
      use({ ...job, calibration });
    } catch (error) {
      say(`${capital(problemOf(error)?.detail.replace(/^\/runs\S*: /, "") ?? "")}.`);
    }
  };
  return html`<fieldset class="facts learn"><legend>Learn from this run</legend>
    <p class="note">What lies outside PyTorch follows from the cluster: the next run there is
      answered with what this one shows${others.length > 0 &&
      `, and ${counted(others.length, "run")} before`}. The calibration stays in this
      browser.</p>
    <div class="row">
      ${/** @type {[Version, string][]} */ (Object.entries(VERSIONS)).map(
        ([name, label]) => html`<label key=${name}>${label} <input type="text" size="8"
          value=${versions[name] ?? ""}
          onInput=${textOf((text) => setVersions({ ...versions, [name]: text }))} /></label>`,
      )}
      <button type="button" onClick=${learn}>Calibrate</button>
    </div>
    <p class="note" role="status">${said}</p>
  </fieldset>`;
}
