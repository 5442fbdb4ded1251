import { bodyBytes, chunkText, claim, filler, streamChunks } from "./answers.ts";

// What a provider of each dialect answers, with the fields that real ones send and nothing that changes.

const { inputTokens, outputTokens } = claim;
const createdAt = 1_795_219_253;

/** A dialect that the bench's upstream speaks. */
export type WireName = "openai-chat" | "anthropic-messages" | "openai-responses" | "gemini-generate";

/** The model that runs on an upstream of this dialect alone; answers name it, too. */
export function modelOn(upstream: WireName): string {
  return `bench-${upstream}`;
}

/** A provider's dialect as the bench speaks it. */
export type Wire = {
  /** A whole answer with a text in it. */
  whole: (text: string) => object;
  /** Frames of a stream in order: before the content, one of the content, behind it. */
  start: string[];
  content: string;
  rest: string[];
};

const bare = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;
const typed = (data: { type: string; [name: string]: unknown }): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;

const chatUsage = {
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
  prompt_tokens_details: { cached_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0 },
};
const chatChunk = (choices: object[], usage: object | null = null): string =>
  bare({
    id: "chatcmpl-bench",
    object: "chat.completion.chunk",
    created: createdAt,
    model: modelOn("openai-chat"),
    choices,
    usage,
  });
const chatDelta = (delta: object, finish_reason: string | null = null): string =>
  chatChunk([{ index: 0, delta, finish_reason }]);

const chat: Wire = {
  whole: (content) => ({
    id: "chatcmpl-bench",
    object: "chat.completion",
    created: createdAt,
    model: modelOn("openai-chat"),
    choices: [
      { index: 0, message: { role: "assistant", content, refusal: null }, logprobs: null, finish_reason: "stop" },
    ],
    usage: chatUsage,
  }),
  start: [chatDelta({ role: "assistant", content: "" })],
  content: chatDelta({ content: chunkText }),
  rest: [chatDelta({}, "stop"), chatChunk([], chatUsage), "data: [DONE]\n\n"],
};

const messagesUsage = {
  input_tokens: inputTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: outputTokens,
};
const message = {
  id: "msg_bench",
  type: "message",
  role: "assistant",
  model: modelOn("anthropic-messages"),
  stop_sequence: null,
};

const messages: Wire = {
  whole: (text) => ({
    ...message,
    content: [{ type: "text", text }],
    stop_reason: "end_turn",
    usage: messagesUsage,
  }),
  start: [
    typed({
      type: "message_start",
      message: { ...message, content: [], stop_reason: null, usage: { ...messagesUsage, output_tokens: 1 } },
    }),
    typed({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
  ],
  content: typed({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: chunkText } }),
  rest: [
    typed({ type: "content_block_stop", index: 0 }),
    typed({
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: outputTokens },
    }),
    typed({ type: "message_stop" }),
  ],
};

const response = {
  id: "resp_bench",
  object: "response",
  created_at: createdAt,
  model: modelOn("openai-responses"),
  error: null,
};
const outputText = (text: string): object => ({ type: "output_text", text, annotations: [] });
const item = (status: string, content: object[]): object => ({
  type: "message",
  id: "msg_bench",
  status,
  role: "assistant",
  content,
});
const responseOf = (text: string): object => ({
  ...response,
  status: "completed",
  incomplete_details: null,
  output: [item("completed", [outputText(text)])],
  usage: {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: inputTokens + outputTokens,
  },
});
const place = { item_id: "msg_bench", output_index: 0, content_index: 0 };
// What a finished part repeats carries no instants: they would be read as late.
const finished = "x".repeat(chunkText.length * streamChunks);

const responses: Wire = {
  whole: responseOf,
  start: [
    typed({ type: "response.created", response: { ...response, status: "in_progress", output: [] } }),
    typed({ type: "response.output_item.added", output_index: 0, item: item("in_progress", []) }),
    typed({ type: "response.content_part.added", ...place, part: outputText("") }),
  ],
  content: typed({ type: "response.output_text.delta", ...place, delta: chunkText, logprobs: [] }),
  rest: [
    typed({ type: "response.output_text.done", ...place, text: finished, logprobs: [] }),
    typed({ type: "response.content_part.done", ...place, part: outputText(finished) }),
    typed({ type: "response.output_item.done", output_index: 0, item: item("completed", [outputText(finished)]) }),
    typed({ type: "response.completed", response: responseOf(finished) }),
  ],
};

const geminiAnswer = (text: string, end: object): object => ({
  candidates: [{ content: { parts: [{ text }], role: "model" }, ...end, index: 0 }],
  usageMetadata: {
    promptTokenCount: inputTokens,
    candidatesTokenCount: outputTokens,
    totalTokenCount: inputTokens + outputTokens,
  },
  modelVersion: modelOn("gemini-generate"),
  responseId: "resp-bench",
});

const gemini: Wire = {
  whole: (text) => geminiAnswer(text, { finishReason: "STOP" }),
  start: [],
  content: bare(geminiAnswer(chunkText, {})),
  rest: [bare(geminiAnswer("", { finishReason: "STOP" }))],
};

export const wires: Record<WireName, Wire> = {
  "openai-chat": chat,
  "anthropic-messages": messages,
  "openai-responses": responses,
  "gemini-generate": gemini,
};

/** A whole answer of 1 KB. */
export function wholeAnswer(name: WireName): string {
  const { whole } = wires[name];
  const render = (text: string): string => JSON.stringify(whole(text));
  return render(filler(bodyBytes - render("").length));
}

/** How many frames a whole stream has, or an idle one with a single frame of content. */
export function framesOf(name: WireName, contents = streamChunks): number {
  const { start, rest } = wires[name];
  return start.length + contents + rest.length;
}

/** The dialect of a path that a proxy asks for. */
export function wireOf(path: string): WireName {
  if (path.startsWith("/v1beta/")) return "gemini-generate";
  if (path.startsWith("/v1/messages")) return "anthropic-messages";
  return path.startsWith("/v1/responses") ? "openai-responses" : "openai-chat";
}
