import fc from "fast-check";
import { eventData, eventJson } from "../dialects/sse.ts";

/** Dialects of conversations that providers speak. */
export const spoken = ["openai-chat", "openai-responses", "anthropic-messages", "gemini-generate"] as const;
export type Spoken = (typeof spoken)[number];

/** A count as a provider tells it: a number, none at all, one that cannot be, or what is no count. */
type Count = number | string | null | undefined;
export type Counts = { input: Count; cached: Count; output: Count; reasoning: Count; searches: Count };
type Piece = { kind: "text" | "thinking" | "call"; text: string };

/** What disturbs a stream: an event that comes again, later or not at all, or counts that are told at a wrong time. */
type Step = { kind: "repeat" | "swap" | "drop"; at: number } | { kind: "tell"; at: number; counts: Partial<Counts> };

/** An answer: its content, the counts with which it ends, what disturbs it, and counts behind its end. */
export type Script = {
  pieces: Piece[];
  first: Partial<Counts> | undefined;
  last: Partial<Counts> | undefined;
  steps: Step[];
  behind: Partial<Counts>[];
};

const count: fc.Arbitrary<Count> = fc.oneof(
  { weight: 12, arbitrary: fc.nat(900) },
  fc.constantFrom(0, null, undefined),
  { weight: 1, arbitrary: fc.constantFrom(-1, 1.5, "9", 9e15) },
);
const counts: fc.Arbitrary<Partial<Counts>> = fc.record(
  { input: count, cached: count, output: count, reasoning: count, searches: count },
  { requiredKeys: [] },
);
export const soundCounts = fc.record({
  input: fc.integer({ min: 2, max: 900 }),
  cached: fc.nat(900),
  output: fc.nat(900),
  reasoning: fc.nat(900),
  searches: fc.nat(3),
});
const piece: fc.Arbitrary<Piece> = fc.record({
  kind: fc.constantFrom("text", "text", "thinking", "call"),
  text: fc.constantFrom("one", "two words", "漢字", "a longer text with several words in it"),
});
const at = fc.nat(20);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constantFrom("repeat", "swap", "drop"), at }),
  fc.record({ kind: fc.constant("tell"), at, counts }),
);

export const scripts: fc.Arbitrary<Script> = fc.record({
  pieces: fc.array(piece, { minLength: 1, maxLength: 4 }),
  first: fc.option(counts, { nil: undefined }),
  last: fc.option(fc.oneof(soundCounts, counts), { nil: undefined }),
  steps: fc.array(step, { maxLength: 3 }),
  behind: fc.array(counts, { maxLength: 1 }),
});

type Json = Record<string, unknown>;

/** `usage` as each provider tells it; the sum of its parts is left to the caller of a broken provider. */
const usages: Record<Spoken, (told: Partial<Counts>) => Json> = {
  "openai-chat": ({ input, cached, output, reasoning }) => ({
    prompt_tokens: input,
    completion_tokens: output,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  }),
  "openai-responses": ({ input, cached, output, reasoning }) => ({
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
  }),
  "anthropic-messages": ({ input, cached, output, reasoning, searches }) => ({
    input_tokens: input,
    cache_read_input_tokens: cached,
    output_tokens: output,
    ...(reasoning !== undefined && { output_tokens_details: { thinking_tokens: reasoning } }),
    ...(searches !== undefined && { server_tool_use: { web_search_requests: searches } }),
  }),
  "gemini-generate": ({ input, cached, output, reasoning }) => ({
    promptTokenCount: input,
    cachedContentTokenCount: cached,
    candidatesTokenCount: output,
    thoughtsTokenCount: reasoning,
  }),
};

const usageOf = (from: Spoken, told: Partial<Counts> | undefined): Json | undefined => told && usages[from](told);

const callInput = (text: string): string => JSON.stringify({ text });

