import type { CallerRequest } from "../conversion.ts";
import { member, type UpstreamError } from "../dialect.ts";
import type { ReplyUsage } from "../reply.ts";
import { stableHash } from "../call-id.ts";
import { writeServerTools } from "../server-tools.ts";
import type { OutputItem } from "./wire.ts";

/** What a response says of itself; `usage` and `output` are empty until its end. */
export type ResponseObject = Record<string, unknown> & { id: string; output: OutputItem[] };

const suffix = /^[\w-]{1,52}$/;

/** What the ids of a response and its items are made of, short enough for 64 characters with prefix and number. */
export function idBase(id: string): string {
  const bare = id.startsWith("resp_") ? id.slice(5) : id;
  if (suffix.test(bare)) return bare;
  return id === "" ? crypto.randomUUID().replaceAll("-", "") : stableHash(id);
}

// Settings that a response repeats, with what the API says where the request says nothing.
const repeated: readonly (readonly [name: string, otherwise: unknown])[] = [
  ["instructions", null],
  ["max_output_tokens", null],
  ["max_tool_calls", null],
  ["metadata", {}],
  ["parallel_tool_calls", true],
  ["prompt_cache_key", null],
  ["safety_identifier", null],
  ["temperature", null],
  ["tool_choice", "auto"],
  ["tools", []],
  ["top_logprobs", 0],
  ["top_p", null],
  ["truncation", "disabled"],
  ["user", null],
];

/** Settings of the request as its response repeats them. Nothing is stored, whatever was asked. */
export function echoSettings({ request }: CallerRequest): Record<string, unknown> {
  const format = member(member(request, "text"), "format") ?? { type: "text" };
  const verbosity = member(member(request, "text"), "verbosity") ?? "medium";
  const reasoning = member(request, "reasoning");
  return {
    ...Object.fromEntries(repeated.map(([name, otherwise]) => [name, request?.[name] ?? otherwise])),
    text: { format, verbosity },
    reasoning: { effort: member(reasoning, "effort") ?? null, summary: member(reasoning, "summary") ?? null },
    store: false,
    background: false,
    previous_response_id: null,
    service_tier: null,
    access_programs: null,
  };
}

/** Token counts the Format A way: input with what was cached, output with reasoning; never null (trap 21). */
export function writeUsage(usage: ReplyUsage = {}): Record<string, unknown> {
  const sum = (...counts: (bigint | undefined)[]): number =>
    Number(counts.reduce<bigint>((total, count) => total + (count ?? 0n), 0n));
  const written = sum(usage.cacheWrite5mTokens, usage.cacheWrite1hTokens);
  const input = written + sum(usage.inputTokens, usage.cacheReadTokens, usage.audioInputTokens, usage.imageInputTokens);
  const output = sum(usage.outputTokens, usage.reasoningTokens, usage.audioOutputTokens, usage.imageOutputTokens);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: sum(usage.cacheReadTokens), cache_write_tokens: written },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: sum(usage.reasoningTokens) },
    total_tokens: input + output,
    ...writeServerTools(usage),
  };
}

// Codes of a failed response; official clients know no others.
const errorCodes = new Set([
  "server_error",
  "rate_limit_exceeded",
  "invalid_prompt",
  "data_residency_mismatch",
  "bio_policy",
  "misalignment_policy_violation",
  "vector_store_timeout",
  "invalid_image",
  "invalid_image_format",
  "invalid_base64_image",
  "invalid_image_url",
  "image_too_large",
  "image_too_small",
  "image_parse_error",
  "image_content_policy_violation",
  "invalid_image_mode",
  "image_file_too_large",
  "unsupported_image_media_type",
  "empty_image_file",
  "failed_to_download_image",
  "image_file_not_found",
]);

/** The error of a failed response. */
export function writeFailure({ message, type, code }: UpstreamError): { code: string; message: string } {
  if (code !== undefined && errorCodes.has(code)) return { code, message };
  const isLimit = type === "rate_limit_error" || code === "RESOURCE_EXHAUSTED" || code === "429";
  return { code: isLimit ? "rate_limit_exceeded" : "server_error", message };
}
