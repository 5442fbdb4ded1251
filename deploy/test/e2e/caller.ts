import { type Agent, type IncomingMessage, request } from "node:http";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { answerProblems } from "./openapi.ts";
import { callBySocket } from "./socket-call.ts";

/** One call of a caller, and how the fake upstream is asked to serve it. */
export type CallPlan = {
  number: number;
  accountId: string;
  secret: string;
  dialect: "chat" | "messages";
  isStream: boolean;
  /** Whether it is a turn on a WebSocket instead of a request of its dialect. */
  isBySocket?: boolean;
  model: string;
  maxTokens: number;
  behaviour: Behaviour;
  /** Whether it must be answered whole whenever the system can: nothing is wrong with it and nobody hangs up. */
  isSound: boolean;
  /** The caller hangs up when it has received this many words. */
  hangUpAfterWords?: number;
};

/**
 * What the caller got: `whole`, an answer with its own end; `cut`, the head of an answer and less than all of it;
 * `error`, a refusal; `none`, not even a head.
 */
export type Outcome = "whole" | "cut" | "error" | "none";

/** What a caller knows of its call. */
export type CallLog = {
  plan: CallPlan;
  outcome: Outcome;
  rid: string | undefined;
  status: number | undefined;
  retryAfter: string | undefined;
  /** Words of content that arrived. */
  words: number;
  /** The body of a refusal, or what broke. */
  reason: string;
  startedAtMs: number;
  endedAtMs: number;
};

/** Text of which each word is a token, by the fake's count, and a little less by the relay's estimate. */
export function wordsOf(count: number): string {
  return Array.from({ length: count }, () => word).join(" ");
}

const word = "ab";
// A stream may wait for more money for 30 s after the first try to get it (relay/stream/guard.ts).
const silentMs = 40_000;

/** A call that was silent for this long is given up, with this reason: nothing may hang. */
export const silenceReason = `silent for ${silentMs / 1_000} s`;

export type CallOptions = { url: string; agent: Agent; onWords?: (words: number) => void };

/** Makes a call and waits for its end; rejects only when an answer is not as the public API's document describes it. */
export function callRelay(plan: CallPlan, { url, agent, onWords }: CallOptions): Promise<CallLog> {
  const startedAtMs = Date.now();
  if (plan.isBySocket) {
    const turn = callBySocket(plan, { url, silentMs, silence: silenceReason, ...(onWords && { onWords }) });
    return turn.then((got) => ({ plan, ...got, startedAtMs, endedAtMs: Date.now() }));
  }
  const { path, headers, body } = write(plan);
  const { hangUpAfterWords = Number.POSITIVE_INFINITY } = plan;
  return new Promise((resolve, reject) => {
    let answer: IncomingMessage | undefined;
    let text = "";
    let words = 0;
    let reason = "";
    const end = (): void => {
      const problems = answer?.complete ? answerProblems({ method: "POST", path, ...described(answer), text }) : [];
      if (problems.length > 0) return reject(new Error(`${path}: ${problems.join("; ")}: ${text.slice(0, 500)}`));
      const got = answer ? read(plan, answer, text) : nothing;
      resolve({ plan, ...got, reason: reason || got.reason, startedAtMs, endedAtMs: Date.now() });
    };
    const question = request(`${url}${path}`, { method: "POST", agent, headers, timeout: silentMs });
    question.on("timeout", () => question.destroy(new Error(silenceReason)));
    question.on("error", (error) => (reason ||= error.message));
    question.on("close", end);
    question.on("response", (response) => {
      answer = response;
      response.on("error", (error) => (reason ||= error.message));
      response.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
        words += countWords(piece);
        onWords?.(words);
        if (words >= hangUpAfterWords) question.destroy();
      });
    });
    question.end(body);
  });
}

const nothing = {
  outcome: "none",
  rid: undefined,
  status: undefined,
  retryAfter: undefined,
  words: 0,
  reason: "no answer",
} as const;

function described({ statusCode: status = 0, headers }: IncomingMessage) {
  return { status, headers: new Headers(headers as Record<string, string>) };
}

function write({ dialect, isStream, model, maxTokens, behaviour, secret }: CallPlan) {
  const content = behaviourText(behaviour, "Please answer.");
  const request = { model, stream: isStream, max_tokens: maxTokens, messages: [{ role: "user", content }] };
  const body = JSON.stringify(request);
  const common = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  return dialect === "chat"
    ? { path: "/v1/chat/completions", headers: { ...common, authorization: `Bearer ${secret}` }, body }
    : { path: "/v1/messages", headers: { ...common, "x-api-key": secret, "anthropic-version": "2023-06-01" }, body };
}

function read({ dialect, isStream }: CallPlan, answer: IncomingMessage, text: string) {
  const { statusCode: status = 0, headers, complete } = answer;
  const head = { rid: String(headers["x-request-id"] ?? ""), status, retryAfter: headers["retry-after"] };
  const words = countWords(text);
  if (status !== 200) return { ...head, outcome: "error" as const, words: 0, reason: text };
  const isWhole = isStream ? endMarks[dialect].every((mark) => mark.test(text)) : complete;
  return { ...head, outcome: isWhole ? ("whole" as const) : ("cut" as const), words, reason: "" };
}

// Whoever has received these has the answer, whatever becomes of the connection behind it. A broken chat stream ends
// with [DONE], too, but says no reason why the model stopped.
const endMarks = {
  chat: [/"finish_reason":"/],
  messages: [/^event: message_stop\ndata: .+\n\n/m],
};

function countWords(text: string): number {
  return text.match(/\bab\b/g)?.length ?? 0;
}