function chatEvents({ pieces, first, last }: Script): unknown[] {
  const chunk = (delta: Json, reason: string | null = null, usage?: Json): Json => ({
    id: "c1",
    model: "gpt-served",
    choices: [{ index: 0, delta, finish_reason: reason }],
    usage,
  });
  const deltas = pieces.map(({ kind, text }, index) => {
    if (kind === "text") return chunk({ content: text });
    if (kind === "thinking") return chunk({ reasoning_content: text });
    const called = { name: "look", arguments: callInput(text) };
    return chunk({ tool_calls: [{ index, id: `call_${index}`, type: "function", function: called }] });
  });
  const usage = usageOf("openai-chat", last);
  return [
    chunk({ role: "assistant", content: "" }, null, usageOf("openai-chat", first)),
    ...deltas,
    chunk({}, "stop"),
    ...(usage ? [{ id: "c1", choices: [], usage }] : []),
    "[DONE]",
  ];
}

function chatWhole({ pieces, last }: Script): Json {
  const textOf = (wanted: Piece["kind"]): string =>
    pieces
      .filter(({ kind }) => kind === wanted)
      .map(({ text }) => text)
      .join("");
  const calls = pieces.flatMap(({ kind, text }, index) =>
    kind === "call"
      ? [{ id: `call_${index}`, type: "function", function: { name: "look", arguments: callInput(text) } }]
      : [],
  );
  const message = {
    role: "assistant",
    content: textOf("text"),
    reasoning_content: textOf("thinking"),
    tool_calls: calls,
  };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  return { id: "c1", model: "gpt-served", choices, usage: usageOf("openai-chat", last) };
}

function responseItem({ kind, text }: Piece, index: number): Json {
  const id = `item_${index}`;
  if (kind === "thinking") return { type: "reasoning", id, summary: [{ type: "summary_text", text }] };
  if (kind === "call") {
    return { type: "function_call", id, call_id: `call_${index}`, name: "look", arguments: callInput(text) };
  }
  return { type: "message", id, role: "assistant", content: [{ type: "output_text", text, annotations: [] }] };
}

const responseWhole = ({ pieces, last }: Script): Json => ({
  id: "resp_1",
  object: "response",
  model: "gpt-served",
  status: "completed",
  output: pieces.map(responseItem),
  usage: usageOf("openai-responses", last) ?? null,
  ...(last?.searches !== undefined && { tool_usage: { web_search: { num_requests: last.searches } } }),
});

const responseDeltas: Record<Piece["kind"], string> = {
  text: "response.output_text.delta",
  thinking: "response.reasoning_summary_text.delta",
  call: "response.function_call_arguments.delta",
};

function responseEvents(script: Script): unknown[] {
  const whole = responseWhole(script);
  const open = {
    ...whole,
    status: "in_progress",
    output: [],
    usage: usageOf("openai-responses", script.first) ?? null,
  };
  const items = script.pieces.flatMap((piece, output_index) => {
    const item = responseItem(piece, output_index);
    const begun = { ...item, ...(piece.kind === "call" ? { arguments: "" } : { content: [], summary: [] }) };
    const delta = piece.kind === "call" ? callInput(piece.text) : piece.text;
    return [
      { type: "response.output_item.added", output_index, item: begun },
      { type: responseDeltas[piece.kind], output_index, content_index: 0, summary_index: 0, delta },
      { type: "response.output_item.done", output_index, item },
    ];
  });
  return [{ type: "response.created", response: open }, ...items, { type: "response.completed", response: whole }];
}

function messageBlock({ kind, text }: Piece, index: number): Json {
  if (kind === "thinking") return { type: "thinking", thinking: text, signature: "" };
  if (kind === "call") return { type: "tool_use", id: `toolu_${index}`, name: "look", input: { text } };
  return { type: "text", text };
}

const messageWhole = ({ pieces, last }: Script): Json => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-served",
  content: pieces.map(messageBlock),
  stop_reason: "end_turn",
  usage: usageOf("anthropic-messages", last) ?? null,
});

function messageDelta({ kind, text }: Piece): Json {
  if (kind === "thinking") return { type: "thinking_delta", thinking: text };
  if (kind === "call") return { type: "input_json_delta", partial_json: callInput(text) };
  return { type: "text_delta", text };
}

