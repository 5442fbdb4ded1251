import type { Exchange } from "./recordings.ts";

// A second reading of the four formats, which shares nothing with the relay's own, so that both must be wrong in the
// same way before a mistake passes.

export type ProviderFormat = "chat" | "responses" | "messages" | "gemini";

/** Why an answer ended, as far as all formats can tell. */
type Ending = "stop" | "calls" | "length" | "refusal" | "none";

/** What an answer says, whatever its format. */
export type Reading = {
  text: string;
  /** What it shows of its thoughts, without white space: parts of them are joined in different ways. */
  thinking: string;
  calls: { name: string; arguments: unknown }[];
  ending: Ending;
  /** All input, cached input included; undefined where the provider told no counts. */
  inputTokens: number | undefined;
  /** Input and output, thoughts included. */
  totalTokens: number | undefined;
};

const at = (value: unknown, ...path: string[]): unknown =>
  path.reduce<unknown>(
    (inner, name) =>
      typeof inner === "object" && inner !== null ? (inner as Record<string, unknown>)[name] : undefined,
    value,
  );
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const words = (value: unknown): string => (typeof value === "string" ? value : "");
const count = (value: unknown): number => (typeof value === "number" ? value : 0);
const join = (values: unknown[]): string => values.map(words).join("");
const dense = (values: unknown[]): string => join(values).replaceAll(/\s+/g, "");
const inputOf = (json: unknown): unknown => JSON.parse(words(json) || "{}");

const endings: Record<string, Ending> = {
  stop: "stop",
  tool_calls: "calls",
  length: "length",
  content_filter: "refusal",
  completed: "stop",
  max_output_tokens: "length",
  end_turn: "stop",
  stop_sequence: "stop",
  pause_turn: "stop",
  tool_use: "calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "refusal",
  STOP: "stop",
  MAX_TOKENS: "length",
  SAFETY: "refusal",
};

// Some formats, and some servers of the others, call it a stop when the model waits for the results of its calls.
function endingOf(reason: unknown, calls: unknown[]): Ending {
  const ending = endings[words(reason)] ?? "none";
  return ending === "stop" && calls.length > 0 ? "calls" : ending;
}

/** Reads a chat completion. */
export function readChat(body: unknown): Reading {
  const choice = list(at(body, "choices"))[0];
  const message = at(choice, "message");
  const calls = list(at(message, "tool_calls")).map((call) => ({
    name: words(at(call, "function", "name")),
    arguments: inputOf(at(call, "function", "arguments")),
  }));
  const usage = at(body, "usage") ?? undefined;
  return {
    text: join([at(message, "content"), at(message, "refusal")]),
    thinking: dense([at(message, "reasoning_content") ?? at(message, "reasoning")]),
    calls,
    ending: endingOf(at(choice, "finish_reason"), calls),
    inputTokens: usage === undefined ? undefined : count(at(usage, "prompt_tokens")),
    totalTokens: usage === undefined ? undefined : count(at(usage, "total_tokens")),
  };
}

/** Reads a response. */
export function readResponse(body: unknown): Reading {
  const items = list(at(body, "output"));
  const parts = items.flatMap((item) => (at(item, "type") === "message" ? list(at(item, "content")) : []));
  const thoughts = items.flatMap((item) => (at(item, "type") === "reasoning" ? list(at(item, "summary")) : []));
  const calls = items
    .filter((item) => at(item, "type") === "function_call")
    .map((item) => ({ name: words(at(item, "name")), arguments: inputOf(at(item, "arguments")) }));
  const usage = at(body, "usage") ?? undefined;
  return {
    text: join(parts.flatMap((part) => [at(part, "text"), at(part, "refusal")])),
    thinking: dense(thoughts.map((part) => at(part, "text"))),
    calls,
    ending: endingOf(at(body, "incomplete_details", "reason") ?? at(body, "status"), calls),
    inputTokens: usage === undefined ? undefined : count(at(usage, "input_tokens")),
    totalTokens: usage === undefined ? undefined : count(at(usage, "total_tokens")),
  };
}

/** Reads a message. */
export function readMessage(body: unknown): Reading {
  const blocks = list(at(body, "content"));
  const calls = blocks
    .filter((block) => at(block, "type") === "tool_use")
    .map((block) => ({ name: words(at(block, "name")), arguments: at(block, "input") }));
  const usage = at(body, "usage") ?? undefined;
  const inputs = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
  const inputTokens = inputs.reduce((sum, name) => sum + count(at(usage, name)), 0);
  return {
    text: join(blocks.map((block) => (at(block, "type") === "text" ? at(block, "text") : ""))),
    thinking: dense(blocks.map((block) => at(block, "thinking"))),
    calls,
    ending: endingOf(at(body, "stop_reason"), calls),
    inputTokens: usage === undefined ? undefined : inputTokens,
    totalTokens: usage === undefined ? undefined : inputTokens + count(at(usage, "output_tokens")),
  };
}

