import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { RealtimeServerEvent } from "openai/resources/realtime/realtime";
import { TallyFold } from "../../dialects/fold-tally.ts";
import { ResponseReader } from "../../dialects/openai-realtime/answers.ts";
import { readType } from "../../testing/declared-types.ts";
import { responseIdOf } from "./responses.ts";

/**
 * What an event of a provider is to the books: `counted` or `the end`: of a response, which is charged by it; `of a
 * response`: names one, which begins a call where it is new; `session`: moves what is held, or the charge of a
 * transcript; `error`; `passes`: neither costs nor changes anything.
 */
type Use = "counted" | "the end" | "of a response" | "session" | "error" | "passes";

// Whether this compiles tells whether the official client knows a kind that is not here.
const kinds: Record<RealtimeServerEvent["type"], Use> = {
  error: "error",
  "session.created": "session",
  "session.updated": "session",
  "conversation.created": "passes",
  "conversation.item.created": "passes",
  "conversation.item.added": "passes",
  "conversation.item.done": "passes",
  "conversation.item.deleted": "passes",
  "conversation.item.retrieved": "passes",
  "conversation.item.truncated": "passes",
  "conversation.item.input_audio_transcription.delta": "passes",
  "conversation.item.input_audio_transcription.segment": "passes",
  "conversation.item.input_audio_transcription.completed": "session",
  "conversation.item.input_audio_transcription.failed": "session",
  "input_audio_buffer.committed": "session",
  "input_audio_buffer.speech_started": "session",
  "input_audio_buffer.speech_stopped": "passes",
  "input_audio_buffer.cleared": "passes",
  "input_audio_buffer.timeout_triggered": "passes",
  "input_audio_buffer.dtmf_event_received": "passes",
  "output_audio_buffer.started": "passes",
  "output_audio_buffer.stopped": "passes",
  "output_audio_buffer.cleared": "passes",
  "rate_limits.updated": "passes",
  "mcp_list_tools.in_progress": "passes",
  "mcp_list_tools.completed": "passes",
  "mcp_list_tools.failed": "passes",
  "response.created": "of a response",
  "response.output_item.added": "of a response",
  "response.output_item.done": "of a response",
  "response.content_part.added": "of a response",
  "response.content_part.done": "of a response",
  "response.output_text.delta": "counted",
  "response.output_text.done": "of a response",
  "response.output_audio.delta": "counted",
  "response.output_audio.done": "of a response",
  "response.output_audio_transcript.delta": "counted",
  "response.output_audio_transcript.done": "of a response",
  "response.function_call_arguments.delta": "counted",
  "response.function_call_arguments.done": "of a response",
  "response.mcp_call_arguments.delta": "counted",
  "response.mcp_call_arguments.done": "of a response",
  // They name no response, and would begin one that never ends.
  "response.mcp_call.in_progress": "passes",
  "response.mcp_call.completed": "passes",
  "response.mcp_call.failed": "passes",
  "response.done": "the end",
};

const file = join(import.meta.dirname, "../../../../node_modules/openai/resources/realtime/realtime.d.ts");
const declared = new Map(
  readType(file, "RealtimeServerEvent").objects.map(({ fields }) => [
    String(fields.get("type")?.shape().literals[0]),
    fields,
  ]),
);

const usesOfResponses = new Set<Use>(["counted", "the end", "of a response"]);

for (const [type, use] of Object.entries(kinds)) {
  test(`${type}: ${use}`, () => {
    const fields = declared.get(type);
    assert.ok(fields, "the client declares it");
    // As the provider sends it: with the ids that its type has.
    const event = {
      type,
      ...(fields.has("response_id") && { response_id: "r" }),
      ...(fields.has("response") && { response: { id: "r", usage: { output_tokens: 1 } } }),
      ...(fields.has("delta") && { delta: "AAAA" }),
      ...(type === "error" && { error: { message: "x" } }),
    };
    assert.equal(responseIdOf(event, type), usesOfResponses.has(use) ? "r" : undefined);
    const fold = new TallyFold();
    const kind = new ResponseReader(fold).read(event, "pcm");
    const { isComplete, hasContent } = fold.tally;
    assert.deepEqual([isComplete, hasContent], [use === "the end", use === "counted"]);
    assert.equal(kind, use === "error" ? "error" : undefined);
  });
}
