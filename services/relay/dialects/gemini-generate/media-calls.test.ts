import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { UnsupportedError } from "../conversation.ts";
import { readEmbeddings, readTally as readEmbeddingsTally, writeEmbeddings } from "./embeddings.ts";
import { readImages, readTally as readImagesTally, writeImage } from "./images.ts";
import { refusalOf } from "./media-call.ts";
import { readSpeech, readTally as readSpeechTally, writeSpeech } from "./speech.ts";
import { envelopeOf } from "../testing/reading.ts";

test("embeddings: one text or many become one batch, in their order, with their size", () => {
  const { path, body, dropped } = writeEmbeddings(
    { input: ["a", "b"], dimensions: 3, user: "u", encoding_format: "base64", other: 1 },
    "gemini-embedding-001",
  );
  assert.equal(path, "/v1beta/models/gemini-embedding-001:batchEmbedContents");
  const requestOf = (text: string): object => ({
    model: "models/gemini-embedding-001",
    content: { parts: [{ text }] },
    outputDimensionality: 3,
  });
  assert.deepEqual(body, { requests: [requestOf("a"), requestOf("b")] });
  assert.deepEqual([...dropped], ["user", "other"]);
  assert.equal((writeEmbeddings({ input: "a" }, "m").body["requests"] as unknown[]).length, 1);
  for (const input of [[1, 2], [[1, 2]], 7]) assert.throws(() => writeEmbeddings({ input }, "m"), UnsupportedError);
});

test("embeddings: the answer is a Format A list, of length 1 where it was cut, with estimated tokens", () => {
  const request = { input: ["12345678", "漢"], dimensions: 2 };
  assert.deepEqual(readEmbeddings({ embeddings: [{ values: [3, 4] }, { values: [0, 0] }] }, request, "m"), {
    object: "list",
    data: [
      { object: "embedding", index: 0, embedding: [0.6, 0.8] },
      { object: "embedding", index: 1, embedding: [0, 0] },
    ],
    model: "m",
    usage: { prompt_tokens: 8, total_tokens: 8 },
  });
  const told = { embeddings: [{ values: [3, 4] }], usageMetadata: { promptTokenCount: 9 } };
  const [whole] = [readEmbeddings(told, { input: "x" }, "m")];
  assert.deepEqual(whole?.["usage"], { prompt_tokens: 9, total_tokens: 9 });
  assert.deepEqual(whole?.["data"], [{ object: "embedding", index: 0, embedding: [3, 4] }]);
  for (const answer of [{}, { embeddings: [] }, { embeddings: [{ values: ["x"] }] }, undefined]) {
    assert.equal(readEmbeddings(answer, { input: "x" }, "m"), undefined);
  }
});

test("images: the size is a ratio, and what Gemini does not know is named or refused", () => {
  const { path, body, dropped } = writeImage(
    { model: "m", prompt: "p", size: "1792x1024", quality: "high", n: 1 },
    "m",
  );
  assert.equal(path, "/v1beta/models/m:generateContent");
  assert.deepEqual(body, {
    contents: [{ role: "user", parts: [{ text: "p" }] }],
    generationConfig: { responseModalities: ["IMAGE"], imageConfig: { aspectRatio: "16:9" } },
  });
  assert.deepEqual([...dropped], ["quality"]);
  const ratioOf = (size: string): unknown =>
    JSON.stringify(writeImage({ prompt: "p", size }, "m").body).match(/\d+:\d+/)?.[0];
  assert.deepEqual(["1024x1024", "1536x1024", "1024x1536", "1024x1792"].map(ratioOf), ["1:1", "3:2", "2:3", "9:16"]);
  assert.equal(ratioOf("auto"), undefined);
  const harmless = { prompt: "p", background: "auto", response_format: "b64_json", stream: false, user: null };
  assert.equal(writeImage(harmless, "m").dropped.size, 0);
  for (const more of [{ n: 2 }, { n: "2" }, { size: "100x1000" }, { size: "big" }, { stream: true }, { prompt: 1 }]) {
    assert.throws(() => writeImage({ prompt: "p", ...more }, "m"), UnsupportedError);
  }
});

const answerOf = (...parts: object[]): object => ({ candidates: [{ content: { parts } }] });

test("images: the answer has the pictures and their tokens, without drafts", () => {
  const image = { inlineData: { mimeType: "image/png", data: "AAAA" } };
  const usageMetadata = {
    promptTokenCount: 7,
    candidatesTokenCount: 1290,
    thoughtsTokenCount: 10,
    totalTokenCount: 1307,
    candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 1290 }],
  };
  assert.deepEqual(
    readImages({ ...answerOf({ text: "here" }, { ...image, thought: true }, image), usageMetadata }, 5),
    {
      created: 5,
      data: [{ b64_json: "AAAA" }],
      output_format: "png",
      usage: {
        input_tokens: 7,
        output_tokens: 1300,
        total_tokens: 1307,
        input_tokens_details: { text_tokens: 7, image_tokens: 0 },
        output_tokens_details: { text_tokens: 10, image_tokens: 1290 },
      },
    },
  );
  for (const answer of [{}, answerOf({ text: "no" }), { candidates: [{ finishReason: "IMAGE_SAFETY" }] }]) {
    assert.equal(readImages(answer, 5), undefined);
  }
});

