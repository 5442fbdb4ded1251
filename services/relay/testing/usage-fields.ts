import type { UsageBucket } from "#shared/money/pricing.ts";

/**
 * What becomes of a field of a provider's usage: the bucket that it fills, the field that counts it already, or what it
 * is, if it is no use that is charged.
 */
export type FieldUse = { bucket: UsageBucket } | { countedBy: string } | { noUse: string };

/** Fields by their path; an object is known by its fields. */
export type FieldTable = Record<string, FieldUse>;

const fills = (bucket: UsageBucket): FieldUse => ({ bucket });
const in_ = (countedBy: string): FieldUse => ({ countedBy });
const no = (noUse: string): FieldUse => ({ noUse });

const total = no("checked against the sum of the buckets");

const cost = no("the provider's own price, not the catalog's");
const timing = no("a time");

const costs: FieldTable = {
  cost,
  is_byok: no("whose account the provider bills"),
  "cost_details.upstream_inference_cost": cost,
  cost_in_usd_ticks: cost,
};

/** Tools that xAI, OpenRouter and Perplexity tell to have run. */
const providerTools: FieldTable = {
  num_sources_used: fills("searchSources"),
  num_search_queries: fills("webSearches"),
  "server_tool_use.web_search_requests": fills("webSearches"),
  "server_tool_use.web_fetch_requests": fills("webFetches"),
  "server_tool_use_details.web_search_requests": fills("webSearches"),
  "server_tool_use_details.tool_calls_requested": no("counts the searches, too"),
  "server_tool_use_details.tool_calls_executed": no("counts the searches, too"),
  "server_side_tool_usage_details.web_search_calls": fills("webSearches"),
  "server_side_tool_usage_details.x_search_calls": fills("toolCalls"),
  "server_side_tool_usage_details.code_interpreter_calls": fills("codeSessions"),
  "server_side_tool_usage_details.file_search_calls": fills("fileSearches"),
  "server_side_tool_usage_details.document_search_calls": fills("fileSearches"),
  "server_side_tool_usage_details.mcp_calls": no("billed by its tokens only"),
  "server_side_tool_usage_details.image_generation_calls": fills("toolCalls"),
  num_server_side_tools_used: no("the sum of its details"),
  "tool_usage.web_search": fills("webSearches"),
  "tool_usage.image_process": fills("toolCalls"),
  "tool_usage.mcp": no("billed by its tokens only"),
  "x_tools.web_search.count": fills("webSearches"),
  "x_tools.web_extractor.count": fills("webFetches"),
  "x_tools.code_interpreter.count": fills("codeSessions"),
  "plugins.search.count": fills("webSearches"),
  "plugins.search.strategy": no("how a search was made"),
};

/** `usage` of chat and the older completions. */
export const chatUsage: FieldTable = {
  prompt_tokens: fills("inputTokens"),
  "prompt_tokens_details.audio_tokens": fills("audioInputTokens"),
  "prompt_tokens_details.cache_write_tokens": fills("cacheWrite5mTokens"),
  "prompt_tokens_details.cached_tokens": fills("cacheReadTokens"),
  "prompt_tokens_details.image_tokens": fills("imageInputTokens"),
  "prompt_tokens_details.text_tokens": in_("prompt_tokens"),
  completion_tokens: fills("outputTokens"),
  "completion_tokens_details.accepted_prediction_tokens": in_("completion_tokens"),
  "completion_tokens_details.audio_tokens": fills("audioOutputTokens"),
  "completion_tokens_details.reasoning_tokens": fills("reasoningTokens"),
  "completion_tokens_details.rejected_prediction_tokens": in_("completion_tokens"),
  "completion_tokens_details.text_tokens": in_("completion_tokens"),
  total_tokens: total,
};

/**
 * What OpenAI's types do not have: the retention of cache writes, and what compatible providers tell, by their own
 * references (November 2026): DeepSeek, Moonshot, Mistral, OpenRouter, Vercel's gateway, LiteLLM, SGLang, xAI, Groq.
 */