/** Reads the chunks of a generated content; a whole one is its only chunk. */
function readGemini(chunks: unknown[]): Reading {
  const candidates = chunks.map((chunk) => list(at(chunk, "candidates"))[0]);
  const parts = candidates.flatMap((candidate) => list(at(candidate, "content", "parts")));
  const calls = parts
    .map((part) => at(part, "functionCall"))
    .filter((call) => call !== undefined)
    .map((call) => ({ name: words(at(call, "name")), arguments: at(call, "args") ?? {} }));
  const usage = chunks.map((chunk) => at(chunk, "usageMetadata")).findLast((told) => told !== undefined);
  const reason = candidates.map((candidate) => at(candidate, "finishReason")).findLast((told) => told !== undefined);
  return {
    text: join(parts.map((part) => (at(part, "thought") === true ? "" : at(part, "text")))),
    thinking: dense(parts.map((part) => (at(part, "thought") === true ? at(part, "text") : ""))),
    calls,
    ending: endingOf(reason, calls),
    inputTokens:
      usage === undefined
        ? undefined
        : count(at(usage, "promptTokenCount")) + count(at(usage, "toolUsePromptTokenCount")),
    totalTokens: usage === undefined ? undefined : count(at(usage, "totalTokenCount")),
  };
}

/** A chat completion of the chunks of its stream. */
export function foldChat(chunks: unknown[]): unknown {
  const choices = chunks.map((chunk) => list(at(chunk, "choices"))[0]);
  const deltas = choices.map((choice) => at(choice, "delta"));
  const calls = new Map<unknown, { name: string; arguments: string }>();
  for (const piece of deltas.flatMap((delta) => list(at(delta, "tool_calls")))) {
    const call = calls.get(at(piece, "index")) ?? { name: "", arguments: "" };
    calls.set(at(piece, "index"), call);
    call.name += words(at(piece, "function", "name"));
    call.arguments += words(at(piece, "function", "arguments"));
  }
  const message = {
    content: join(deltas.map((delta) => at(delta, "content"))),
    refusal: join(deltas.map((delta) => at(delta, "refusal"))),
    reasoning_content: join(deltas.map((delta) => at(delta, "reasoning_content") ?? at(delta, "reasoning"))),
    tool_calls: [...calls.values()].map((call) => ({ function: call })),
  };
  return {
    choices: [{ message, finish_reason: choices.map((choice) => at(choice, "finish_reason")).findLast(Boolean) }],
    usage: chunks.map((chunk) => at(chunk, "usage")).findLast(Boolean),
  };
}

// The last event repeats the whole response.
function foldResponse(events: unknown[]): unknown {
  return events.map((event) => at(event, "response")).findLast(Boolean);
}

function foldMessage(events: unknown[]): unknown {
  const ofType = (type: string): unknown[] => events.filter((event) => at(event, "type") === type);
  const content = ofType("content_block_start").map((start) => {
    const deltas = ofType("content_block_delta").filter((event) => at(event, "index") === at(start, "index"));
    const gather = (name: string): string => join(deltas.map((event) => at(event, "delta", name)));
    const block = at(start, "content_block") as object;
    const json = gather("partial_json");
    return {
      ...block,
      text: join([at(block, "text"), gather("text")]),
      thinking: gather("thinking"),
      ...(json !== "" && { input: inputOf(json) }),
    };
  });
  const usages = [at(ofType("message_start")[0], "message"), ...ofType("message_delta")].map((part) =>
    at(part, "usage"),
  );
  return {
    content,
    stop_reason: ofType("message_delta")
      .map((event) => at(event, "delta", "stop_reason"))
      .findLast(Boolean),
    usage: Object.assign({}, ...usages) as unknown,
  };
}

const endingsOfPaths: [RegExp, ProviderFormat][] = [
  [/\/chat\/completions$/, "chat"],
  [/\/responses$/, "responses"],
  [/\/messages$/, "messages"],
  [/:(generateContent|streamGenerateContent)$/, "gemini"],
];

/** The format of an exchange, by its path; undefined when it is none of these four. */
export function formatOf({ path }: Exchange): ProviderFormat | undefined {
  return endingsOfPaths.find(([ending]) => ending.test(path))?.[1];
}

export const isStreamed = ({ contentType }: Exchange): boolean => contentType.startsWith("text/event-stream");

function eventsOf(body: string): unknown[] {
  const data = body.split(/\r?\n\r?\n/).map((event) => {
    const lines = [...event.matchAll(/^data: ?(.*)$/gm)].map(([, line]) => line);
    return lines.length > 0 ? lines.join("\n") : "[DONE]";
  });
  return data.filter((text) => text !== "[DONE]").map((text): unknown => JSON.parse(text));
}

/** The events of a recorded answer; a whole one is its only event. */
export const recordedEvents = (exchange: Exchange): unknown[] =>
  isStreamed(exchange) ? eventsOf(exchange.replyBody) : [JSON.parse(exchange.replyBody) as unknown];

/** Reads a recorded answer, whole or streamed. */
export function readRecorded(exchange: Exchange, format: ProviderFormat): Reading {
  const events = recordedEvents(exchange);
  if (format === "gemini") return readGemini(events);
  const [whole] = events;
  if (format === "chat") return readChat(isStreamed(exchange) ? foldChat(events) : whole);
  if (format === "responses") return readResponse(isStreamed(exchange) ? foldResponse(events) : whole);
  return readMessage(isStreamed(exchange) ? foldMessage(events) : whole);
}
