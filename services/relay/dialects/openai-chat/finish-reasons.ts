import type { FinishReason } from "../reply.ts";
import type { FinishName } from "./wire.ts";

/** What an answer held, by which one reason can be told from another. */
type ChoiceContent = { hasCalls: boolean; hasRefusal: boolean };

/**
 * Why a choice ended. Servers say `stop` after calls too (OpenAI when the call was forced), and some say `tool_calls`
 * without any: what the answer holds decides.
 */
export function readFinish(name: string, { hasCalls, hasRefusal }: ChoiceContent): FinishReason {
  if (name === "length") return "length";
  if (name === "content_filter") return "refusal";
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