export const chatExtraUsage: FieldTable = {
  "prompt_tokens_details.cache_write_tokens_details.ttl_30m_tokens": fills("cacheWrite5mTokens"),
  "prompt_tokens_details.cache_write_tokens_details.ttl_12h_tokens": fills("cacheWrite1hTokens"),
  "prompt_tokens_details.cache_creation_tokens": fills("cacheWrite5mTokens"),
  "prompt_tokens_details.web_search_requests": fills("webSearches"),
  "prompt_tokens_details.google_maps_grounding_requests": fills("toolCalls"),
  "prompt_tokens_details.tool_use_tokens": in_("prompt_tokens"),
  "prompt_tokens_details.initial_prompt_tokens": in_("prompt_tokens"),
  "prompt_tokens_details.video_tokens": in_("prompt_tokens"),
  prompt_tokens: fills("inputTokens"),
  prompt_cache_hit_tokens: fills("cacheReadTokens"),
  prompt_cache_miss_tokens: in_("prompt_tokens"),
  cached_tokens: fills("cacheReadTokens"),
  num_cached_tokens: fills("cacheReadTokens"),
  cache_read_input_tokens: fills("cacheReadTokens"),
  cache_creation_input_tokens: fills("cacheWrite5mTokens"),
  prompt_audio_seconds: fills("mediaMs"),
  "completion_tokens_details.image_tokens": fills("imageOutputTokens"),
  reasoning_tokens: fills("reasoningTokens"),
  service_tier: no("decides the price row"),
  ...providerTools,
  ...costs,
  queue_time: timing,
  prompt_time: timing,
  completion_time: timing,
  total_time: timing,
};

/** Sakana's, which bills what its models had others do beside all other counts. */
export const orchestratedUsage: FieldTable = {
  prompt_tokens: fills("inputTokens"),
  "prompt_tokens_details.orchestration_input_tokens": fills("inputTokens"),
  "prompt_tokens_details.orchestration_input_cached_tokens": fills("cacheReadTokens"),
  "completion_tokens_details.orchestration_output_tokens": fills("outputTokens"),
};
export const orchestratedResponsesUsage: FieldTable = {
  input_tokens: fills("inputTokens"),
  "input_tokens_details.orchestration_input_tokens": fills("inputTokens"),
  "input_tokens_details.orchestration_input_cached_tokens": fills("cacheReadTokens"),
  "output_tokens_details.orchestration_output_tokens": fills("outputTokens"),
};

/** Perplexity's, which bills what it reads and thinks while it searches beside all other counts. */
export const researchUsage: FieldTable = {
  prompt_tokens: fills("inputTokens"),
  citation_tokens: fills("inputTokens"),
  reasoning_tokens: fills("reasoningTokens"),
  num_search_queries: fills("webSearches"),
  search_context_size: no("decides the price row"),
  "cost.total_cost": cost,
};

/** `usage` of responses. */
export const responsesUsage: FieldTable = {
  input_tokens: fills("inputTokens"),
  "input_tokens_details.cache_write_tokens": fills("cacheWrite5mTokens"),
  "input_tokens_details.cache_write_tokens_details.ttl_30m_tokens": fills("cacheWrite5mTokens"),
  "input_tokens_details.cache_write_tokens_details.ttl_12h_tokens": fills("cacheWrite1hTokens"),
  "input_tokens_details.cached_tokens": fills("cacheReadTokens"),
  output_tokens: fills("outputTokens"),
  "output_tokens_details.reasoning_tokens": fills("reasoningTokens"),
  total_tokens: total,
};

/** What OpenAI's types of it do not have, but compatible providers tell. */
export const responsesExtraUsage: FieldTable = { ...providerTools, ...costs };

const svg: FieldTable = {
  "svg_usage.model": no("names the model whose prices hold"),
  "svg_usage.input_tokens": fills("inputTokens"),
  "svg_usage.output_tokens": fills("outputTokens"),
  "svg_usage.reasoning_tokens": fills("reasoningTokens"),
  "svg_usage.total_tokens": total,
};

/** `tool_usage` of responses. */
export const responsesToolUsage: FieldTable = {
  "image_gen.input_tokens": fills("imageInputTokens"),
  "image_gen.input_tokens_details.image_tokens": in_("image_gen.input_tokens"),
  "image_gen.input_tokens_details.text_tokens": fills("inputTokens"),
  "image_gen.output_tokens": fills("imageOutputTokens"),
  "image_gen.output_tokens_details.image_tokens": in_("image_gen.output_tokens"),
  "image_gen.output_tokens_details.text_tokens": fills("outputTokens"),
  "image_gen.total_tokens": total,
  "image_gen.cached_tokens": in_("image_gen.input_tokens"),
  "image_gen.cached_tokens_details.cached_image_tokens": in_("image_gen.input_tokens"),
  "image_gen.cached_tokens_details.cached_text_tokens": in_("image_gen.input_tokens"),
  "web_search.num_requests": fills("webSearches"),
};

