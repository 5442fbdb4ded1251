import assert from "node:assert/strict";
import { test } from "node:test";
import type { FinishReason as GeminiReason } from "@google/genai";
import type { BetaStopReason } from "@anthropic-ai/sdk/resources/beta/messages/messages";
import type { StopReason } from "@anthropic-ai/sdk/resources/messages/messages";
import type { ChatCompletion } from "openai/resources/chat/completions";
import type { Response } from "openai/resources/responses/responses";
import { readStopReason } from "./anthropic-messages/finish-reasons.ts";
import { endingOf, finishReasonOf } from "./gemini-generate/finish-reasons.ts";
import { readFinish } from "./openai-chat/finish-reasons.ts";
import { readReason } from "./openai-responses/finish-reasons.ts";
import type { FinishReason } from "./reply.ts";

// Whether these compile tells whether the official clients know a reason that is not here.

const ofMessages: Record<StopReason | BetaStopReason, FinishReason> = {
  end_turn: "stop",
  stop_sequence: "stop-sequence",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  tool_use: "calls",
  refusal: "refusal",
  pause_turn: "pause",
  // Who asked for it goes on with the compacted conversation.
  compaction: "pause",
};

const ofChat: Record<ChatCompletion.Choice["finish_reason"], FinishReason> = {
  stop: "stop",
  length: "length",
  content_filter: "refusal",
  // Without calls in the answer, these are plain ends.
  tool_calls: "stop",
  function_call: "stop",
};

const ofResponses: Record<NonNullable<NonNullable<Response["incomplete_details"]>["reason"]>, FinishReason> = {
  max_output_tokens: "length",
  max_messages: "length",
  // Only who steers on a socket, which no model here can be.
  steered: "length",
  content_filter: "refusal",
};

// Undefined: the answer goes on.
const ofGemini: Record<`${GeminiReason}`, FinishReason | undefined> = {
  FINISH_REASON_UNSPECIFIED: undefined,
  STOP: "stop",
  MAX_TOKENS: "length",
  SAFETY: "refusal",
  RECITATION: "refusal",
  BLOCKLIST: "refusal",
  PROHIBITED_CONTENT: "refusal",
  SPII: "refusal",
  ESCALATION: "refusal",
  PUP_LIMITED_DISABLED: "refusal",
  IMAGE_SAFETY: "refusal",
  IMAGE_PROHIBITED_CONTENT: "refusal",
  IMAGE_RECITATION: "refusal",
  IMAGE_OTHER: "refusal",
  // What the model did wrong, and not what was held back.
  MODEL_ARMOR: "refusal",
  CONTINUATION: "length",
  LANGUAGE: "stop",
  OTHER: "stop",
  NO_IMAGE: "stop",
  MALFORMED_FUNCTION_CALL: "stop",
  MALFORMED_RESPONSE: "stop",
  MISSING_THOUGHT_SIGNATURE: "stop",
  TOO_MANY_TOOL_CALLS: "stop",
  UNEXPECTED_TOOL_CALL: "stop",
};

const geminiReason = (name: string): FinishReason | undefined =>
  endingOf({ finishReason: name }) === undefined ? undefined : finishReasonOf(name, false);

for (const [what, expected, read] of [
  ["messages", ofMessages, readStopReason],
  ["chat", ofChat, (name: string) => readFinish(name, { hasCalls: false, hasRefusal: false })],
  ["responses", ofResponses, (reason: string) => readReason({ incomplete_details: { reason } }, true, false)],
  ["Gemini", ofGemini, geminiReason],
] as const) {
  test(`every reason that ends an answer of ${what} is read`, () => {
    const names = Object.keys(expected);
    assert.deepEqual(Object.fromEntries(names.map((name) => [name, read(name)])), expected);
  });
}
