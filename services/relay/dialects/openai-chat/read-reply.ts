import type { AnswerSink, ReadingContext } from "../answer.ts";
import { readBaseError } from "../base-error.ts";
import { countOf, member, stringOf } from "../dialect.ts";
import { createStreamReader } from "./read-stream.ts";

/** Calls of a whole message by their place: only deltas number them. */
function numberCalls(message: unknown): unknown {
  const calls = member(message, "tool_calls");
  if (!Array.isArray(calls)) return message;
  const numbered = calls.map((call: unknown, index) => ({ ...(typeof call === "object" && call), index }));
  return { ...(message as object), tool_calls: numbered };
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);

/**
 * One message of the many that a choice of Mistral's holds whose model used tools of its provider
 * (@mistralai/mistralai 2.7, `ChatCompletionChoice.messages`): what its model said, and the calls that nobody has
 * answered. The others were run there.
 */
function joinMessages(messages: unknown): object {
  const answered = new Set(listOf(messages).map((message) => member(message, "tool_call_id")));
  const said = listOf(messages).filter((message) => member(message, "role") !== "tool");
  const calls = said.flatMap((message) => listOf(member(message, "tool_calls")));
  const isRun = (call: unknown): boolean => answered.has(member(call, "id") ?? null);
  return {
    content: said.flatMap((message) => member(message, "content") ?? []),
    tool_calls: calls.filter((call) => !isRun(call)),
    executed_tools: calls
      .filter(isRun)
      .map((call, index) => ({ index, name: member(member(call, "function"), "name") })),
  };
}

const messageOf = (choice: unknown): unknown =>
  member(choice, "message") ?? (member(choice, "messages") ? joinMessages(member(choice, "messages")) : undefined);

/**
 * Reads a whole chat completion, as a stream of one chunk; false when it is none. A whole answer without a
 * finish_reason has simply stopped.
 */
export function readReply(body: unknown, sink: AnswerSink, context: ReadingContext): boolean {
  const choices = member(body, "choices");
  if (!Array.isArray(choices) || readBaseError(body)) return false;
  const reader = createStreamReader(sink, context);
  const chunk = {
    id: member(body, "id"),
    model: member(body, "model"),
    created: member(body, "created"),
    service_tier: member(body, "service_tier"),
    usage: member(body, "usage"),
    search_results: member(body, "search_results"),
    web_search: member(body, "web_search"),
    search_info: member(body, "search_info"),
    references: member(body, "references"),
    citations: member(body, "citations"),
    choices: choices.map((choice: unknown, index) => ({
      index,
      delta: numberCalls(messageOf(choice)),
      logprobs: member(choice, "logprobs"),
      finish_reason: stringOf(member(choice, "finish_reason")) || "stop",
    })),
  };
  if (member(body, "error")) sink.unreadable("an error stands beside the answer");
  reader.read({ data: "", json: chunk });
  sink.ended(true, true);
  // What was paid for has content, also where nothing of it shows.
  if (countOf(member(member(body, "usage"), "completion_tokens")) > 0n) sink.content(0);
  reader.read({ data: "[DONE]", json: undefined });
  return true;
}
