import assert from "node:assert/strict";
import { test } from "node:test";
import type { TranscriptionStreamEvent } from "openai/resources/audio/transcriptions";
import { emptyTally, RequestError, type Envelope } from "../dialect.ts";
import { dialects } from "../index.ts";
import { readFormBody } from "../json/form-body.ts";
import { readUsage } from "./usage.ts";
import { readEnvelope } from "./request.ts";
import { readStreamEvent } from "../sse.ts";
import { tallyReaderOf } from "../testing/reading.ts";

const { createTap } = dialects["openai-transcriptions"];
const readReply = tallyReaderOf("openai-transcriptions");

function withFields(fields: Record<string, string>, audioBytes = 8_000): Envelope {
  const parts = Object.entries({ model: "m", ...fields }).map(
    ([name, value]) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const file = `--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n${"x".repeat(audioBytes)}\r\n`;
  const bytes = Buffer.from(`${parts.join("")}${file}--b--\r\n`);
  return readEnvelope(readFormBody(bytes, "multipart/form-data; boundary=b"), "m");
}

test("the form says which kind of answer comes", () => {
  assert.equal(withFields({}).answer, "json");
  assert.equal(withFields({ response_format: "verbose_json" }).answer, "json");
  for (const format of ["text", "srt", "vtt"]) assert.equal(withFields({ response_format: format }).answer, "text");
  for (const stream of ["true", "True"]) assert.equal(withFields({ stream }).answer, "events");
  for (const stream of ["false", "False"]) assert.equal(withFields({ stream }).answer, "json");
  for (const stream of ["1", "yes", ""]) assert.throws(() => withFields({ stream }), RequestError);
});

test("what is held is bounded by the size of the file", () => {
  assert.deepEqual(withFields({}, 8_001).units, { mediaMs: 3_000n, audioInputTokens: 30n });
});

test("sound that is no file of the form cannot be measured, and is refused", () => {
  const bytes = Buffer.from(
    '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nhttps://a.example/b\r\n--b--\r\n',
  );
  const body = readFormBody(bytes, "multipart/form-data; boundary=b");
  assert.throws(() => readEnvelope(body, "m"), /field file must be a file/);
});

test("the form goes on with the upstream's model and is otherwise untouched", () => {
  const envelope = withFields({ language: "de" });
  const prepared = dialects["openai-transcriptions"].prepareBody(envelope, "theirs").toString();
  assert.equal(prepared, envelope.body.bytes.toString().replace("\r\n\r\nm\r\n", "\r\n\r\ntheirs\r\n"));
});

test("usage is of type tokens or of type duration", () => {
  assert.deepEqual(readUsage({ type: "duration", seconds: 2.5 }), { mediaMs: 2_500n });
  const tokens = { type: "tokens", input_tokens: 30, input_token_details: { audio_tokens: 26 }, output_tokens: 4 };
  assert.deepEqual(readUsage(tokens), { inputTokens: 4n, audioInputTokens: 26n, outputTokens: 4n });
  assert.equal(readUsage(undefined), undefined);
});

const replyRows: [string, unknown, bigint | undefined, bigint | undefined][] = [
  ["usage by duration", { text: "hi", usage: { type: "duration", seconds: 3 } }, 3_000n, 134n],
  [
    "Mistral's usage, which tells the time beside tokens",
    { text: "hi", usage: { prompt_audio_seconds: 3, prompt_tokens: 4, completion_tokens: 4, total_tokens: 383 } },
    3_000n,
    134n,
  ],
  ["usage in words that nobody knows tells nothing", { text: "hi", usage: { prompt_tokens: 4 } }, undefined, 134n],
  ["usage of no kind, and a duration", { text: "hi", usage: { cost: 1 }, duration: 2 }, 2_000n, 134n],
  ["verbose_json tells its duration", { text: "hi", duration: 8.47 }, 8_470n, 134n],
  [
    "subtitles end with the last cue",
    "1\n00:00:00,000 --> 00:00:01,000\na\n\n2\n00:01:00,000 --> 00:01:02,500\nb\n",
    undefined,
    62_500n,
  ],
  ["web subtitles may leave out hours", "WEBVTT\n\n00:00.000 --> 00:07.250\nhello\n", undefined, 7_250n],
  ["plain text by its length", "x".repeat(15), undefined, 1_000n],
];
for (const [what, body, told, counted] of replyRows) {
  test(`the length of the sound: ${what}`, () => {
    const tally = readReply(body);
    assert.equal(tally?.usage?.mediaMs, told);
    assert.equal(tally?.counted.mediaMs, counted);
    assert.equal(tally?.isComplete, true);
  });
}

test("what is no transcript is not taken for one; silence is one", () => {
  for (const body of [undefined, null, {}, { error: { message: "no" } }]) assert.equal(readReply(body), undefined);
  assert.equal(readReply({ text: "" })?.hasContent, true);
});

test("a streamed transcript is whole at transcript.text.done", () => {
  const tally = emptyTally();
  const tap = createTap(withFields({ stream: "true" }), (error) => error);
  tap.read(readStreamEvent(Buffer.from('data: {"type":"transcript.text.delta","delta":"12345678"}\n\n')), tally);
  assert.ok(tally.hasContent && !tally.isComplete);
  const usage = { type: "tokens", input_tokens: 14, input_token_details: { audio_tokens: 14 }, output_tokens: 2 };
  tap.read(
    readStreamEvent(
      Buffer.from(`data: ${JSON.stringify({ type: "transcript.text.done", text: "12345678", usage })}\n\n`),
    ),
    tally,
  );
  assert.equal(tally.isComplete, true);
  assert.equal(tally.usage?.audioInputTokens, 14n);
});

// Whether this compiles tells whether the official client knows a kind that is not here.
const kinds: Record<TranscriptionStreamEvent["type"], "content" | "the end"> = {
  "transcript.text.delta": "content",
  "transcript.text.segment": "content",
  "transcript.text.done": "the end",
};

for (const [type, use] of Object.entries(kinds)) {
  test(`${type} is read as ${use}`, () => {
    const tally = emptyTally();
    const tap = createTap(withFields({ stream: "true" }), (error) => error);
    const event = { type, delta: "one", text: "one", end: 2.5 };
    tap.read(readStreamEvent(Buffer.from(`data: ${JSON.stringify(event)}\n\n`)), tally);
    assert.deepEqual([tally.hasContent, tally.isComplete], [true, use === "the end"]);
  });
}

test("a streamed transcript of Mistral's is content, and whole at transcription.done, by the time that it tells", () => {
  const tally = emptyTally();
  const tap = createTap(withFields({ stream: "true" }), (error) => error);
  const read = (event: object): void =>
    void tap.read(readStreamEvent(Buffer.from(`data: ${JSON.stringify(event)}\n\n`)), tally);
  read({ type: "transcription.language", audio_language: "en" });
  assert.equal(tally.hasContent, false);
  read({ type: "transcription.text.delta", text: "a".repeat(60) });
  assert.deepEqual([tally.hasContent, tally.counted.mediaMs], [true, 4_000n]);
  read({ type: "transcription.segment", text: "a".repeat(60), start: null, end: null });
  assert.equal(tally.counted.mediaMs, 4_000n);
  const usage = { prompt_audio_seconds: 12, prompt_tokens: 4, completion_tokens: 30, total_tokens: 34 };
  read({ type: "transcription.done", model: "voxtral", text: "a", usage, language: "en" });
  assert.deepEqual([tally.isComplete, tally.usage], [true, { mediaMs: 12_000n }]);
});

test("sound is measured by the segments of speakers, and their text is counted once", () => {
  const tally = emptyTally();
  const tap = createTap(withFields({ stream: "true" }), (error) => error);
  const read = (event: object): void =>
    void tap.read(readStreamEvent(Buffer.from(`data: ${JSON.stringify(event)}\n\n`)), tally);
  const text = "a".repeat(60);
  read({ type: "transcript.text.delta", delta: text });
  const { contentTokens } = tally;
  assert.equal(tally.counted.mediaMs, 4_000n, "by its length");
  read({ type: "transcript.text.segment", text, start: 0, end: 9.5, speaker: "A" });
  assert.deepEqual([tally.counted.mediaMs, tally.contentTokens], [9_500n, contentTokens]);
  read({ type: "transcript.text.segment", text, start: 1, end: 3, speaker: "B" });
  assert.equal(tally.counted.mediaMs, 9_500n, "who speaks at the same time is no more sound");
  read({ type: "transcript.text.delta", delta: text });
  assert.equal(tally.counted.mediaMs, 13_500n);
});