function messageEvents(script: Script): unknown[] {
  const { pieces, first, last } = script;
  const usage = usageOf("anthropic-messages", first) ?? null;
  const message = { ...messageWhole(script), content: [], stop_reason: null, usage };
  const blocks = pieces.flatMap((piece, index) => {
    const block = messageBlock(piece, index);
    const empty = { text: { text: "" }, thinking: { thinking: "" }, call: { input: {} } }[piece.kind];
    return [
      { type: "content_block_start", index, content_block: { ...block, ...empty } },
      { type: "content_block_delta", index, delta: messageDelta(piece) },
      { type: "content_block_stop", index },
    ];
  });
  return [
    { type: "message_start", message },
    ...blocks,
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: usageOf("anthropic-messages", last) },
    { type: "message_stop" },
  ];
}

function geminiPart({ kind, text }: Piece): Json {
  if (kind === "call") return { functionCall: { name: "look", args: { text } } };
  return kind === "thinking" ? { text, thought: true } : { text };
}

const geminiChunk = (parts: Json[], told: Partial<Counts> | undefined, ending: Json = {}): Json => ({
  candidates: [{ index: 0, content: { role: "model", parts }, ...ending }],
  usageMetadata: usageOf("gemini-generate", told),
  modelVersion: "gemini-served",
  responseId: "r1",
});

function geminiEnding({ last }: Script): Json {
  const searches = typeof last?.searches === "number" && last.searches > 0 && last.searches < 10 ? last.searches : 0;
  const webSearchQueries = Array.from({ length: Math.floor(searches) }, (_, index) => `query ${index}`);
  return { finishReason: "STOP", ...(searches > 0 && { groundingMetadata: { webSearchQueries } }) };
}

const geminiWhole = (script: Script): Json =>
  geminiChunk(script.pieces.map(geminiPart), script.last, geminiEnding(script));

const geminiEvents = (script: Script): unknown[] => [
  geminiChunk([], script.first),
  ...script.pieces.map((piece) => geminiChunk([geminiPart(piece)], undefined)),
  geminiChunk([], script.last, geminiEnding(script)),
];

const plain: Record<Spoken, (script: Script) => unknown[]> = {
  "openai-chat": chatEvents,
  "openai-responses": responseEvents,
  "anthropic-messages": messageEvents,
  "gemini-generate": geminiEvents,
};
const wholes: Record<Spoken, (script: Script) => Json> = {
  "openai-chat": chatWhole,
  "openai-responses": responseWhole,
  "anthropic-messages": messageWhole,
  "gemini-generate": geminiWhole,
};

/** An event that holds nothing but counts. */
const tellings: Record<Spoken, (told: Partial<Counts>) => unknown> = {
  "openai-chat": (told) => ({ choices: [], usage: usageOf("openai-chat", told) }),
  "openai-responses": (told) => ({
    type: "response.in_progress",
    response: { id: "resp_1", usage: usageOf("openai-responses", told) },
  }),
  "anthropic-messages": (told) => ({
    type: (told.input ?? 0) === 0 ? "message_delta" : "message_start",
    message: { id: "msg_1", usage: usageOf("anthropic-messages", told) },
    delta: {},
    usage: usageOf("anthropic-messages", told),
  }),
  "gemini-generate": (told) => ({ usageMetadata: usageOf("gemini-generate", told) }),
};

function disturbed(from: Spoken, events: unknown[], one: Step): unknown[] {
  const place = one.at % events.length;
  if (one.kind === "repeat") return events.toSpliced(place, 0, events[place]);
  if (one.kind === "drop") return events.toSpliced(place, 1);
  if (one.kind === "tell") return events.toSpliced(place, 0, tellings[from](one.counts));
  return events.toSpliced(place, 2, ...events.slice(place, place + 2).toReversed());
}

/** The events of a stream, as its bytes. */
export function streamOf(from: Spoken, script: Script): string[] {
  const ordered = script.steps.reduce((events, one) => disturbed(from, events, one), plain[from](script));
  const all = [...ordered, ...script.behind.map((told) => tellings[from](told))];
  return all.map((event) => `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
}

/** The same content and counts as a whole answer. */
export const wholeOf = (from: Spoken, script: Script): unknown => JSON.parse(JSON.stringify(wholes[from](script)));

/** The parsed events of a stream. */
export function eventsOf(told: string): Json[] {
  const parsed = told.split("\n\n").map((event) => eventJson(eventData(Buffer.from(`${event}\n\n`))));
  return parsed.filter((event) => typeof event === "object" && event !== null) as Json[];
}
