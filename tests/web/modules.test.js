/** Modules of the page that need no browser. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { resized } from "../../service/trainfit/web/static/ask/resized.js";
import { fromAddress, toAddress } from "../../service/trainfit/web/static/job/address.js";
import { differences, layoutOf } from "../../service/trainfit/web/static/job/difference.js";
import { held } from "../../service/trainfit/web/static/decide/reconciled.js";
import { sought, USUAL } from "../../service/trainfit/web/static/find/sought.js";
import { at, leaves, patched, put } from "../../service/trainfit/web/static/job/pointer.js";
import { inWords } from "../../service/trainfit/web/static/job/said.js";
import { JobSchema } from "../../service/trainfit/web/static/job/schema.js";
import { evaluated, named, shapeOf } from "../../service/trainfit/web/static/see/formula.js";
import { commandLine, curl } from "../../service/trainfit/web/static/share/command.js";
import { INITIAL } from "../../service/trainfit/web/static/state.js";

const STATIC = new URL("../../service/trainfit/web/static/", import.meta.url);
/** @type {{name: string, job: import("trainfit").Job}[]} */
const PRESETS = JSON.parse(await readFile(new URL("ask/presets.json", STATIC), "utf8"));
/** @type {Record<string, string>} */
const FLAGS = JSON.parse(await readFile(new URL("share/flags.json", STATIC), "utf8"));

test("the default of a field is known, of several kinds or of one", async () => {
  const document = new URL("../../openapi/openapi.json", import.meta.url);
  const schema = new JobSchema(JSON.parse(await readFile(document, "utf8")));
  assert.equal(schema.field("/training/precision", "megatron")?.default, "bf16");
  assert.equal(schema.field("/training/seq_length", "megatron")?.default, 4096);
  assert.equal(schema.field("/training/global_batch_size", "megatron")?.default, undefined);
});

test("lists of a config.json go on as they were given, however layers are changed", () => {
  const layer_types = ["window", "window", "all", "window", "window", "all", "window"];
  const text_config = { num_hidden_layers: 7, layer_types, eos_token_id: [1, 2] };
  const given = { text_config, sizes: [0, 1, 2, 3, 4, 5, 6] };
  const pointer = "/text_config/num_hidden_layers";
  const less = resized(given, given, pointer, 2);
  assert.deepEqual(at(less, "/text_config/layer_types"), layer_types.slice(0, 2));
  const more = resized(less, given, pointer, 9);
  assert.deepEqual(at(more, "/text_config/layer_types"), [...layer_types, "window", "all"]);
  assert.deepEqual(at(more, "/text_config/eos_token_id"), [1, 2]);
  assert.deepEqual(at(more, "/sizes"), given.sizes);
  assert.deepEqual(resized(given, given, "/text_config/vocab_size", 7).text_config, {
    ...text_config,
    vocab_size: 7,
  });
});

test("an address holds the whole state", () => {
  for (const { name, job } of PRESETS) {
    const pins = [
      { name: `${name}, 100% & more?`, job },
      { name: "", job: INITIAL.job },
    ];
    /** @type {import("../../service/trainfit/web/static/state.js").State} */
    const state = {
      job,
      headroom: 0.05,
      stage: 3,
      pins,
      map: { across: "/parallelism/tp", down: "/parallelism/pp", by: "time" },
    };
    assert.deepEqual(fromAddress(`#${toAddress(state)}`, INITIAL), state);
  }
});

test("a pinned layout is escaped once, and a link that escaped it twice still holds it", () => {
  const job = { model: { hf_id: "org/name" }, parallelism: { tp: 4 }, gpu: "A100 & B" };
  const pins = [{ name: "TP 4, 100%?", job }];
  const address = toAddress({ ...INITIAL, job: { model: { hf_id: "gpt2" } }, pins });
  assert.equal(
    address,
    "model.hf_id=gpt2&pin=TP+4,+100%25%3F&pin.model.hf_id=org/name&pin.parallelism.tp=4" +
      "&pin.gpu=A100+%26+B",
  );
  const fields = "model.hf_id=org%2Fname&parallelism.tp=4&gpu=A100+%26+B";
  const pin = `${encodeURIComponent("TP 4, 100%?")}?${fields}`;
  const twice = new URLSearchParams({ "model.hf_id": "gpt2", pin });
  assert.deepEqual(fromAddress(`#${twice}`, INITIAL).pins, pins);
  assert.deepEqual(fromAddress(`#${address}`, INITIAL).pins, pins);
});

