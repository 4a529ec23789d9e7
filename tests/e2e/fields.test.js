/** Every field of a job has a control that shows each form of its value, and sets it. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fromAddress, toAddress } from "../../service/trainfit/web/static/job/address.js";
import { at as found, leaves, put } from "../../service/trainfit/web/static/job/pointer.js";
import { formOf, JobSchema } from "../../service/trainfit/web/static/job/schema.js";
import { INITIAL } from "../../service/trainfit/web/static/state.js";
import { open } from "./browser.js";
import { scenario } from "./scenario.js";

/**
 * @typedef {import("trainfit").Json} Json
 * @typedef {import("trainfit").Job} Job
 * @typedef {import("../../service/trainfit/web/static/job/schema.js").Form} Form
 */

const DOCUMENT = new URL("../../openapi/openapi.json", import.meta.url);
const SCHEMA = new JobSchema(JSON.parse(await readFile(DOCUMENT, "utf8")));
/** Of a model, one part says which it is. */
const MODELS = ["/model/hf_id", "/model/hf_config", "/model/spec"];

/** A value for each form, and every value that can be counted.
 * @param {Form} form
 * @param {string} pointer
 * @returns {Json[]}
 */
function samples(form, pointer) {
  if (form.values.length) return form.values;
  switch (form.kind) {
    case "integer":
      return [pointer.endsWith("_bytes") ? 3 * 2 ** 30 : Math.max(form.minimum ?? 0, 1)];
    case "number":
      return [form.maximum === undefined || form.maximum > 1 ? 1.5 : 0.25];
    case "string":
      return ["org/name"];
    case "list":
      return [form.items?.values.length ? form.items.values.slice(0, 2) : list(form.items)];
    case "object":
      return [Object.fromEntries(form.tag ? [[form.tag.field, form.tag.value]] : [])];
    default:
      return [{ model_type: "llama", nested: { list: [1, "2", null] } }];
  }
}

const PRODUCT = { m: 4096, n: 8192, k: 1024, precision: "bf16", seconds: 0.0001 };

/** @param {Form | undefined} items @returns {Json[]} */
function list(items) {
  if (items?.kind === "object") return [PRODUCT];
  return items?.kind === "integer" ? [1, 1] : ["q_proj", "v_proj"];
}

/**
 * The job that has something in every field: of the values of each, the one of this round.
 * @param {number} round
 * @param {(most: number) => void} told how many rounds a field needs
 * @returns {Job}
 */
function full(round, told) {
  let job = /** @type {any} */ ({});
  const fill = (/** @type {string} */ pointer) => {
    const field = SCHEMA.field(pointer, job);
    assert.ok(field, pointer);
    const values = field.forms.flatMap((form) => samples(form, pointer));
    told(values.length);
    if (pointer) {
      assert.ok(values.length, `${pointer} has no form that can be edited`);
      job = SCHEMA.edited(job, pointer, values[round % values.length]);
    }
    for (const inner of SCHEMA.inside(pointer, job)) {
      if (MODELS.includes(inner) && MODELS.indexOf(inner) !== round % MODELS.length) continue;
      if (inner === "/model/revision" && round % MODELS.length) continue;
      fill(inner);
    }
  };
  fill("");
  return job;
}

/** @returns {Job[]} */
function jobs() {
  let rounds = MODELS.length;
  const found = [];
  for (let round = 0; round < rounds; round += 1)
    found.push(full(round, (most) => (rounds = Math.max(rounds, most))));
  return found;
}

/** What the form shows, by the pointers of its fields.
 * @param {import("playwright-core").Page} page
 */
function shown(page) {
  return page.evaluate(() => {
    /** @type {Record<string, string[]>} */
    const found = {};
    for (const field of document.querySelectorAll(".field[data-pointer]")) {
      const controls = [...field.querySelectorAll("select, input[id], textarea, summary")];
      found[/** @type {HTMLElement} */ (field).dataset.pointer ?? ""] = controls.map((each) =>
        each instanceof HTMLElement && "value" in each
          ? String(each.value)
          : (each.textContent ?? "").trim(),
      );
    }
    return found;
  });
}

