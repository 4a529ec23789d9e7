// Asks a live service what the README asks, through a client typed by openapi.json.
// Usage: node build/ask.js URL JOB.json COMPARISON.json

import { readFileSync } from "node:fs";
import { argv } from "node:process";
import createClient from "openapi-fetch";
import type { components, paths } from "./build/schema.js";

type Job = components["schemas"]["Job"];
type CompareQuestion = components["schemas"]["CompareQuestion"];

const [url = "", jobFile = "", comparisonFile = ""] = argv.slice(2);
const job: Job = JSON.parse(readFileSync(jobFile, "utf8"));
const comparison: CompareQuestion = JSON.parse(readFileSync(comparisonFile, "utf8"));
// Of an operation that may answer in plain text, the answers in JSON.
const client = createClient<paths, `application/${string}`>({ baseUrl: url });

const estimate = await client.POST("/v1/estimate", { body: job });
if (estimate.error !== undefined) throw new Error(estimate.error.detail);
const again = await client.POST("/v1/estimate", { body: estimate.data.job });
const leaner = await client.POST("/v1/estimate", {
  body: job,
  params: { query: { activations: false } },
});

const line = await client.POST("/v1/estimate", {
  body: job,
  params: { query: { summary: "gb" } },
  headers: { Accept: "application/json" },
});

const { gpu } = job;
if (gpu == null) throw new Error("the job names no card");
const verdict = await client.POST("/v1/fit-check", {
  body: { ...job, gpu, policy: { headroom_ratio: 0.05 } },
});
const compared = await client.POST("/v1/compare", { body: comparison });
const batch = await client.POST("/v1/estimate:batch", { body: { jobs: [{ id: "v3", job }] } });
const refused = await client.POST("/v1/estimate", { body: { ...job, gpu: "H1000" } });
const cards = await client.GET("/v1/gpus");

console.log(
  JSON.stringify({
    stages: estimate.data.stages.map((stage) => stage.device_bytes.expected),
    total: estimate.data.model.parameters.total,
    sameDigest: again.data?.request_digest === estimate.data.request_digest,
    sameLine: line.data?.summary.gb === estimate.data.summary.gb,
    leaner: leaner.data?.binding.device_bytes.expected,
    verdict: verdict.data?.verdict,
    compared: compared.data?.jobs.map((each) => [each.id, each.comparison?.difference_bytes]),
    batch: batch.data?.jobs.map((each) => each.estimate?.binding.pp_rank),
    refused: refused.error?.errors.map((each) => each.pointer),
    cards: cards.data?.gpus.length,
  }),
);