test("strings that look like something else, lists and whole configs survive an address", () => {
  const model = {
    hf_config: {
      model_type: "llama",
      "a.b": "1",
      nested: { list: [1, "2", null, true], empty: {} },
    },
  };
  const job = { model, training: { frozen: ["1", "x&y=z"] }, gpu: "80" };
  assert.deepEqual(fromAddress(toAddress({ ...INITIAL, job }), INITIAL).job, job);
});

test("whatever an address says, there is a state", () => {
  for (const address of [
    "",
    "#",
    "#x",
    "#model=1",
    "#%",
    "#gpu=H100",
    "#model.hf_id=gpt2&headroom=7&stage=-1&map=x&pin=?",
    "#model.hf_id=gpt2&pin=%E0%A4%A",
    "#model.hf_id=gpt2&pin.model.hf_id=gpt2&pin=a&pin.gpu=H100",
  ]) {
    const state = fromAddress(address, INITIAL);
    assert.ok(state.job);
    assert.ok(state.headroom >= 0 && state.headroom < 1);
  }
  assert.equal(fromAddress("#model.hf_id=gpt2&gpu=", INITIAL).job.gpu, undefined);
});

test("a field is put, found and taken away, and the job it is put into stays what it was", () => {
  const job = Object.freeze({ model: { hf_id: "gpt2" } });
  const put_ = put(job, "/training/recompute/granularity", "full");
  assert.deepEqual(put_, {
    model: { hf_id: "gpt2" },
    training: { recompute: { granularity: "full" } },
  });
  assert.equal(at(put_, "/training/recompute/granularity"), "full");
  assert.equal(at(put_, "/training/recompute/granularity/x"), undefined);
  assert.deepEqual(put(put_, "/training/recompute/granularity", undefined), job);
  assert.deepEqual(leaves({ "a/b": { "~": 1 } }), [["/a~1b/~0", 1]]);
  assert.deepEqual(put({}, "/a~1b/~0", 1), { "a/b": { "~": 1 } });
});

test("a patch adds, replaces and removes", () => {
  const job = { parallelism: { tp: 2, pp: 4 } };
  const patch = /** @type {const} */ ([
    { op: "replace", path: "/parallelism/tp", value: 8 },
    { op: "remove", path: "/parallelism/pp" },
    { op: "add", path: "/training", value: { micro_batch_size: 2 } },
  ]);
  assert.deepEqual(patched(job, patch), {
    parallelism: { tp: 8 },
    training: { micro_batch_size: 2 },
  });
});

test("what changed is said in a few words", () => {
  const before = {
    model: { hf_id: "gpt2" },
    parallelism: { tp: 2 },
    framework: /** @type {const} */ ({ name: "megatron", deterministic_mode: true }),
  };
  const after = {
    model: { hf_id: "gpt2" },
    parallelism: { tp: 4 },
    training: { recompute: { granularity: /** @type {const} */ ("full") } },
  };
  assert.deepEqual(differences(after, before), [
    "tp 4",
    "recompute every layer",
    "framework unset",
    "deterministic mode unset",
  ]);
  assert.equal(layoutOf({ model: {}, parallelism: { tp: 4, pp: 1, ep: 8 } }), "tp 4 · ep 8");
});

test("changes are said in words", () => {
  const patch = (/** @type {[string, any][]} */ ...fields) =>
    inWords(fields.map(([path, value]) => ({ op: "add", path, value })));
  assert.equal(
    patch(["/training/recompute", { granularity: "full", method: "uniform", num_layers: 1 }]),
    "recompute every layer",
  );
  assert.equal(
    patch(["/training/recompute", { granularity: "selective", modules: ["moe", "mlp"] }]),
    "recompute moe, mlp",
  );
  assert.equal(
    patch(["/training/recompute", { granularity: "full", every_nth_layer: 2 }]),
    "recompute one layer in 2",
  );
  assert.equal(
    patch(
      ["/parallelism/num_gpus", 64],
      ["/training/optimizer", { precision_aware: true, cpu_offload_fraction: 1 }],
    ),
    "64 GPUs, precision-aware optimizer, the optimizer on the host",
  );
  assert.equal(
    patch(["/parallelism/pipeline_model_parallel_layout", "Et*3|t*4|tt*2t|t*2mL"]),
    "layers split 3 + 4 + 4 + 2",
  );
  assert.equal(
    inWords([{ op: "remove", path: "/training/recompute" }]),
    "without recompute",
  );
});

