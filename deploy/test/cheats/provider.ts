import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { freePort } from "#shared/testing/free-port.ts";
import { prices } from "../e2e/catalog.ts";

/** How the provider answers the next calls, and what it counts that nobody can see. */
export type Plan = {
  /** What it answers, piece by piece. */
  answer: readonly string[];
  /** What it tells of its counts: right ones at the end, none, right ones with the first piece, or these. */
  tells: "right" | "nothing" | "early" | { input: unknown; output: unknown };
  /** Input that stands behind names of the request, in tokens. */
  unseenTokens?: number;
  /** Input of pictures, pages and the like. */
  mediaTokens?: number;
  /** Thinking that it bills and does not show, before the first piece. */
  hiddenTokens?: number;
  /** Sound that it writes down. */
  soundMs?: number;
  /** For how long it keeps all of the input in its cache, which it bills instead. */
  cacheWriteTtl?: "30m" | "12h";
  /** Searches that it makes. */
  searches?: number;
  /** Waits for `goOn` before the piece of this index, so that a caller can leave there. */
  stopsAt?: number;
};

export const searchNanos = 10_000_000n;
const soundNanosPerMinute = 6_000_000n;

const textOf = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

/** What a model reads of a message: its texts; media is counted by the plan. */
function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (typeof value !== "object" || value === null) return [];
  const { text, content, input, arguments: given } = value as Record<string, unknown>;
  return [text, content, input, given].flatMap(textsOf);
}

const perMessage = 3;
// Some 4,000 tokens in a second, which is faster than models that people pay for.
const pieceMs = 3;

/** Counts a request as providers do: its texts, a few tokens for each message, and tools as they are written. */
function countInput(body: Record<string, unknown>): number {
  const messages = body["messages"] ?? body["input"] ?? body["prompt"];
  const list = Array.isArray(messages) ? messages : [messages];
  const texts = list.flatMap((one) => textsOf(one)).concat(textsOf(body["system"]), textsOf(body["instructions"]));
  const tools = body["tools"] === undefined ? 0 : countTokens(textOf(body["tools"]));
  return texts.reduce((sum, text) => sum + countTokens(text), tools) + list.length * perMessage;
}

type Call = { plan: Plan; response: ServerResponse; input: number; output: number };

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

function usageOf(
  { plan: { tells, cacheWriteTtl }, input, output }: Call,
  [ofInput, ofOutput]: [string, string],
): object | undefined {
  if (tells === "nothing") return undefined;
  if (typeof tells === "object") return { [ofInput]: tells.input, [ofOutput]: tells.output };
  return { [ofInput]: input, [ofOutput]: output, ...writesOf(cacheWriteTtl, input) };
}

/** What OpenAI tells of its cache (openai 7.55, ResponseUsage). */
function writesOf(ttl: Plan["cacheWriteTtl"], tokens: number): object {
  if (ttl === undefined) return {};
  const details = { ttl_30m_tokens: ttl === "30m" ? tokens : 0, ttl_12h_tokens: ttl === "12h" ? tokens : 0 };
  const cache = { cached_tokens: 0, cache_write_tokens: tokens, cache_write_tokens_details: details };
  return { input_tokens_details: cache };
}

const chatNames: [string, string] = ["prompt_tokens", "completion_tokens"];
const otherNames: [string, string] = ["input_tokens", "output_tokens"];

/** The events of an answer in a format: of its start, of a piece, and of its end. */
type Format = {
  begin: (call: Call) => string;
  piece: (call: Call, text: string, isFirst: boolean) => string;
  end: (call: Call) => string;
  whole: (call: Call, text: string) => object;
};

const chunk = (fields: object) => data({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...fields });

const chat: Format = {
  begin: () => "",
  piece: (call, content, isFirst) => {
    const early = isFirst && call.plan.tells === "early" ? { usage: usageOf(call, chatNames) } : {};
    return chunk({ choices: [{ index: 0, delta: { content }, finish_reason: null }], ...early });
  },
  end: (call) => {
    const usage = call.plan.tells === "early" ? undefined : usageOf(call, chatNames);
    const counts = usage ? chunk({ choices: [], usage }) : "";
    return `${chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}${counts}data: [DONE]\n\n`;
  },
  whole: (call, content) => ({
    id: "c",
    object: "chat.completion",
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
    usage: usageOf(call, chatNames),
  }),
};

const response = (call: Call, text: string, status: string): object => ({
  id: "resp_1",
  object: "response",
  status,
  model: "m",
  output: [
    ...Array.from({ length: call.plan.searches ?? 0 }, (_, at) => ({
      type: "web_search_call",
      id: `ws_${at}`,
      status: "completed",
      action: { type: "search", query: "q" },
    })),
    {
      type: "message",
      id: "msg_1",
      role: "assistant",
      status,
      content: [{ type: "output_text", text, annotations: [] }],
    },
  ],
  usage: status === "completed" ? usageOf(call, otherNames) : null,
});

const responses: Format = {
  begin: (call) => data({ type: "response.created", response: { ...response(call, "", "in_progress"), output: [] } }),
  piece: (_call, delta) =>
    data({ type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta }),
  end: (call) => data({ type: "response.completed", response: response(call, call.plan.answer.join(""), "completed") }),
  whole: (call, text) => response(call, text, "completed"),
};

