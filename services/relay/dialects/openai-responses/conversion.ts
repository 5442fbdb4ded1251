import type { Loss } from "../conversation.ts";
import type { ClientConversion, ProviderConversion } from "../conversion.ts";
import { answers } from "./answers.ts";
import { sharedLossNames } from "../openai-shared/shared-settings.ts";
import { readRequest } from "./read-request.ts";
import { writeReply } from "./write-reply.ts";
import { addToResponses } from "../web-search.ts";
import { writeRequest } from "./write-request.ts";
import { createStreamWriter } from "./write-stream.ts";

// Some cannot be lost, as this format has no field for them; their names are those of the formats that do.
const lossNames: Record<Loss, string> = {
  ...sharedLossNames,
  toolChoice: "tool_choice",
  parallelCalls: "parallel_tool_calls",
  maxOutputTokens: "max_output_tokens",
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  presencePenalty: "presence_penalty",
  frequencyPenalty: "frequency_penalty",
  seed: "seed",
  choices: "n",
  stopSequences: "stop",
  logprobs: "top_logprobs",
  reasoning: "reasoning",
  reasoningDisplay: "reasoning.summary",
  systemPlace: "input.role",
  outputFormat: "text.format",
  verbosity: "text.verbosity",
  endUser: "safety_identifier",
  cache: "input.content.prompt_cache_breakpoint",
  citations: "input.content.annotations",
  opaqueState: "input.encrypted_content",
  thinking: "input.summary",
  imageDetail: "input.content.detail",
  fileName: "input.content.filename",
  toolStrictness: "tools.strict",
  resultError: "input.is_error",
};

/** Callers that speak Responses. A cut answer just ends: without `response.completed` it is not whole. */
export const client: ClientConversion = { readRequest, lossNames, writeReply, createStreamWriter, cutEnd: "" };

/** Providers that speak Responses. */
export const provider: ProviderConversion = { writeRequest, addSearch: addToResponses, answers };
