import type { Loss } from "../conversation.ts";
import type { ClientConversion, ProviderConversion } from "../conversion.ts";
import { answers } from "./answers.ts";
import { sharedLossNames } from "../openai-shared/shared-settings.ts";
import { readRequest } from "./read-request.ts";
import { writeReply } from "./write-reply.ts";
import { writeRequest } from "./write-request.ts";
import { createStreamWriter } from "./write-stream.ts";

const lossNames: Record<Loss, string> = {
  ...sharedLossNames,
  toolChoice: "tool_choice",
  parallelCalls: "parallel_tool_calls",
  maxOutputTokens: "max_completion_tokens",
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  presencePenalty: "presence_penalty",
  frequencyPenalty: "frequency_penalty",
  seed: "seed",
  choices: "n",
  stopSequences: "stop",
  logprobs: "logprobs",
  reasoning: "reasoning_effort",
  reasoningDisplay: "reasoning_effort",
  systemPlace: "messages.role",
  outputFormat: "response_format",
  verbosity: "verbosity",
  endUser: "safety_identifier",
  cache: "messages.content.prompt_cache_breakpoint",
  citations: "messages.annotations",
  opaqueState: "messages.extra_content",
  thinking: "messages.reasoning_content",
  imageDetail: "messages.content.image_url.detail",
  fileName: "messages.content.file.filename",
  toolStrictness: "tools.function.strict",
  resultError: "messages.content",
};

/** Chat for callers whose model speaks another dialect. */
export const client: ClientConversion = {
  readRequest,
  lossNames,
  writeReply,
  createStreamWriter,
  // API spec, Streaming that stops partway: "Ends with data: [DONE] without any data whose finish_reason has a value".
  cutEnd: "data: [DONE]\n\n",
};

/** Chat for providers whose callers speak another dialect. */
export const provider: ProviderConversion = { writeRequest, answers };
