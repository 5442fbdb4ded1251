import { member, stringOf } from "../dialect.ts";
import { foldReply, type Reply } from "../reply.ts";
import { createStreamReader } from "./read-stream.ts";

/** Calls of a whole message by their place: only deltas number them. */
function numberCalls(message: unknown): unknown {
  const calls = member(message, "tool_calls");
  if (!Array.isArray(calls)) return message;
  const numbered = calls.map((call: unknown, index) => ({ ...(typeof call === "object" && call), index }));
  return { ...(message as object), tool_calls: numbered };
}

/**
 * Reads a whole chat completion, as a stream of one chunk; undefined when it is none. A whole answer without a
 * finish_reason has simply stopped.
 */
export function readReply(body: unknown): Reply | undefined {
  const choices = member(body, "choices");
  if (!Array.isArray(choices) || choices.length === 0 || member(body, "error")) return undefined;
  const reader = createStreamReader();
  const chunk = {
    ...(body as object),
    choices: choices.map((choice: unknown, index) => ({
      index,
      delta: numberCalls(member(choice, "message")),
      logprobs: member(choice, "logprobs"),
      finish_reason: stringOf(member(choice, "finish_reason")) || "stop",
    })),
  };
  return foldReply([...reader.read(chunk), ...reader.read("[DONE]")]);
}