/** Usage that items of a response carry themselves. */
export const responsesItemUsage: FieldTable = svg;

const credit = no("what the provider credits the operator for a retry");

/** `usage` of messages, whole and in message_delta, of the beta API too. */
export const messagesUsage: FieldTable = {
  input_tokens: fills("inputTokens"),
  cache_read_input_tokens: fills("cacheReadTokens"),
  cache_creation_input_tokens: fills("cacheWrite5mTokens"),
  "cache_creation.ephemeral_5m_input_tokens": fills("cacheWrite5mTokens"),
  "cache_creation.ephemeral_1h_input_tokens": fills("cacheWrite1hTokens"),
  output_tokens: fills("outputTokens"),
  "output_tokens_details.thinking_tokens": fills("reasoningTokens"),
  "server_tool_use.web_search_requests": fills("webSearches"),
  "server_tool_use.web_fetch_requests": fills("webFetches"),
  inference_geo: no("the region is fixed by model: the relay takes the parameter out"),
  service_tier: no("decides the price row"),
  speed: no("the relay takes the parameter out"),
  "fallback_credit.status.type": credit,
  "fallback_credit.status.reason": credit,
  "fallback_credit.status.remove_to_redeem": credit,
  "iterations.type": no("each kind is a run of a model and billed"),
  "iterations.model": no("names the model whose prices hold"),
  "iterations.input_tokens": fills("inputTokens"),
  "iterations.cache_read_input_tokens": fills("cacheReadTokens"),
  "iterations.cache_creation_input_tokens": fills("cacheWrite5mTokens"),
  "iterations.cache_creation.ephemeral_5m_input_tokens": fills("cacheWrite5mTokens"),
  "iterations.cache_creation.ephemeral_1h_input_tokens": fills("cacheWrite1hTokens"),
  "iterations.output_tokens": fills("outputTokens"),
};

const byKind = no("tells the kinds of the tokens, which have buckets of their own");

/** `usageMetadata` of generateContent. */
export const geminiUsage: FieldTable = {
  "promptTokensDetails.modality": byKind,
  "promptTokensDetails.tokenCount": in_("promptTokenCount"),
  "cacheTokensDetails.modality": byKind,
  "cacheTokensDetails.tokenCount": in_("cachedContentTokenCount"),
  "candidatesTokensDetails.modality": byKind,
  "candidatesTokensDetails.tokenCount": in_("candidatesTokenCount"),
  "toolUsePromptTokensDetails.modality": byKind,
  "toolUsePromptTokensDetails.tokenCount": in_("toolUsePromptTokenCount"),
  promptTokenCount: fills("inputTokens"),
  cachedContentTokenCount: fills("cacheReadTokens"),
  toolUsePromptTokenCount: fills("inputTokens"),
  candidatesTokenCount: fills("outputTokens"),
  thoughtsTokenCount: fills("reasoningTokens"),
  totalTokenCount: total,
  initialPromptTokenCount: in_("promptTokenCount"),
  trafficType: no("decides the price row"),
  serviceTier: no("decides the price row"),
};

/** `usage` of images, and `svg_usage` beside it. */
export const imagesUsage: FieldTable = {
  input_tokens: fills("inputTokens"),
  "input_tokens_details.image_tokens": fills("imageInputTokens"),
  "input_tokens_details.text_tokens": in_("input_tokens"),
  output_tokens: fills("imageOutputTokens"),
  "output_tokens_details.image_tokens": in_("output_tokens"),
  "output_tokens_details.text_tokens": fills("outputTokens"),
  total_tokens: total,
};
export const imagesAnswerUsage: FieldTable = svg;

/** `usage` of embeddings. */
export const embeddingsUsage: FieldTable = {
  prompt_tokens: fills("inputTokens"),
  total_tokens: in_("prompt_tokens"),
};

/** `usage` of transcriptions, by tokens or by length. */
export const transcriptionsUsage: FieldTable = {
  type: no("tells which fields there are"),
  input_tokens: fills("inputTokens"),
  "input_token_details.audio_tokens": fills("audioInputTokens"),
  "input_token_details.text_tokens": in_("input_tokens"),
  output_tokens: fills("outputTokens"),
  total_tokens: in_("input_tokens"),
  seconds: fills("mediaMs"),
};