const messages: Format = {
  begin: (call) => {
    const usage = usageOf({ ...call, output: 1 }, otherNames) ?? {};
    const message = {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [],
      stop_reason: null,
      usage,
    };
    return (
      data({ type: "message_start", message }) +
      data({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } })
    );
  },
  piece: (_call, text) => data({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
  end: (call) =>
    data({ type: "content_block_stop", index: 0 }) +
    data({
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: call.plan.tells === "early" ? {} : (usageOf(call, otherNames) ?? {}),
    }) +
    data({ type: "message_stop" }),
  whole: (call, text) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [{ type: "text", text }],
    stop_reason: "end_turn",
    usage: usageOf(call, otherNames),
  }),
};

const completions: Format = {
  ...chat,
  whole: (call, text) => ({
    id: "c",
    object: "text_completion",
    model: "m",
    choices: [{ index: 0, text, finish_reason: "stop", logprobs: null }],
    usage: usageOf(call, chatNames),
  }),
};

const formats: Record<string, Format> = {
  "/v1/completions": completions,
  "/v1/chat/completions": chat,
  "/v1/responses": responses,
  "/v1/messages": messages,
};

/** What the provider goes by and has billed, and what its answers and their callers wait for. */
type State = {
  plan: Plan;
  billedNanos: bigint;
  live: number;
  goesOn: PromiseWithResolvers<undefined>;
  stopped: PromiseWithResolvers<undefined>;
  left: PromiseWithResolvers<undefined>;
};

const inputPriceOf = ({ cacheWriteTtl }: Plan): bigint => {
  if (cacheWriteTtl === undefined) return prices.inputTokens;
  return cacheWriteTtl === "30m" ? prices.cacheWrite5mTokens : prices.cacheWrite1hTokens;
};

function bill(state: State, input: number, output: number): void {
  state.billedNanos += (BigInt(input) * inputPriceOf(state.plan) + BigInt(output) * prices.outputTokens) / 1_000_000n;
}

/** How many answers it makes, of which it gives one. */
const triesOf = ({ best_of: tries }: Record<string, unknown>): number => Number(tries ?? 1);

async function stream(call: Call, format: Format, state: State): Promise<void> {
  const { plan, response: to } = call;
  to.writeHead(200, { "content-type": "text/event-stream" });
  to.flushHeaders();
  bill(state, 0, call.output);
  to.write(format.begin(call));
  for (const [index, text] of plan.answer.entries()) {
    if (index === plan.stopsAt) {
      state.stopped.resolve(undefined);
      await Promise.race([state.goesOn.promise, once(to, "close")]);
    }
    // One that is hung up on makes no more.
    if (to.destroyed) return;
    const tokens = countTokens(text);
    call.output += tokens;
    bill(state, 0, tokens);
    await setTimeout(pieceMs);
    if (!to.write(format.piece(call, text, index === 0))) await Promise.race([once(to, "drain"), once(to, "close")]);
  }
  to.end(format.end(call));
}

async function answer(request: IncomingMessage, to: ServerResponse, state: State): Promise<void> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  const { plan } = state;
  if (plan.soundMs !== undefined) {
    state.billedNanos += (BigInt(plan.soundMs) * soundNanosPerMinute) / 60_000n;
    to.writeHead(200, { "content-type": "text/plain" });
    to.end(plan.answer.join(""));
    return;
  }
  const body = JSON.parse(Buffer.concat(pieces).toString()) as Record<string, unknown>;
  const input = countInput(body) + (plan.unseenTokens ?? 0) + (plan.mediaTokens ?? 0);
  const call: Call = { plan, response: to, input, output: plan.hiddenTokens ?? 0 };
  bill(state, input, 0);
  state.billedNanos += BigInt(plan.searches ?? 0) * searchNanos;
  const format = formats[request.url ?? ""];
  if (!format) return void to.writeHead(404).end();
  if (body["stream"] === true) return stream(call, format, state);
  call.output += countTokens(plan.answer.join("")) * triesOf(body);
  bill(state, 0, call.output);
  to.writeHead(200, { "content-type": "application/json" });
  to.end(JSON.stringify(format.whole(call, plan.answer.join(""))));
}

const begun = (plan: Plan) => ({
  plan,
  billedNanos: 0n,
  goesOn: Promise.withResolvers<undefined>(),
  stopped: Promise.withResolvers<undefined>(),
  left: Promise.withResolvers<undefined>(),
});

/** A provider on a socket of its own that counts with a real tokenizer, and bills what it has read and made. */
export async function startProvider() {
  const state: State = { live: 0, ...begun({ answer: ["Hello."], tells: "right" }) };
  const server = createServer((request, to) => {
    state.live += 1;
    to.on("close", () => {
      state.live -= 1;
      state.left.resolve(undefined);
    });
    answer(request, to, state).catch(() => to.destroy());
  });
  const port = await freePort();
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${port}`,
    /** Answers as planned from here on, and begins a new bill. */
    begin: (plan: Plan): void => void Object.assign(state, begun(plan)),
    billedNanos: () => state.billedNanos,
    liveCalls: () => state.live,
    /** Resolves when the answer that waits is hung up on. */
    isLeft: () => state.left.promise,
    /** Resolves when an answer waits where its plan stops it. */
    hasStopped: () => state.stopped.promise,
    goOn: (): void => state.goesOn.resolve(undefined),
    [Symbol.dispose]: (): void => {
      server.closeAllConnections();
      server.close();
    },
  };
}

export type Provider = Awaited<ReturnType<typeof startProvider>>;
