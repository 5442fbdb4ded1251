import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { RefusalReason } from "#proto/video/v1/video_pb.ts";
import { geminiVideos } from "./gemini-videos.ts";
import type { Job, PollResult, ProviderAnswer } from "./provider.ts";

const job: Job = { model: "veo-3.1", prompt: "a tide pool", seconds: 8, size: "1280x720", reference: undefined };
const name = "models/veo-3.1/operations/ab12-cd";
const uri = "https://generativelanguage.googleapis.com/v1beta/files/x1:download?alt=media";

const answer = (status: number, body: unknown, retryAfterSeconds?: number): ProviderAnswer => ({
  status,
  body,
  retryAfterSeconds,
});
const error = (code: number, status: string, details: object[] = []): object => ({
  error: { code, message: "No.", status, details },
});

describe("what is submitted", () => {
  const sizes: Record<string, [string, string]> = {
    "1280x720": ["16:9", "720p"],
    "720x1280": ["9:16", "720p"],
    "1920x1080": ["16:9", "1080p"],
    "1080x1920": ["9:16", "1080p"],
    "3840x2160": ["16:9", "4k"],
    "2160x3840": ["9:16", "4k"],
  };
  for (const [size, [aspectRatio, resolution]] of Object.entries(sizes)) {
    test(`${size} is ${aspectRatio} in ${resolution}; one video, its length a number`, () => {
      const request = geminiVideos.submit.write({ ...job, size }, "key-of-ours");
      assert.ok("path" in request);
      assert.deepEqual([request.method, request.path], ["POST", "/v1beta/models/veo-3.1:predictLongRunning"]);
      assert.equal(request.headers[request.headers.indexOf("x-goog-api-key") + 1], "key-of-ours");
      assert.deepEqual(JSON.parse(String(request.body)), {
        instances: [{ prompt: job.prompt }],
        parameters: { sampleCount: 1, durationSeconds: 8, aspectRatio, resolution },
      });
    });
  }

  test("the reference picture stands within, as base64", () => {
    const reference = { content: Buffer.from("picture"), mediaType: "image/png" };
    const request = geminiVideos.submit.write({ ...job, reference }, "key-of-ours");
    const body = JSON.parse(String("body" in request && request.body)) as { instances: object[] };
    const image = { bytesBase64Encoded: reference.content.toString("base64"), mimeType: "image/png" };
    assert.deepEqual(body.instances, [{ prompt: job.prompt, image }]);
  });

  for (const size of ["1024x1792", "1080x1080", "1280x719", "constructor", ""]) {
    test(`a size that Veo does not make is a reason for the caller: "${size}"`, () => {
      const written = geminiVideos.submit.write({ ...job, size }, "key-of-ours");
      assert.match("reason" in written ? written.reason : "", /1280x720, 720x1280/);
    });
  }

  test("a model's name stays in its place in the path", () => {
    const written = geminiVideos.submit.write({ ...job, model: "../files?x" }, "key-of-ours");
    assert.equal("path" in written && written.path, "/v1beta/models/..%2Ffiles%3Fx:predictLongRunning");
  });
});