/** Opens a link, and every field of the form.
 * @param {import("playwright-core").Page} page
 * @param {string} address
 */
async function at(page, address) {
  await page.evaluate((hash) => (location.hash = hash), address);
  const way = ["Sizes", "config.json", "Search"][
    ["model.spec", "model.hf_config", "model.hf_id"].findIndex((each) => address.includes(each))
  ];
  await page.getByRole("button", { name: way, pressed: true, exact: true }).waitFor();
  await page.evaluate(() => {
    for (const each of document.querySelectorAll("form details.others"))
      /** @type {HTMLDetailsElement} */ (each).open = true;
  });
  await page.waitForFunction(() => !document.querySelector("details.others:not(:has(.field))"));
  await page.waitForTimeout(150);
}

/** What a control shows of a value. @param {string} pointer @param {Json} value */
function written(pointer, value) {
  if (Array.isArray(value))
    return value.some(isObject) ? JSON.stringify(value) : value.join(", ");
  return String(pointer.endsWith("_bytes") ? Number(value) / 2 ** 30 : value);
}

/** The service is not asked. @param {import("playwright-core").Page} page */
async function alone(page) {
  const problem = { title: "No", detail: "no", status: 422, type: "", instance: "", errors: [] };
  await page.route(/\/v1\/(fit-check|estimate|compare)$/, (route) =>
    route.fulfill({ status: 422, contentType: "application/problem+json", json: problem }),
  );
}

const JOBS = jobs();

