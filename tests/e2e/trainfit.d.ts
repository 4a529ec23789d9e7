/** Names that the page has for types of openapi.json. */

import type { components, operations } from "./build/schema.js";

type Schemas = components["schemas"];
type Operation = keyof operations;
type Body<Name extends Operation> = operations[Name] extends {
  requestBody: { content: { "application/json": infer Asked } };
}
  ? Asked
  : undefined;
type Answer<Name extends Operation> = operations[Name] extends {
  responses: { 200: { content: { "application/json": infer Given } } };
}
  ? Given
  : never;

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Job = Schemas["Job"];
export type Problem = Schemas["Problem"];
export type Finding = Schemas["Finding"];
/** An operation of RFC 6902, of which one that removes needs no value; a change of an answer is one. */
export type Change = Pick<Schemas["Change"], "op" | "path"> & Partial<Schemas["Change"]>;
export type Estimate = Schemas["EstimateAnswer"] | (Schemas["Estimate"] & { job?: undefined });
export type FitCheck = Schemas["FitCheckAnswer"];
export type Stage = Schemas["Stage"];
export type Component = Schemas["Component"];
export type ComponentName = Component["name"];
export type PricedModel = Schemas["PricedModel"];
export type Verdict = FitCheck["verdict"];
export type Suggestion = Schemas["Suggestion"];
export type BundledModel = Schemas["BundledModel"];
export type Gpu = Schemas["Gpu"];

/** Every field stands in an answer, those with a default as well. */
export type Module = Required<Omit<Schemas["Module"], "children">> & { children: Module[] };
export type RankLedger = Omit<Schemas["RankLedger"], "modules"> & { modules: Module };
export type KeptTensor = Schemas["KeptTensor"];
export type JobFromLaunch = Schemas["JobFromLaunch"];
export type WrittenLaunch = Required<Schemas["WrittenLaunch"]>;
export type ComparedJob = Schemas["ComparedJob"];
export type Comparison = Schemas["Comparison"];
export type Reconciled = Schemas["ReconcileAnswer"];
export type RankTrace = Schemas["RankTrace"];
export type TracedMoment = Schemas["TracedMoment"];
export type StepParts = Schemas["StepParts"];
export type SearchRequest = Schemas["SearchQuestion"];
export type Found = Schemas["SearchAnswer"];
export type FoundLayout = Schemas["FoundLayout"];
/** How far a search is: portions that are done, layouts looked at, those that may be answered. */
export type Progress = { done: number; portions: number; layouts: number; found: number };
export type DraftedJob = Schemas["DraftedJob"];
export type Run = Schemas["Run"];
export type Speed = Schemas["Speed"];
export type Calibration = Schemas["Calibration"];
export type Course = Schemas["Timeline"];
export type Pass = Schemas["Pass"];

export interface Questions {
  "openapi.json": undefined;
  "page/share/flags.json": undefined;
  "page/ask/presets.json": undefined;
  "page/ask/popular.json": undefined;
  "v1/models": undefined;
  "v1/gpus": undefined;
  "v1/models:resolve": Body<"resolveModel">;
  "v1/estimate": Body<"estimate">;
  "v1/estimate?replay=false": Body<"estimate">;
  "v1/fit-check": Body<"fitCheck">;
  "v1/compare": Body<"compare">;
  "v1/jobs:from-launch": Body<"jobFromLaunch">;
  "v1/jobs:to-launch": Body<"jobToLaunch">;
  "v1/jobs:draft": Schemas["Launch"];
  "v1/ledger": Body<"ledger">;
  "v1/trace": Body<"trace">;
  "v1/reconcile": Body<"reconcile">;
  "v1/search": Body<"search">;
  "v1/measurements:from-logs": Body<"measurementsFromLogs">;
  "v1/calibrations:fit": Body<"fitCalibration">;
}
export interface Answers {
  "openapi.json": Record<string, any>;
  "page/share/flags.json": Record<string, string>;
  "page/ask/popular.json": Record<string, number>;
  "page/ask/presets.json": { name: string; source: string; job: Job }[];
  "v1/models": Answer<"listModels">;
  "v1/gpus": Answer<"listGpus">;
  "v1/models:resolve": Answer<"resolveModel">;
  "v1/estimate": Answer<"estimate">;
  "v1/estimate?replay=false": Answer<"estimate">;
  "v1/fit-check": Answer<"fitCheck">;
  "v1/compare": Answer<"compare">;
  "v1/jobs:from-launch": JobFromLaunch;
  "v1/jobs:to-launch": WrittenLaunch;
  "v1/jobs:draft": DraftedJob;
  "v1/ledger": RankLedger;
  "v1/trace": RankTrace;
  "v1/reconcile": Reconciled;
  "v1/search": Found;
  "v1/measurements:from-logs": Answer<"measurementsFromLogs">;
  "v1/calibrations:fit": Answer<"fitCalibration">;
}
