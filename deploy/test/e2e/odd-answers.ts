import type { Units } from "#shared/money/pricing.ts";
import type { ClientName } from "./conversion.ts";

/** An answer in a provider's own words, whole and as the data of a stream's events, and what callers make of it. */
export type OddAnswer = {
  dialect: "openai-chat" | "openai-responses" | "anthropic-messages" | "gemini-generate";
  whole: object;
  events: object[];
  text: string;
  finish: Record<ClientName, string>;
  charged: Units;
};

const text = "Hi there";
const stopped = { chat: "stop", responses: "completed", messages: "end_turn" };
const filtered = { chat: "content_filter", responses: "content_filter", messages: "refusal" };
const charged: Units = { inputTokens: 10n, outputTokens: 5n };

const chatHead = { id: "c1", created: 1_767_225_600, model: "served" };
const chatUsage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, prompt_tokens_details: null };
const chunkOf = (delta: object, finish_reason: string | null = null): object => ({
  ...chatHead,
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
});
const nothings = { tool_calls: null, function_call: null, refusal: null, annotations: null, audio: null };

const chat: OddAnswer = {
  dialect: "openai-chat",
  whole: {
    ...chatHead,
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: text, ...nothings }, finish_reason: "stop" }],
    usage: chatUsage,
  },
  events: [
    chunkOf({ role: "assistant", content: null, reasoning_content: null, ...nothings }),
    chunkOf({ content: "Hi ", ...nothings }),
    chunkOf({ content: "there" }),
    chunkOf({}, "stop"),
    { ...chatHead, object: "chat.completion.chunk", choices: [], usage: chatUsage },
  ],
  text,
  finish: stopped,
  charged,
};

const response = { id: "resp_1", object: "response", created_at: 1_767_225_600, model: "served", error: null };
const said = (content: object[] | null) => ({ type: "message", id: "msg_1", role: "assistant", content });
const output = [
  { type: "reasoning", id: "rs_1", summary: [], content: null, encrypted_content: null },
  said([{ type: "output_text", text, annotations: [], logprobs: null }]),
];
const responsesUsage = { input_tokens: 10, output_tokens: 5, total_tokens: 15, input_tokens_details: null };
const completed = { ...response, status: "completed", output, usage: responsesUsage };

const responses: OddAnswer = {
  dialect: "openai-responses",
  whole: completed,
  events: [
    { type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } },
    { type: "keepalive", sequence_number: 1 },
    ...output.flatMap((item, output_index) => [
      { type: "response.output_item.added", output_index, item: { ...item, ...(item.type === "message" && said([])) } },
      { type: "response.output_item.done", output_index, item },
    ]),
    { type: "response.completed", response: completed },
  ],
  text,
  finish: stopped,
  charged,
};

const message = { id: "msg_1", type: "message", role: "assistant", model: "served" };
const noCounts = { cache_creation_input_tokens: null, cache_read_input_tokens: null, cache_creation: null };
const messagesUsage = { input_tokens: 10, output_tokens: 5, server_tool_use: null, ...noCounts };

/** A message of these blocks, or of none. */
function messageOf(blocks: object[], stop_reason: string): Pick<OddAnswer, "whole" | "events"> {
  const ending = { stop_reason, stop_sequence: null };
  const first = { input_tokens: 10, output_tokens: 1, ...noCounts };
  return {
    whole: { ...message, content: blocks, ...ending, usage: messagesUsage },
    events: [
      { type: "message_start", message: { ...message, content: [], stop_reason: null, usage: first } },
      { type: "ping" },
      ...blocks.flatMap((content_block, index) => [
        { type: "content_block_start", index, content_block },
        { type: "content_block_stop", index },
      ]),
      { type: "a_later_event", index: 7 },
      { type: "message_delta", delta: ending, usage: messagesUsage },
      { type: "message_stop" },
    ],
  };
}

const messages: OddAnswer = {
  dialect: "anthropic-messages",
  ...messageOf([{ type: "text", text, citations: null }], "end_turn"),
  text,
  finish: stopped,
  charged,
};

const geminiUsage = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15, cacheTokensDetails: null };
const candidateOf = (content: object | null, finishReason: string | null): object => ({
  candidates: [{ index: 0, content, finishReason, safetyRatings: null, groundingMetadata: null }],
  promptFeedback: null,
  modelVersion: "served",
  responseId: "r1",
});

const gemini: OddAnswer = {
  dialect: "gemini-generate",
  whole: { ...candidateOf({ role: "model", parts: [{ text }] }, "STOP"), usageMetadata: geminiUsage },
  events: [
    candidateOf({ role: "model", parts: [{ text: "Hi " }] }, null),
    candidateOf({ role: "model", parts: [{ text: "there" }] }, null),
    { ...candidateOf({ role: "model", parts: null }, "STOP") },
    { candidates: [], usageMetadata: geminiUsage, modelVersion: "served" },
  ],
  text,
  finish: stopped,
  charged,
};

/** An answer as each format has it, with `null` wherever servers were seen to send it. */
export const plainAnswers: Record<string, OddAnswer> = { chat, responses, messages, gemini };

const endedBy = (finishReason: string): Pick<OddAnswer, "whole" | "events"> => {
  const ended = { ...candidateOf({}, finishReason), usageMetadata: geminiUsage };
  return { whole: ended, events: [ended] };
};

/** Answers that are another thing than they look like. */
export const oddAnswers: Record<string, OddAnswer> = {
  "a refusal before any output": {
    ...messages,
    ...messageOf([], "refusal"),
    text: "",
    finish: filtered,
    charged: {},
  },
  "a refusal behind output": { ...messages, ...messageOf([{ type: "text", text }], "refusal"), finish: filtered },
  "a full context": {
    ...messages,
    ...messageOf([{ type: "text", text }], "model_context_window_exceeded"),
    finish: { chat: "length", responses: "max_output_tokens", messages: "model_context_window_exceeded" },
  },
  "an answer that an escalation rule has filtered": {
    ...gemini,
    ...endedBy("ESCALATION"),
    text: "",
    finish: filtered,
  },
  "a blocked prompt": {
    ...gemini,
    whole: { promptFeedback: { blockReason: "JAILBREAK" }, usageMetadata: { promptTokenCount: 10 } },
    events: [{ promptFeedback: { blockReason: "JAILBREAK" }, usageMetadata: { promptTokenCount: 10 } }],
    text: "",
    finish: filtered,
    charged: { inputTokens: 10n },
  },
};

const dataOf = (event: object): string => `data: ${JSON.stringify(event)}`;
const nameOf = (event: object): string => ("type" in event ? `event: ${String(event.type)}\n` : "");
const isChat = (events: object[]): boolean => events.some((event) => "choices" in event);
const doneOf = (events: object[]): string => (isChat(events) ? "data: [DONE]\n\n" : "");
const linesOf = (events: object[]): string =>
  events.map((event) => `${nameOf(event)}${dataOf(event)}\n\n`).join("") + doneOf(events);

/** How servers put a stream into lines. */
export const framings: Record<string, (events: object[]) => string> = {
  plain: linesOf,
  "with-crlf": (events) => linesOf(events).replaceAll("\n", "\r\n"),
  "with-a-byte-order-mark": (events) => `\u{feff}${linesOf(events)}`,
  "without-spaces": (events) => linesOf(events).replaceAll(/^data: /gm, "data:"),
  "with-comments-and-ids": (events) =>
    `: a comment\n\nretry: 3000\n\n${linesOf(events).replaceAll("\n\n", "\nid: 7\n\n: again\n\n")}`,
  "without-the-last-line-end": (events) => linesOf(events).trimEnd(),
};