test("a search keeps the task, and leaves open what it is to choose", () => {
  const job = /** @type {import("trainfit").Job} */ ({
    model: { hf_id: "gpt2" },
    parallelism: { num_gpus: 8, tp: 2, order: "tp-cp-ep-dp-pp" },
    training: {
      micro_batch_size: 2,
      global_batch_size: 64,
      recompute: { granularity: "full" },
      optimizer: { name: "adam", precision_aware: true, cpu_offload_fraction: 1 },
    },
    gpu: "H100-80GB",
  });
  assert.deepEqual(sought(job, 0.05, USUAL), {
    model: { hf_id: "gpt2" },
    parallelism: { num_gpus: 8, order: "tp-cp-ep-dp-pp" },
    training: { global_batch_size: 64, optimizer: { name: "adam" } },
    gpu: "H100-80GB",
    objective: "fastest",
    accept: "fits",
    policy: { headroom_ratio: 0.05 },
    best: 20,
  });
  const limits = { max_gpus: 64, price_per_gpu_hour: 2 };
  const fewest = sought(job, 0, { ...USUAL, objective: "fewest_gpus", open: [], limits });
  assert.equal(fewest.parallelism?.num_gpus, undefined);
  assert.equal(fewest.parallelism?.tp, 2);
  assert.equal(fewest.max_gpus, 64);
  assert.equal(fewest.price_per_gpu_hour, undefined);
  const cards = sought(job, 0, { ...USUAL, cards: ["H100-80GB", "H200"], tight: true });
  assert.deepEqual(cards.gpus, ["H100-80GB", "H200"]);
  assert.deepEqual([cards.gpu, cards.accept], [undefined, "tight"]);
  const taken = put(job, "/parallelism/pp", 4);
  assert.deepEqual(sought(taken, 0, USUAL), sought(job, 0, USUAL));
});

test("shapes are worked out in the symbols of the legend", () => {
  const symbols = { n: 8192, "n'": 4096, h: 4096, a: 32, g: 8, d: 128, t: 2, f_e: 2048, T_r: 10 };
  assert.equal(shapeOf("packed qkv [n, (a + 2g) d / t]"), "n, (a + 2g) d / t");
  assert.deepEqual(evaluated("n, (a + 2g) d / t", symbols), {
    dimensions: [8192, 3072],
    elements: 8192 * 3072,
  });
  assert.equal(evaluated("n', h", symbols)?.elements, 4096 * 4096);
  assert.equal(evaluated("T_r, 2f_e / t", symbols)?.elements, 10 * 2048);
  assert.equal(evaluated("n, unknown", symbols), null);
  assert.equal(evaluated("n, (a", symbols), null);
  assert.deepEqual(named("n, (a + 2g) d / t", symbols), ["n", "a", "g", "d", "t"]);
});

test("commands are written as a shell reads them", () => {
  const job = {
    model: { hf_id: "gpt2" },
    parallelism: { tp: 2, use_distributed_optimizer: false },
    training: { recompute: { modules: /** @type {"mlp"[]} */ (["mlp"]) } },
    gpu: "RTX 4090",
  };
  assert.equal(
    commandLine(job, FLAGS),
    "trainfit estimate gpt2 --tp 2 --no-use-distributed-optimizer " +
      "--recompute-modules mlp --gpu 'RTX 4090'",
  );
  const pasted = { model: { hf_config: { model_type: "it's" } } };
  assert.match(commandLine(pasted, FLAGS), /^trainfit estimate --job \/dev\/stdin <<'JSON'\n/);
  assert.match(curl(pasted, 0, "http://x/"), /^curl --silent http:\/\/x\/v1\/estimate .*'\\''/s);
  assert.match(curl(job, 0.1, "http://x/"), /v1\/fit-check .*"headroom_ratio": 0.1/s);
});

test("what held the memory is told of the stage whose rank has said something", () => {
  const stage = (/** @type {number} */ gib) => ({
    components: [
      { name: "weights", bytes: 2 ** 30 },
      { name: "activations", bytes: gib * 2 ** 30 },
    ],
  });
  const estimate = { binding: { pp_rank: 0 }, stages: [stage(3), stage(5)] };
  const told = (/** @type {unknown} */ found) =>
    held(/** @type {import("trainfit").Reconciled} */ (found));
  assert.equal(
    told({ estimate, comparisons: [{ pp_rank: null }, { pp_rank: 1 }] }),
    "What holds the memory of stage 1: activations 5.0\u00a0GiB, weights 1.0\u00a0GiB.",
  );
  assert.match(told({ estimate, comparisons: [{ pp_rank: null }] }), /stage 0: activations 3/);
});
