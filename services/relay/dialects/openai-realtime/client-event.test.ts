import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  RealtimeClientEvent,
  RealtimeResponseCreateParams,
  RealtimeResponseUsage,
  RealtimeSessionCreateRequest,
} from "openai/resources/realtime/realtime";
import { noCounts } from "../dialect.ts";
import { readClientEvent, readSession, type EventRules } from "./client-event.ts";
import { readUsage } from "./usage.ts";

const rules: EventRules = {
  model: "talk",
  upstreamModel: "gpt-talk",
  transcriberOf: (model) => (model === "hear" ? "whisper" : undefined),
  sharesPrompts: true,
  sharesVoices: false,
};
const tool = { type: "function", name: "get", parameters: { type: "object" } } as const;

// Whether types compile tells whether the official client knows a field or an event that is not here.
const session: Required<RealtimeSessionCreateRequest> = {
  type: "realtime",
  model: "talk",
  audio: {
    input: {
      format: { type: "audio/pcmu" },
      noise_reduction: { type: "near_field" },
      transcription: { model: "hear", language: "de" },
      turn_detection: { type: "semantic_vad" },
    },
    output: { format: { type: "audio/pcma" }, speed: 1, voice: "marin" },
  },
  include: ["item.input_audio_transcription.logprobs"],
  instructions: "Be brief.",
  max_output_tokens: 50,
  output_modalities: ["audio"],
  parallel_tool_calls: true,
  prompt: { id: "pmpt_1" },
  reasoning: { effort: "low" },
  tool_choice: "auto",
  tools: [tool, { type: "mcp", server_label: "s", server_url: "https://mcp.example" }],
  tracing: "auto",
  truncation: "auto",
};
const response: Required<RealtimeResponseCreateParams> = {
  audio: { output: { voice: "cedar" } },
  conversation: "none",
  input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] }],
  instructions: "x",
  max_output_tokens: "inf",
  metadata: { a: "b" },
  output_modalities: ["text"],
  parallel_tool_calls: false,
  prompt: { id: "pmpt_1" },
  reasoning: { effort: "low" },
  tool_choice: "none",
  tools: [tool],
};
const events: { [Type in RealtimeClientEvent["type"]]: Required<Extract<RealtimeClientEvent, { type: Type }>> } = {
  "session.update": { type: "session.update", event_id: "e", session },
  "input_audio_buffer.append": { type: "input_audio_buffer.append", event_id: "e", audio: "AAAA" },
  "input_audio_buffer.commit": { type: "input_audio_buffer.commit", event_id: "e" },
  "input_audio_buffer.clear": { type: "input_audio_buffer.clear", event_id: "e" },
  "output_audio_buffer.clear": { type: "output_audio_buffer.clear", event_id: "e" },
  "conversation.item.create": {
    type: "conversation.item.create",
    event_id: "e",
    previous_item_id: "root",
    item: { type: "function_call_output", call_id: "c", output: "{}" },
  },
  "conversation.item.delete": { type: "conversation.item.delete", event_id: "e", item_id: "i" },
  "conversation.item.retrieve": { type: "conversation.item.retrieve", event_id: "e", item_id: "i" },
  "conversation.item.truncate": {
    type: "conversation.item.truncate",
    event_id: "e",
    item_id: "i",
    content_index: 0,
    audio_end_ms: 1,
  },
  "response.create": { type: "response.create", event_id: "e", response },
  "response.cancel": { type: "response.cancel", event_id: "e", response_id: "r" },
};

for (const [type, event] of Object.entries(events)) {
  test(`${type} passes with every field that the official client knows`, () => {
    const read = readClientEvent(event, rules);
    const sent = JSON.parse(read.frame) as unknown;
    const audio = {
      ...session.audio,
      input: { ...session.audio.input, transcription: { model: "whisper", language: "de" } },
    };
    const named = { ...session, model: "gpt-talk", audio };
    assert.deepEqual(sent, type === "session.update" ? { ...event, session: named } : event);
    assert.equal(read.eventId, "e");
  });
}

test("what an update changes is told, by the names of today and of the beta", () => {
  const { change } = readSession(session, rules);
  assert.deepEqual(change, { heard: "g711", spoken: "g711", transcriber: "hear", outputCap: 50 });
  const beta = {
    input_audio_format: "pcm16",
    output_audio_format: "g711_ulaw",
    input_audio_transcription: null,
    max_response_output_tokens: "inf",
  };
  const old = readSession(beta, rules).change;
  assert.deepEqual(old, { heard: "pcm", spoken: "g711", transcriber: null, outputCap: null });
});

test("usage is read into disjoint buckets, each token once", () => {
  const usage: RealtimeResponseUsage = {
    total_tokens: 253,
    input_tokens: 132,
    output_tokens: 121,
    input_token_details: {
      text_tokens: 119,
      audio_tokens: 10,
      image_tokens: 3,
      cached_tokens: 70,
      cached_tokens_details: { text_tokens: 64, audio_tokens: 5, image_tokens: 1 },
    },
    output_token_details: { text_tokens: 30, audio_tokens: 91 },
  };
  const expected = { cacheReadTokens: 70n, inputTokens: 55n, audioInputTokens: 5n, imageInputTokens: 2n };
  const made = { outputTokens: 30n, audioOutputTokens: 91n, reasoningTokens: 0n };
  assert.deepEqual(readUsage(usage), { ...expected, ...made });
  // Without the kinds of what was cached, text comes first: sound is dearer.
  const plain = { ...usage, input_token_details: { ...usage.input_token_details, cached_tokens_details: null } };
  assert.deepEqual([readUsage(plain)?.audioInputTokens, readUsage(plain)?.inputTokens], [10n, 49n]);
  assert.equal(readUsage({ ...usage, output_tokens: -1 }), noCounts);
  assert.equal(readUsage(null), undefined);
  // Parts that exceed their whole are never more than it.
  const lying = readUsage({ input_tokens: 5, output_tokens: 5, output_token_details: { audio_tokens: 50 } });
  assert.deepEqual([lying?.audioOutputTokens, lying?.outputTokens], [5n, 0n]);
});
