import type { Loss } from "../conversation.ts";
import type { ClientConversion, ProviderConversion } from "../conversion.ts";
import { answers } from "./answers.ts";
import { sharedLossNames } from "../openai-shared/shared-settings.ts";
import { readRequest } from "./read-request.ts";
import { writeReply } from "./write-reply.ts";
import { addToMessages } from "../web-search.ts";
import { writeRequest } from "./write-request.ts";
import { createStreamWriter } from "./write-stream.ts";

/** Where callers of this format find what a provider could not be told; some they cannot even say. */
const lossNames: Record<Loss, string> = {
  ...sharedLossNames,
  toolChoice: "tool_choice",
  parallelCalls: "tool_choice.disable_parallel_tool_use",
  maxOutputTokens: "max_tokens",
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  presencePenalty: "presence_penalty",
  frequencyPenalty: "frequency_penalty",
  seed: "seed",
  choices: "n",
  stopSequences: "stop_sequences",
  logprobs: "logprobs",
  reasoning: "thinking",
  reasoningDisplay: "thinking.display",
  systemPlace: "messages.role",
  outputFormat: "output_config.format",
  verbosity: "verbosity",
  endUser: "metadata.user_id",
  cache: "cache_control",
  citations: "text.citations",
  opaqueState: "thinking.signature",
  thinking: "thinking.thinking",
  imageDetail: "image.detail",
  fileName: "document.title",
  toolStrictness: "tools.strict",
  resultError: "tool_result.is_error",
};

// API spec, Streaming that stops partway: "Answer ends partway", without a word.
export const client: ClientConversion = {
  readRequest,
  lossNames,
  writeReply,
  createStreamWriter,
  cutEnd: "",
};

export const provider: ProviderConversion = { writeRequest, addSearch: addToMessages, answers };
