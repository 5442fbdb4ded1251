import type { FinishReason } from "../reply.ts";
import type { FinishName } from "./wire.ts";

// Beside OpenAI's own: what Mistral, Groq's and Google's gateways, and Zhipu say, and gateways that pass on a reason of
// Anthropic's or Gemini's.
const limits = new Set(["length", "max_tokens", "model_length", "model_context_window_exceeded"]);
const filters = new Set([
  "content_filter",
  "sensitive",
  "refusal",
  "safety",
  "recitation",
  "blocklist",
  "prohibited_content",
  "spii",
]);
// The server gave up: OpenRouter, DeepSeek, Zhipu, vLLM.
const failures = new Set(["error", "insufficient_system_resource", "network_error", "abort"]);

// Servers write them in capitals and with hyphens, too.
const normalized = (name: string): string => name.toLowerCase().replaceAll("-", "_");

/** Whether an answer that ended for this reason is not what the model would have said. */
export const isBrokenOff = (name: string | undefined): boolean => name !== undefined && failures.has(normalized(name));

/** What an answer held, by which one reason can be told from another. */
type ChoiceContent = { hasCalls: boolean; hasRefusal: boolean };

/**
 * Why a choice ended. Servers say `stop` after calls too (OpenAI when the call was forced), and some say `tool_calls`
 * without any: what the answer holds decides.
 */
export function readFinish(told: string, { hasCalls, hasRefusal }: ChoiceContent): FinishReason {
  const name = normalized(told);
  if (limits.has(name)) return "length";
  if (filters.has(name)) return "refusal";
  if (hasCalls) return "calls";
  return hasRefusal ? "refusal" : "stop";
}

const names: Record<Exclude<FinishReason, "refusal">, FinishName> = {
  stop: "stop",
  "stop-sequence": "stop",
  length: "length",
  calls: "tool_calls",
  pause: "stop",
};

/**
 * A refusal in the model's own words ends with `stop`; one without words was filtered. Who declared `functions` knows
 * calls by their older name.
 */
export function writeFinish(reason: FinishReason, hasRefusal: boolean, isOld: boolean): FinishName {
  if (reason === "refusal") return hasRefusal ? "stop" : "content_filter";
  if (reason === "calls" && isOld) return "function_call";
  return names[reason];
}