test("speech: voice and directions go to their places; formats that need an encoder are refused", () => {
  const request = { input: "Hello", voice: "Kore", response_format: "wav", speed: 1.5, instructions: "Say cheerfully" };
  const { body, dropped } = writeSpeech(request, "m");
  assert.deepEqual(body, {
    contents: [{ role: "user", parts: [{ text: "Say cheerfully: Hello" }] }],
    generationConfig: {
      responseModalities: ["AUDIO"],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } } },
    },
  });
  assert.deepEqual([...dropped], ["speed"]);
  for (const more of [
    { response_format: "mp3" },
    { response_format: undefined },
    { stream_format: "sse" },
    { voice: {} },
  ]) {
    assert.throws(() => writeSpeech({ ...request, ...more }, "m"), UnsupportedError);
  }
});

test("speech: samples are pcm as they are, and wav behind a header that tells their rate", () => {
  const samples = Buffer.from([1, 0, 2, 0]);
  const part = { inlineData: { mimeType: "audio/L16;codec=pcm;rate=16000", data: samples.toString("base64") } };
  const pcm = readSpeech(answerOf(part, part), { response_format: "pcm" });
  assert.deepEqual(pcm, { contentType: "audio/pcm", bytes: Buffer.concat([samples, samples]) });
  const wav = readSpeech(answerOf(part), { response_format: "wav" })?.bytes ?? Buffer.alloc(0);
  assert.equal(wav.length, 48);
  assert.equal(wav.toString("latin1", 0, 4) + wav.toString("latin1", 8, 16), "RIFFWAVEfmt ");
  assert.deepEqual(
    [wav.readUInt32LE(4), wav.readUInt32LE(24), wav.readUInt32LE(28), wav.readUInt32LE(40)],
    [40, 16_000, 32_000, 4],
  );
  assert.equal(readSpeech(answerOf({ text: "no" }), {}), undefined);
});

test("embeddings are charged by the provider's count, else by the estimate that the caller is told", () => {
  const embeddings = [{ values: [1] }];
  const told = readEmbeddingsTally({ embeddings, usageMetadata: { promptTokenCount: 9 } }, "x");
  assert.deepEqual([told?.usage, told?.counted], [{ inputTokens: 9n }, {}]);
  const estimated = readEmbeddingsTally({ embeddings }, ["12345678", "漢"]);
  assert.deepEqual([estimated?.usage, estimated?.counted], [undefined, { inputTokens: 8n }]);
  assert.ok(estimated?.isComplete && estimated.hasContent);
  assert.equal(readEmbeddingsTally({}, "x"), undefined);
});

test("tokens of pictures and sound are told by kind, or are all of the kind that was asked for", () => {
  const part = { inlineData: { mimeType: "image/png", data: "AAAA" } };
  const usageMetadata = { promptTokenCount: 7, candidatesTokenCount: 90, totalTokenCount: 97 };
  const unnamed = { ...answerOf(part, part), usageMetadata };
  const image = readImagesTally(unnamed, envelopeOf());
  assert.deepEqual([image?.usage?.imageOutputTokens, image?.usage?.outputTokens], [90n, 0n]);
  assert.deepEqual([image?.counted, image?.toldTokens], [{ images: 2n }, 97n]);
  const details = readImages(unnamed, 5)?.["usage"] as { output_tokens_details: object };
  assert.deepEqual(details.output_tokens_details, { text_tokens: 0, image_tokens: 90 });
  assert.equal(readSpeechTally(unnamed, envelopeOf())?.usage?.audioOutputTokens, 90n);
  const candidatesTokensDetails = [
    { modality: "TEXT", tokenCount: 10 },
    { modality: "IMAGE", tokenCount: 80 },
  ];
  const named = readImagesTally(
    { ...unnamed, usageMetadata: { ...usageMetadata, candidatesTokensDetails } },
    envelopeOf(),
  );
  assert.deepEqual([named?.usage?.imageOutputTokens, named?.usage?.outputTokens], [80n, 10n]);
  const words = readImagesTally({ ...answerOf({ text: "no" }), usageMetadata }, envelopeOf());
  assert.deepEqual([words?.usage?.imageOutputTokens, words?.usage?.outputTokens, words?.hasContent], [0n, 90n, true]);
});

test("only what was held back for its content is a refusal", () => {
  const ending = (finishReason: string): object => ({ candidates: [{ finishReason }] });
  assert.match(refusalOf(ending("IMAGE_SAFETY")) ?? "", /IMAGE_SAFETY/);
  assert.match(refusalOf({ promptFeedback: { blockReason: "PROHIBITED_CONTENT" } }) ?? "", /PROHIBITED_CONTENT/);
  for (const answer of [ending("STOP"), ending("OTHER"), {}, undefined]) assert.equal(refusalOf(answer), undefined);
});

test("anything Gemini sends never throws", () => {
  fc.assert(
    fc.property(fc.anything(), fc.jsonValue(), (one, other) => {
      for (const answer of [one, other, { candidates: other }, { embeddings: other, usageMetadata: one }]) {
        readEmbeddings(answer, { input: "x" }, "m");
        readImages(answer, 1);
        readSpeech(answer, { response_format: "wav" });
        readEmbeddingsTally(answer, "x");
        readImagesTally(answer, envelopeOf());
        readSpeechTally(answer, envelopeOf());
        refusalOf(answer);
      }
    }),
  );
});