scenario("every field of a job shows each of its values", async (page) => {
  await alone(page);
  await open(page);
  const seen = new Set();
  for (const job of JOBS) {
    const address = toAddress({ ...INITIAL, job });
    assert.deepEqual(fromAddress(address, INITIAL).job, job);
    await at(page, address);
    const fields = await shown(page);
    const { model, gpu, ...others } = job;
    const plain = leaves(others).filter(([pointer]) => !pointer.endsWith("/framework/name"));
    const custom = typeof gpu === "object" && gpu ? leaves(gpu, "/gpu") : [];
    const spec = model.spec ? leaves(model.spec, "/model/spec") : [];
    for (const [pointer, value] of [...plain, ...custom, ...spec]) {
      const tag = /^(.*)\/(method|name)$/.exec(pointer);
      const control = fields[pointer] ?? (tag && fields[tag[1] ?? ""]);
      assert.ok(control, `${pointer} has no control`);
      const wanted = isObject(value) ? FIELDS : written(pointer, value);
      assert.ok(control.includes(wanted), `${pointer}: ${control} in place of ${wanted}`);
      seen.add(pointer);
    }
    if (model.hf_config) {
      const text = await page.getByLabel("Contents of config.json").inputValue();
      assert.deepEqual(JSON.parse(text), model.hf_config);
    } else if (model.hf_id) {
      assert.equal(await page.locator("#model-search").inputValue(), model.hf_id);
      assert.ok(fields["/model/revision"]?.includes(String(model.revision)));
    }
    const text = await page.evaluate(() => document.body.textContent);
    assert.doesNotMatch(text ?? "", /\[object /);
  }
  assert.ok(seen.size > 130, `only ${seen.size} fields were seen`);
});

/** @param {unknown} value */
function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

scenario("every field of a job is set by its control", async (page) => {
  await alone(page);
  await open(page);
  const done = new Set();
  for (const job of JOBS) {
    await at(page, "model.spec={}");
    let wanted = /** @type {Job} */ ({ model: { spec: {} } });
    const { model, gpu, ...others } = job;
    const values = leaves({ ...others, model: model.spec ? { spec: model.spec } : {} })
      .filter(([pointer, value]) => isTag(pointer, job) || isNew(done, pointer, value))
      .filter(([pointer]) => pointer !== "/model");
    for (const [pointer, value] of values) wanted = put(wanted, pointer, value);
    const steps = values.flatMap(([pointer, value]) => stepsTo(pointer, value, job));
    assert.deepEqual(await page.evaluate(setAll, steps), []);
    const address = await page.evaluate(() => location.hash);
    assert.deepEqual(linesOf(fromAddress(address, INITIAL).job), linesOf(wanted));
  }
  assert.ok(done.size > 250, `only ${done.size} values were set`);
});

/** Whether a field says which of several objects it stands in.
 * @param {string} pointer
 * @param {Job} job
 */
function isTag(pointer, job) {
  const forms = SCHEMA.field(pointer.replace(/\/[^/]+$/, ""), job)?.forms ?? [];
  return forms.some((form) => form.tag && pointer.endsWith(`/${form.tag.field}`));
}

/** @param {Set<string>} done @param {string} pointer @param {Json} value */
function isNew(done, pointer, value) {
  const key = `${pointer}=${JSON.stringify(value)}`;
  return !done.has(key) && Boolean(done.add(key));
}

/**
 * What is chosen and written to set a value: in a field of several forms, its form before it.
 * @param {string} pointer
 * @param {Json} value
 * @param {Job} job
 * @returns {[string, string, string | string[]][]} field, kind of control, what it is given
 */
function stepsTo(pointer, value, job) {
  if (pointer === "/model/spec") return [];
  const whole = pointer.replace(/\/[^/]+$/, "");
  const forms = SCHEMA.field(whole, job)?.forms ?? [];
  /** @type {[string, string, string][]} */
  const before =
    forms.length > 1 ? [[whole, "select", formName(found(job, whole) ?? {}, forms)]] : [];
  if (isTag(pointer, job)) return before;
  if (isObject(value)) return [[pointer, "select", FIELDS]];
  const own = SCHEMA.field(pointer, job)?.forms ?? [];
  if (own[0]?.items?.values.length)
    return [...before, [pointer, "checkbox", /** @type {string[]} */ (value)]];
  const counted = own.some((form) => form.values.includes(value));
  if (counted) return [...before, [pointer, "select", String(value)]];
  const form = formName(value, own);
  if (own.length > 1) before.push([pointer, "select", form]);
  const kind = own[0]?.items?.kind === "object" ? "textarea" : "input";
  return [...before, [pointer, kind, written(pointer, value)]];
}

const FIELDS = "field by field";

/** @param {Json} value @param {Form[]} forms */
function formName(value, forms) {
  const form = formOf({ forms, optional: true, description: "", only: {} }, value);
  return String(form?.tag?.value ?? form?.name);
}

/**
 * Runs in the page. A control is given what a hand would give it.
 * @param {[string, string, string | string[]][]} steps
 * @returns {Promise<string[]>} fields that have no such control
 */
async function setAll(steps) {
  const drawn = () => new Promise((resolve) => setTimeout(resolve, 12));
  const lacking = [];
  const told = (/** @type {Element} */ control, /** @type {string} */ event) =>
    control.dispatchEvent(new Event(event, { bubbles: true }));
  for (const [pointer, kind, value] of steps) {
    const field = document.querySelector(`.field[data-pointer="${pointer}"]`);
    if (kind === "checkbox") {
      for (const box of field?.querySelectorAll("input") ?? []) {
        const wanted = value.includes(box.parentElement?.textContent?.trim() ?? "");
        if (box.checked !== wanted) box.click();
        await drawn();
      }
      continue;
    }
    const control = /** @type {HTMLInputElement | null} */ (field?.querySelector(kind) ?? null);
    if (!control) {
      lacking.push(pointer);
      continue;
    }
    control.value = String(value);
    told(control, kind === "select" ? "change" : "input");
    await drawn();
    told(control, "focusout");
  }
  return lacking;
}

/** A job as lines that can be compared. @param {Job} job */
function linesOf(job) {
  return leaves(job)
    .map(([pointer, value]) => `${pointer} ${JSON.stringify(value)}`)
    .sort();
}
