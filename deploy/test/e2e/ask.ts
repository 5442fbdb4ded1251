import assert from "node:assert/strict";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { answerProblems, requestProblems } from "./openapi.ts";

/** An answer of the relay, read to its end. */
export type Reply = {
  status: number;
  headers: Headers;
  text: string;
  /** The request id, which is the id of the call. */
  rid: string;
  /** The text as JSON; throws when it is none. */
  json: () => Json;
};

export type Json = { [name: string]: unknown };

/** A request format of the relay as a plain HTTP caller speaks it. */
export type Side = {
  format: "A" | "B";
  path: string;
  /** Headers of a right call with this key. */
  headers: (secret: string) => Record<string, string>;
  /** Fields of a right body beside the model and the messages. */
  fields: Json;
};

export const chat: Side = {
  format: "A",
  path: "/v1/chat/completions",
  headers: (secret) => ({ authorization: `Bearer ${secret}`, "content-type": "application/json" }),
  fields: {},
};

export const messages: Side = {
  format: "B",
  path: "/v1/messages",
  headers: (secret) => ({
    "x-api-key": secret,
    "provider-version": "2023-06-01",
    "content-type": "application/json",
  }),
  fields: { max_tokens: 1_000 },
};

export const sides: Side[] = [chat, messages];

export type RequestOptions = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
  signal?: AbortSignal;
};

/**
 * Asks over plain HTTP and reads the answer to its end. Every answer must be as the public API's document describes it
 * and carry its request id under both names (API spec, Request ID).
 */
export async function ask(
  url: string,
  { method = "POST", headers = {}, body, signal }: RequestOptions,
): Promise<Reply> {
  const response = await fetch(url, { method, headers, body: body ?? null, signal: signal ?? null });
  const text = await response.text();
  const { status, headers: answered } = response;
  const path = new URL(url).pathname;
  const problems = answerProblems({ method, path, status, headers: answered, text });
  if (status === 200 && typeof body === "string") problems.push(...requestProblems(method, path, body));
  assert.deepEqual(problems, [], `${method} ${url}: ${status} ${text.slice(0, 500)}`);
  return {
    status,
    headers: answered,
    text,
    rid: ridOf(response),
    json: () => JSON.parse(text),
  };
}

/** The request id of an answer; throws an AssertionError when its two names do not carry the same. */
export function ridOf({ headers }: { headers: Headers }): string {
  const rid = headers.get("x-request-id");
  assert.match(rid ?? "", /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(headers.get("request-id"), rid);
  return rid as string;
}

export type Call = {
  side: Side;
  model?: string;
  isStream?: boolean;
  /** What the upstream shall do. */
  behaviour?: Behaviour;
  prompt?: string;
  /** More fields of the body. */
  more?: Json;
};

/** The body of a right call whose only message tells the fake upstream how to behave. */
export function bodyOf({ side, model = "test-model", isStream, behaviour = {}, prompt, more }: Call): string {
  const content = behaviourText(behaviour, prompt ?? "Say something.");
  const stream = isStream === undefined ? {} : { stream: isStream };
  return JSON.stringify({ model, ...side.fields, ...stream, messages: [{ role: "user", content }], ...more });
}

/** Makes a right call. */
export function makeCall(relayUrl: string, secret: string, call: Call): Promise<Reply> {
  const { side } = call;
  return ask(`${relayUrl}${side.path}`, { headers: side.headers(secret), body: bodyOf(call) });
}

type ErrorDetails = { message: string; type: string; param: string | undefined; code: string | undefined };

/** The error of an answer, checked to have exactly the shape of its format (API spec, Errors). */
export function errorOf({ format }: Side, reply: Reply): ErrorDetails {
  assert.equal(reply.headers.get("content-type"), "application/json");
  const body = reply.json() as {
    type?: string;
    error: { message: string; type: string; param?: string; code?: string };
  };
  const { message, type, param, code } = body.error;
  if (format === "A") assert.deepEqual(body, { error: { message, type, param, code } });
  else assert.deepEqual(body, { type: "error", error: { type, message } });
  for (const text of format === "A" ? [message, type, param, code] : [message, type])
    assert.equal(typeof text, "string");
  return { message, type, param, code };
}

/** The data of every event of a stream, in order. */
export function eventsOf(text: string): string[] {
  return text
    .split(/\r?\n\r?\n/)
    .flatMap((event) => event.split(/\r?\n/).filter((line) => line.startsWith("data:")))
    .map((line) => line.slice("data:".length).trim());
}

/** The events of a stream that are JSON. */
export function jsonEventsOf(text: string): Json[] {
  return eventsOf(text)
    .filter((data) => data !== "[DONE]")
    .map((data) => JSON.parse(data) as Json);
}
