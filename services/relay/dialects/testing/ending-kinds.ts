import type { FinishReason } from "../reply.ts";

/** Where the official clients declare what is in answers. */
export const declaredIn = {
  responses: "openai/resources/responses/responses.d.ts",
  betaResponses: "openai/resources/beta/responses/responses.d.ts",
  messages: "@anthropic-ai/sdk/resources/messages/messages.d.ts",
  betaMessages: "@anthropic-ai/sdk/resources/beta/messages/messages.d.ts",
  chat: "openai/resources/chat/completions/completions.d.ts",
  gemini: "@google/genai/dist/genai.d.ts",
} as const;

/** A type that an official client declares, or what one field of it may be. */
export type Declared = { file: string; type: string; field?: string };

/** Why answers end, as the official clients' types have it, and what each reason is read as. */
export const endingKinds: readonly {
  format: string;
  types: readonly Declared[];
  reasons: Record<string, FinishReason>;
}[] = [
  {
    format: "openai-chat",
    types: [{ file: declaredIn.chat, type: "ChatCompletion.Choice", field: "finish_reason" }],
    reasons: {
      stop: "stop",
      length: "length",
      content_filter: "refusal",
      // Without calls in the answer, these are plain ends.
      tool_calls: "stop",
      function_call: "stop",
    },
  },
  {
    format: "openai-responses",
    types: [
      { file: declaredIn.responses, type: "Response.IncompleteDetails", field: "reason" },
      { file: declaredIn.betaResponses, type: "BetaResponse.IncompleteDetails", field: "reason" },
    ],
    reasons: {
      max_output_tokens: "length",
      max_messages: "length",
      // Only who steers on a socket, which no model here can be.
      steered: "length",
      content_filter: "refusal",
    },
  },
  {
    format: "anthropic-messages",
    types: [
      { file: declaredIn.messages, type: "StopReason" },
      { file: declaredIn.betaMessages, type: "BetaStopReason" },
    ],
    reasons: {
      end_turn: "stop",
      stop_sequence: "stop-sequence",
      max_tokens: "length",
      model_context_window_exceeded: "length",
      tool_use: "calls",
      pause_turn: "pause",
      refusal: "refusal",
      // Who asked for it goes on with the compacted conversation.
      compaction: "pause",
    },
  },
  {
    format: "gemini-generate",
    types: [{ file: declaredIn.gemini, type: "FinishReason" }],
    reasons: {
      STOP: "stop",
      MAX_TOKENS: "length",
      CONTINUATION: "length",
      SAFETY: "refusal",
      RECITATION: "refusal",
      BLOCKLIST: "refusal",
      PROHIBITED_CONTENT: "refusal",
      SPII: "refusal",
      // What the model did wrong, and not what was held back.
      MODEL_ARMOR: "refusal",
      ESCALATION: "refusal",
      PUP_LIMITED_DISABLED: "refusal",
      IMAGE_SAFETY: "refusal",
      IMAGE_PROHIBITED_CONTENT: "refusal",
      IMAGE_RECITATION: "refusal",
      IMAGE_OTHER: "refusal",
      LANGUAGE: "stop",
      OTHER: "stop",
      NO_IMAGE: "stop",
      MALFORMED_FUNCTION_CALL: "stop",
      MALFORMED_RESPONSE: "stop",
      UNEXPECTED_TOOL_CALL: "stop",
      TOO_MANY_TOOL_CALLS: "stop",
      MISSING_THOUGHT_SIGNATURE: "stop",
    },
  },
];
