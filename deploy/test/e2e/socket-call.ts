import type { IncomingMessage } from "node:http";
import { WebSocket } from "ws";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";

type Event = {
  type: string;
  delta?: string;
  status?: number;
  headers?: Record<string, string>;
  error?: unknown;
};

type Got = {
  outcome: "whole" | "cut" | "error" | "none";
  rid: string | undefined;
  status: number | undefined;
  retryAfter: string | undefined;
  words: number;
  reason: string;
};

/** What is asked, and for how long the caller stays. */
type Asked = { secret: string; model: string; maxTokens: number; behaviour: Behaviour; hangUpAfterWords?: number };

type SocketOptions = { url: string; onWords?: (words: number) => void; silentMs: number; silence: string };

const wordsIn = (text: string): number => text.match(/\bab\b/g)?.length ?? 0;

/** Takes in an event of the turn; tells whether it is the last one. */
function note(got: Got, { type, delta = "", status, headers, error }: Event): boolean {
  got.rid ??= headers?.["x-request-id"];
  got.words += wordsIn(type === "response.output_text.delta" ? delta : "");
  if (type === "response.completed" || type === "response.incomplete") got.outcome = "whole";
  if (type !== "error" || got.outcome === "cut") {
    if (got.outcome === "none") Object.assign(got, { outcome: "cut", status: 200 });
    return ["error", "response.failed"].includes(type) || got.outcome === "whole";
  }
  // An answer that was cut before its first event is told by the same status as one that never began.
  const outcome = status === 500 ? "cut" : "error";
  Object.assign(got, { outcome, status, retryAfter: headers?.["retry-after"], reason: JSON.stringify(error) });
  return true;
}

/** A call as one turn on a socket of its own, which is torn down where the caller hangs up. */
export function callBySocket(asked: Asked, { url, onWords, silentMs, silence }: SocketOptions): Promise<Got> {
  const { secret, model, maxTokens, behaviour, hangUpAfterWords = Number.POSITIVE_INFINITY } = asked;
  const got: Got = { outcome: "none", rid: undefined, status: undefined, retryAfter: undefined, words: 0, reason: "" };
  const headers = { authorization: `Bearer ${secret}` };
  const webSocket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/responses`, { headers });
  const timer = setTimeout(() => {
    got.reason = silence;
    webSocket.terminate();
  }, silentMs);
  webSocket.on("open", () => {
    const input = behaviourText(behaviour, "Please answer.");
    webSocket.send(JSON.stringify({ type: "response.create", model, max_output_tokens: maxTokens, input }));
  });
  webSocket.on("message", (data) => {
    timer.refresh();
    const isLast = note(got, JSON.parse((data as Buffer).toString()) as Event);
    onWords?.(got.words);
    if (got.words >= hangUpAfterWords && !isLast) webSocket.terminate();
    else if (isLast) webSocket.close();
  });
  webSocket.on("unexpected-response", (_request, response: IncomingMessage) => {
    const { statusCode, headers: told } = response;
    const rid = told["x-request-id"] as string | undefined;
    Object.assign(got, { outcome: "error", status: statusCode, rid, retryAfter: told["retry-after"] });
    response.setEncoding("utf8").on("data", (text: string) => (got.reason += text));
    response.on("close", () => webSocket.terminate());
  });
  webSocket.on("error", (error) => (got.reason ||= error.message));
  return new Promise((resolve) => {
    webSocket.on("close", () => {
      clearTimeout(timer);
      resolve(got);
    });
  });
}