describe("an answer to a submission", () => {
  for (const upstreamId of [name, "operations/8d9f2b1a-1c2d", "models/veo_3.1-fast/operations/a1"]) {
    test(`taken: ${upstreamId}`, () => {
      assert.deepEqual(geminiVideos.submit.read(answer(200, { name: upstreamId })), {
        outcome: "accepted",
        upstreamId,
      });
    });
  }

  const retryInfo = { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "6.2s" };
  const badKey = { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" };
  const refused: [string, ProviderAnswer, RefusalReason, number?][] = [
    ["400", answer(400, error(400, "INVALID_ARGUMENT")), RefusalReason.REJECTED],
    ["400 for a key that is none", answer(400, error(400, "INVALID_ARGUMENT", [badKey])), RefusalReason.ACCOUNT],
    ["403", answer(403, error(403, "PERMISSION_DENIED")), RefusalReason.ACCOUNT],
    ["404", answer(404, error(404, "NOT_FOUND")), RefusalReason.REJECTED],
    ["429", answer(429, error(429, "RESOURCE_EXHAUSTED", [retryInfo])), RefusalReason.RATE, 7],
    ["429 with a header", answer(429, error(429, "RESOURCE_EXHAUSTED", [retryInfo]), 9), RefusalReason.RATE, 9],
    ["503", answer(503, error(503, "UNAVAILABLE")), RefusalReason.UNAVAILABLE],
    ["500", answer(500, error(500, "INTERNAL")), RefusalReason.UNKNOWN],
    ["504", answer(504, error(504, "DEADLINE_EXCEEDED")), RefusalReason.UNKNOWN],
    ["200 that is no JSON", answer(200, undefined), RefusalReason.UNKNOWN],
    ["no name", answer(200, {}), RefusalReason.UNKNOWN],
    ["the name of something else", answer(200, { name: "files/x1" }), RefusalReason.UNKNOWN],
    ["a name that leaves its place", answer(200, { name: "models/../operations/x" }), RefusalReason.UNKNOWN],
    ["a name with a query", answer(200, { name: `${name}?key=x` }), RefusalReason.UNKNOWN],
    ["a name with another after it", answer(200, { name: `${name}/../../files` }), RefusalReason.UNKNOWN],
    ["a name without end", answer(200, { name: `models/m/operations/${"x".repeat(201)}` }), RefusalReason.UNKNOWN],
  ];
  for (const [title, given, reason, retryAfterSeconds = 0] of refused) {
    test(`not taken, or nobody knows: ${title}`, () => {
      const read = geminiVideos.submit.read(given);
      assert.ok(read.outcome === "refused");
      assert.deepEqual([read.reason, read.retryAfterSeconds], [reason, retryAfterSeconds]);
    });
  }
});

describe("a poll", () => {
  test("asks for the operation by its name", () => {
    const { method, path, headers } = geminiVideos.poll.write(name, "key-of-ours");
    assert.deepEqual([method, path], ["GET", `/v1beta/${name}`]);
    assert.equal(headers[headers.indexOf("x-goog-api-key") + 1], "key-of-ours");
  });

  const done = (result: object): ProviderAnswer =>
    answer(200, { name, done: true, response: { generateVideoResponse: result } });
  const failed = (code: string, message: string): PollResult => ({ state: "failed", code, message });
  const running: PollResult = { state: "in_progress", progress: undefined };
  const untold = { seconds: undefined, size: undefined, expiresAtMs: undefined };
  const completed: PollResult = { state: "completed", ...untold, contentUrl: uri };
  const unanswered: PollResult = { state: "unanswered", cause: "HTTP 200", retryAfterSeconds: 0 };
  const ours = "The video generation failed";
  const nothing = failed("no_video", "The model service delivered no video");
  const inline = failed("inline_video", "The model service delivered the video in a form that is not supported");
  const cases: [string, ProviderAnswer, PollResult][] = [
    ["a name alone", answer(200, { name }), running],
    ["done is false", answer(200, { name, done: false, metadata: {} }), running],
    ["completed", done({ generatedSamples: [{ video: { uri } }] }), completed],
    ["completed, some filtered", done({ generatedSamples: [{ video: { uri } }], raiMediaFilteredCount: 1 }), completed],
    [
      "an operation that failed",
      answer(200, { name, done: true, error: { code: 13, message: "Oh." } }),
      failed("INTERNAL", "Oh."),
    ],
    ["a code that is none", answer(200, { name, done: true, error: { code: 99 } }), failed("UNKNOWN", ours)],
    ["a code that is no failure", answer(200, { name, done: true, error: { code: 0 } }), failed("UNKNOWN", ours)],
    ["a code that is a word", answer(200, { name, done: true, error: { code: "x" } }), failed("UNKNOWN", ours)],
    [
      "all filtered",
      done({ raiMediaFilteredCount: 1, raiMediaFilteredReasons: ["Unsafe.", "Code 5."] }),
      failed("content_policy_violation", "Unsafe. Code 5."),
    ],
    [
      "all filtered, no word",
      done({ raiMediaFilteredCount: 1 }),
      failed("content_policy_violation", "The safety rules of the model service let nothing through"),
    ],
    [
      "filtered, told as Vertex does",
      answer(200, { done: true, response: { raiMediaFilteredCount: 1, raiMediaFilteredReasons: ["Unsafe."] } }),
      failed("content_policy_violation", "Unsafe."),
    ],
    [
      "the video within the answer",
      done({ generatedSamples: [{ video: { encodedVideo: "AAAA", encoding: "video/mp4" } }] }),
      inline,
    ],
    ["a file in a bucket", done({ generatedSamples: [{ video: { uri: "gs://bucket/x.mp4" } }] }), nothing],
    ["an address that is none", done({ generatedSamples: [{ video: { uri: "x1" } }] }), nothing],
    [
      "an address without end",
      done({ generatedSamples: [{ video: { uri: `https://x/${"y".repeat(9_000)}` } }] }),
      nothing,
    ],
    ["no samples", done({ generatedSamples: [] }), nothing],
    ["done and nothing", answer(200, { name, done: true }), nothing],
    ["404", answer(404, error(404, "NOT_FOUND")), { state: "missing" }],
    ["404 of a gateway", answer(404, undefined), { ...unanswered, cause: "HTTP 404" }],
    ["429", answer(429, undefined, 3), { ...unanswered, cause: "HTTP 429", retryAfterSeconds: 3 }],
    ["500 that says done", answer(500, { name, done: true }), { ...unanswered, cause: "HTTP 500" }],
    ["something else", answer(200, { models: [] }), unanswered],
    ["no JSON", answer(200, undefined), unanswered],
  ];
  for (const [title, given, poll] of cases) {
    test(title, () => assert.deepEqual(geminiVideos.poll.read(given), poll));
  }
});

test("the video is where the provider said; other files it does not make", () => {
  const task = { upstreamId: name, contentUrl: uri, baseUrl: new URL("https://api.example") };
  assert.equal(geminiVideos.locate(task, "video"), uri);
  assert.equal(geminiVideos.locate({ ...task, contentUrl: undefined }, "video"), undefined);
  assert.equal(geminiVideos.locate(task, "thumbnail"), undefined);
  assert.equal(geminiVideos.locate(task, "spritesheet"), undefined);
});
