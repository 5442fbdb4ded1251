import { request, type Dispatcher } from "undici";
import { readChatStream, readError, type CallPiece } from "./chat-stream.ts";
import type { Deps } from "./deps.ts";
import type { Turn } from "./html/conversation.ts";
import type { ChatBody, ChatContent } from "./html/snippets/chat-code.ts";

/** What somebody asks, with the key that is kept for them. */
export type PlaygroundRequest = {
  key: string;
  model: string;
  turns: readonly Turn[];
  message: string;
  /** An address or a data URL; undefined: none. */
  picture: string | undefined;
  /** Tools that the model may call, as the API takes them. */
  tools: readonly object[] | undefined;
  system: string;
  temperature: number | undefined;
  topP: number | undefined;
  maxTokens: number | undefined;
  effort: string | undefined;
};

/** A part of an answer: what the model says, a tool that it calls, or what a person must know about it. */
export type Piece = { kind: "said" | "call" | "problem"; text: string };

/** An answer that comes over time; `requestId` is missing where the API was not reached. */
export type Reply = { requestId: string | undefined; pieces: AsyncIterable<Piece> };

const callMs = 120_000;
const maxAnswerCharacters = 1_048_576;
const maxErrorBytes = 65_536;

/**
 * Asks the API as any other caller. Never rejects: what goes wrong is a piece of the answer. The call is cancelled when
 * `gone` is, after 120 s, and after 1,048,576 characters; `onEnd` is called when nothing goes on there any more.
 */
export async function askApi(
  { apiUrl, log }: Pick<Deps, "apiUrl" | "log">,
  question: PlaygroundRequest,
  gone: AbortSignal,
  onEnd: () => void,
): Promise<Reply> {
  const signal = AbortSignal.any([gone, AbortSignal.timeout(callMs)]);
  try {
    // A redirect would be an answer like any other: undici follows none.
    const { statusCode, headers, body } = await request(new URL("/v1/chat/completions", apiUrl), {
      method: "POST",
      headers: { authorization: `Bearer ${question.key}`, "content-type": "application/json" },
      body: JSON.stringify({ ...chatBodyOf(question), stream: true }),
      signal,
      headersTimeout: callMs,
      bodyTimeout: callMs,
    });
    body.once("close", onEnd);
    // Who reads it is told; when it is cancelled before anybody does, nobody needs to be.
    body.on("error", () => undefined);
    const requestId = idOf(headers["x-request-id"]);
    if (statusCode === 200) return { requestId, pieces: readAnswer(body, signal) };
    return { requestId, pieces: only(await refusal(statusCode, body, question.key)) };
  } catch (error) {
    onEnd();
    if (!gone.aborted) log.warn({ err: error }, "playground could not reach the API");
    const text = signal.aborted ? tooSlow : "The API cannot be reached right now. Try again in a minute.";
    return { requestId: undefined, pieces: only(text) };
  }
}

const tooSlow = "The answer took longer than 120 seconds and was cancelled.";
const broken = "The response was cut off and is incomplete.";

/** What the API is asked, without `stream`. */
export const chatBodyOf = (question: Omit<PlaygroundRequest, "key">): ChatBody => ({
  model: question.model,
  messages: [
    ...(question.system === "" ? [] : [{ role: "system", content: question.system }]),
    ...question.turns.flatMap((turn) => [
      { role: "user", content: withPicture(turn.question, turn.picture) },
      { role: "assistant", content: turn.answer },
    ]),
    { role: "user", content: withPicture(question.message, question.picture) },
  ],
  tools: question.tools,
  temperature: question.temperature,
  top_p: question.topP,
  max_completion_tokens: question.maxTokens,
  reasoning_effort: question.effort,
});

const withPicture = (text: string, url: string | undefined): ChatContent =>
  url === undefined
    ? text
    : [
        { type: "text", text },
        { type: "image_url", image_url: { url } },
      ];

/** A request id that may stand in an address. */
const idOf = (header: string | string[] | undefined): string | undefined =>
  typeof header === "string" && /^[\w-]{1,64}$/.test(header) ? header : undefined;

async function* only(text: string): AsyncGenerator<Piece> {
  yield { kind: "problem", text };
}

async function refusal(status: number, body: Dispatcher.ResponseData["body"], key: string): Promise<string> {
  let text = "";
  for await (const chunk of body) {
    text += String(chunk);
    if (text.length > maxErrorBytes) break;
  }
  // Providers repeat a part of a wrong key, and who knows what others do.
  const said = readError(text)?.replaceAll(key, "(the key)");
  return said === undefined
    ? `The API answered with status ${status}.`
    : `The API answered with status ${status}: ${said}`;
}

async function* readAnswer(body: AsyncIterable<Buffer>, signal: AbortSignal): AsyncGenerator<Piece> {
  let characters = 0;
  let end = "";
  const calls = new Map<number, CallPiece>();
  try {
    for await (const { said, calls: pieces, finish, problem } of readChatStream(body)) {
      if (problem !== undefined) return yield { kind: "problem", text: `The API stopped the answer: ${problem}` };
      characters += said.length;
      for (const piece of pieces) characters += add(calls, piece);
      if (characters > maxAnswerCharacters)
        return yield { kind: "problem", text: "The answer is cut here: it is too long." };
      if (said !== "") yield { kind: "said", text: said };
      end = finish === "" ? end : finish;
    }
  } catch {
    return yield { kind: "problem", text: signal.aborted ? tooSlow : broken };
  }
  for (const { name, arguments: given } of calls.values()) yield { kind: "call", text: `${name}(${given})` };
  // Only an answer that tells why it ends is whole (contract, "Errors within a stream").
  if (end === "") yield { kind: "problem", text: broken };
  if (end === "length") yield { kind: "problem", text: "The answer ends here because it has reached the most tokens." };
}

/** Puts a piece of a call of a tool to those before it; gives how long it is, with what its place takes. */
function add(calls: Map<number, CallPiece>, piece: CallPiece): number {
  const { index, name, arguments: given } = piece;
  const before = calls.get(index);
  calls.set(index, before ? { index, name: before.name + name, arguments: before.arguments + given } : piece);
  return name.length + given.length + 100;
}
