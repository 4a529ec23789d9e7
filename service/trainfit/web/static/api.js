/** Asks the service. Addresses are relative, so that the page works behind a prefix as well. */

import { waited } from "./limit.js";

/** @typedef {import("trainfit").Problem} Problem */

/** What the service answers in place of an answer: application/problem+json. */
export class Refused extends Error {
  /** @param {Problem} problem */
  constructor(problem) {
    super(problem.detail);
    this.problem = problem;
  }
}

/** Keys that the service or the Hub asks for; they live as long as the page does. */
export const secrets = { apiKey: "", hubToken: "" };

/** More of the caller's requests than the service takes. */
const TOO_MANY = 429;

/**
 * Asks, and where the service limits how often it is asked, asks again when it may.
 * @template {keyof import("trainfit").Answers} Path
 * @param {Path} path
 * @param {import("trainfit").Questions[Path]} [question] none: GET
 * @param {AbortSignal} [signal]
 * @returns {Promise<import("trainfit").Answers[Path]>}
 * @throws {Refused} with the problem; an AbortError where the signal ended it
 */
export async function ask(path, question, signal) {
  return (await answered(path, question, signal)).json();
}

/**
 * The same where a file is answered.
 * @param {string} path
 * @param {object} question
 * @returns {Promise<Blob>}
 * @throws {Refused} with the problem
 */
export async function askFile(path, question) {
  return (await answered(path, question)).blob();
}

/**
 * The same where the service tells on the way how far it is, in server-sent events.
 * @template {"v1/search"} Path
 * @param {Path} path
 * @param {import("trainfit").Questions[Path]} question
 * @param {AbortSignal} signal
 * @param {(progress: import("trainfit").Progress) => void} told
 * @returns {Promise<import("trainfit").Answers[Path]>}
 * @throws {Refused} with the problem; an AbortError where the signal ended it
 */
export async function askTold(path, question, signal, told) {
  const response = await answered(path, question, signal, "text/event-stream");
  for await (const { event, data } of events(response)) {
    if (event === "answer") return data;
    if (event === "problem") throw new Refused(data);
    told(data);
  }
  throw new Refused({ ...unexpected(response), detail: "the service ended without an answer" });
}

/** Each event has a name and a line of JSON. @param {Response} response */
async function* events({ body }) {
  const reader = /** @type {ReadableStream<BufferSource>} */ (body)
    .pipeThrough(new TextDecoderStream())
    .getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const [event, data] = part.split("\ndata: ");
      yield { event: event?.replace("event: ", ""), data: JSON.parse(data ?? "null") };
    }
  }
}

/**
 * @param {string} path
 * @param {unknown} question
 * @param {AbortSignal} [signal]
 * @param {string} [accept] the kind of answer, where there are several
 * @returns {Promise<Response>}
 */
async function answered(path, question, signal, accept) {
  const headers = new Headers(question === undefined ? {} : { "content-type": "application/json" });
  if (accept) headers.set("accept", accept);
  if (secrets.apiKey) headers.set("authorization", `Bearer ${secrets.apiKey}`);
  if (secrets.hubToken) headers.set("x-hf-token", secrets.hubToken);
  const method = question === undefined ? "GET" : "POST";
  const body = question === undefined ? undefined : JSON.stringify(question);
  let response = await fetch(path, { method, headers, body, signal });
  while (response.status === TOO_MANY) {
    await waited(response, signal);
    response = await fetch(path, { method, headers, body, signal });
  }
  if (response.ok) return response;
  throw new Refused(await problemIn(response));
}

/** What a refusal says; one of something between here and the service says less.
 * @param {Response} response
 * @returns {Promise<Problem>}
 */
async function problemIn(response) {
  const type = response.headers.get("content-type") ?? "";
  const said = type.includes("json") ? await response.json() : null;
  return { ...unexpected(response), ...(Array.isArray(said?.errors) ? said : {}) };
}

/** @param {Response} response @returns {Problem} */
function unexpected(response) {
  const detail = `the service answered with status ${response.status}`;
  return {
    type: "",
    title: "No answer",
    status: response.status,
    detail,
    instance: "",
    errors: [],
  };
}

/** The problem behind whatever was thrown, null where a request was aborted.
 * @param {unknown} error
 * @returns {Problem | null}
 */
export function problemOf(error) {
  if (error instanceof Refused) return error.problem;
  if (error instanceof DOMException && error.name === "AbortError") return null;
  const detail = "the service cannot be reached";
  return { type: "", title: "No answer", status: 0, detail, instance: "", errors: [] };
}
