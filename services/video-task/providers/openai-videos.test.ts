import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { RefusalReason } from "#proto/video/v1/video_pb.ts";
import { openaiVideos } from "./openai-videos.ts";
import type { Job, PollResult, ProviderAnswer, ProviderRequest, Variant } from "./provider.ts";

const job: Job = { model: "sora-2", prompt: "a tide pool", seconds: 8, size: "1280x720", reference: undefined };
const reference = { content: Buffer.from([0xff, 0xd8, 0, 13, 10]), mediaType: "image/jpeg" };

function written(asked: Job): ProviderRequest {
  const request = openaiVideos.submit.write(asked, "sk-ours");
  assert.ok("path" in request);
  return request;
}

const formOf = ({ body, headers }: ProviderRequest): Promise<FormData> => {
  const contentType = headers[headers.indexOf("content-type") + 1] ?? "";
  return new Response(new Uint8Array(body ?? []), { headers: { "content-type": contentType } }).formData();
};

const answer = (status: number, body: unknown, retryAfterSeconds?: number): ProviderAnswer => ({
  status,
  body,
  retryAfterSeconds,
});
const error = (code: string | null, message: string, type = "invalid_request_error"): object => ({
  error: { message, type, param: null, code },
});

describe("what is submitted", () => {
  test("a form, the length as a text, the credential in its header", async () => {
    const request = written(job);
    assert.deepEqual([request.method, request.path], ["POST", "/v1/videos"]);
    assert.equal(request.headers[request.headers.indexOf("authorization") + 1], "Bearer sk-ours");
    const fields = Object.fromEntries(await formOf(request));
    assert.deepEqual(fields, { prompt: "a tide pool", model: "sora-2", seconds: "8", size: "1280x720" });
  });

  test("the reference picture is a file, byte for byte", async () => {
    const file = (await formOf(written({ ...job, reference }))).get("input_reference");
    assert.ok(file instanceof File);
    assert.deepEqual([file.name, file.type], ["reference.jpeg", "image/jpeg"]);
    assert.deepEqual(Buffer.from(await file.arrayBuffer()), reference.content);
  });

  test("a prompt stays as it is and in its field, whatever it holds", async () => {
    const boundary = /boundary=(.*)/.exec(written(job).headers.join())?.[1];
    const prompts = [
      "two\nlines",
      "nul \0",
      "é 漢 🐙",
      `x\r\n--${boundary}\r\ncontent-disposition: form-data`,
      '"; size="',
    ];
    for (const prompt of prompts) {
      const form = await formOf(written({ ...job, prompt }));
      assert.deepEqual([form.get("prompt"), form.get("size")], [prompt, job.size]);
    }
  });

  test("the same job is the same bytes", () => {
    assert.deepEqual(written({ ...job, reference }), written({ ...job, reference }));
  });

  test("a media type that would break the form is no request but a reason", () => {
    const asked = { ...job, reference: { ...reference, mediaType: 'image/png"\r\nx: y' } };
    assert.ok("reason" in openaiVideos.submit.write(asked, "sk-ours"));
  });
});

describe("an answer to a submission", () => {
  const accepted: [string, ProviderAnswer, string][] = [
    [
      "as documented",
      answer(200, { id: "video_68d7512d07848190b3e45da0ecbebcde", status: "queued" }),
      "video_68d7512d07848190b3e45da0ecbebcde",
    ],
    [
      "as others number tasks",
      answer(201, { id: "3fa85f64-5717-4562-b3fc-2c963f66afa6" }),
      "3fa85f64-5717-4562-b3fc-2c963f66afa6",
    ],
    ["with an id that names its parts", answer(202, { id: "eu:video=1.a~b" }), "eu:video=1.a~b"],
    ["a task that has failed already", answer(200, { id: "video_1", status: "failed" }), "video_1"],
  ];
  for (const [name, given, upstreamId] of accepted) {
    test(`taken: ${name}`, () => {
      assert.deepEqual(openaiVideos.submit.read(given), { outcome: "accepted", upstreamId });
    });
  }

  const refused: [string, ProviderAnswer, RefusalReason, number?][] = [
    ["400", answer(400, error("invalid_value", "Invalid size.")), RefusalReason.REJECTED],
    ["moderation", answer(400, error("moderation_blocked", "Blocked.")), RefusalReason.REJECTED],
    ["404, no such model", answer(404, error("model_not_found", "No.")), RefusalReason.REJECTED],
    ["413 of a gateway", answer(413, undefined), RefusalReason.REJECTED],
    ["401", answer(401, error("invalid_api_key", "No.")), RefusalReason.ACCOUNT],
    ["402", answer(402, undefined), RefusalReason.ACCOUNT],
    ["403", answer(403, error(null, "Not verified.")), RefusalReason.ACCOUNT],
    ["400 for a limit of the account", answer(400, error("billing_hard_limit_reached", "No.")), RefusalReason.ACCOUNT],
    ["429 for an empty account", answer(429, error("insufficient_quota", "No.")), RefusalReason.ACCOUNT],
    ["429", answer(429, error("rate_limit_exceeded", "Slow."), 7), RefusalReason.RATE, 7],
    ["429 without a wait", answer(429, error("rate_limit_exceeded", "Slow.")), RefusalReason.RATE],
    ["503", answer(503, undefined, 30), RefusalReason.UNAVAILABLE, 30],
    ["408", answer(408, error(null, "Timeout.")), RefusalReason.UNKNOWN],
    ["500", answer(500, error("server_error", "Oh.")), RefusalReason.UNKNOWN],
    ["500 with a code of the account", answer(500, error("insufficient_quota", "Oh.")), RefusalReason.UNKNOWN],
    ["500 with an id", answer(500, { id: "video_1" }), RefusalReason.UNKNOWN],
    ["502", answer(502, undefined), RefusalReason.UNKNOWN],
    ["504", answer(504, undefined), RefusalReason.UNKNOWN],
    ["529", answer(529, undefined), RefusalReason.UNKNOWN],
    ["a redirect", answer(303, undefined), RefusalReason.UNKNOWN],
    ["200 that is no JSON", answer(200, undefined), RefusalReason.UNKNOWN],
    ["200 with an error", answer(200, error(null, "Odd.")), RefusalReason.UNKNOWN],
    ["200 without an id", answer(200, { status: "queued" }), RefusalReason.UNKNOWN],
    ["an id that is a number", answer(200, { id: 7 }), RefusalReason.UNKNOWN],
    ["an id that would leave its place", answer(200, { id: "../files/1" }), RefusalReason.UNKNOWN],
    ["an id of dots", answer(200, { id: ".." }), RefusalReason.UNKNOWN],
    ["an id with a query", answer(200, { id: "video_1?x=1" }), RefusalReason.UNKNOWN],
    ["an id with a line end", answer(200, { id: "video_1\n" }), RefusalReason.UNKNOWN],
    ["an id without end", answer(200, { id: "v".repeat(501) }), RefusalReason.UNKNOWN],
  ];
  for (const [name, given, reason, retryAfterSeconds = 0] of refused) {
    test(`not taken, or nobody knows: ${name}`, () => {
      const read = openaiVideos.submit.read(given);
      assert.ok(read.outcome === "refused");
      assert.deepEqual([read.reason, read.retryAfterSeconds], [reason, retryAfterSeconds]);
      assert.match(read.cause, new RegExp(`^HTTP ${given.status}`));
    });
  }

  test("the cause tells code and wording, for the log", () => {
    const read = openaiVideos.submit.read(answer(400, error("invalid_value", "Invalid size.")));
    assert.equal(
      read.outcome === "refused" && read.cause,
      "HTTP 400: invalid_request_error: invalid_value: Invalid size.",
    );
  });
});

describe("a poll", () => {
  test("asks for the task by its id, percent-encoded", () => {
    const { method, path, headers, body } = openaiVideos.poll.write("eu:video=1", "sk-ours");
    assert.deepEqual([method, path, body], ["GET", "/v1/videos/eu%3Avideo%3D1", undefined]);
    assert.equal(headers[headers.indexOf("authorization") + 1], "Bearer sk-ours");
  });

  const nothing = { seconds: undefined, size: undefined, expiresAtMs: undefined, contentUrl: undefined };
  const ended = { state: "completed", ...nothing } as const;
  const broken = { state: "failed", code: "generation_failed", message: "The video generation failed" } as const;
  const cases: [string, ProviderAnswer, PollResult][] = [
    ["queued", answer(200, { id: "v", status: "queued", progress: 0 }), { state: "queued" }],
    ["in progress", answer(200, { status: "in_progress", progress: 42 }), { state: "in_progress", progress: 42 }],
    [
      "progress as a fraction",
      answer(200, { status: "in_progress", progress: 42.9 }),
      { state: "in_progress", progress: 42 },
    ],
    [
      "progress that is none",
      answer(200, { status: "in_progress", progress: 101 }),
      { state: "in_progress", progress: undefined },
    ],
    [
      "an unknown word does not end a task",
      answer(200, { status: "cancelling" }),
      { state: "in_progress", progress: undefined },
    ],
    [
      "processing, as others say",
      answer(200, { status: "processing", progress: "7" }),
      { state: "in_progress", progress: 7 },
    ],
    [
      "completed",
      answer(200, { status: "completed", seconds: "8", size: "720x1280", expires_at: 1_795_000_000 }),
      { ...ended, seconds: 8, size: "720x1280", expiresAtMs: 1_795_000_000_000 },
    ],
    ["completed, and nothing more", answer(200, { status: "completed" }), ended],
    ["completed, nulls", answer(200, { status: "completed", seconds: null, size: null, expires_at: null }), ended],
    [
      "completed, lengths that are none",
      answer(200, { status: "completed", seconds: "long", expires_at: 1e300 }),
      ended,
    ],
    ["completed, no length", answer(200, { status: "completed", seconds: 0, expires_at: -1 }), ended],
    [
      "failed",
      answer(200, { status: "failed", error: { code: "moderation_blocked", message: "Blocked." } }),
      { state: "failed", code: "moderation_blocked", message: "Blocked." },
    ],
    ["failed, without a word", answer(200, { status: "failed", error: null }), broken],
    ["failed, with what is no code", answer(200, { status: "failed", error: { code: "a b", message: 7 } }), broken],
    ["404 of the provider", answer(404, error(null, "Video not found.")), { state: "missing" }],
    ["410 of the provider", answer(410, { detail: "gone" }), { state: "missing" }],
    ["404 of a gateway", answer(404, undefined), { state: "unanswered", cause: "HTTP 404", retryAfterSeconds: 0 }],
    ["429", answer(429, undefined, 20), { state: "unanswered", cause: "HTTP 429", retryAfterSeconds: 20 }],
    ["401", answer(401, undefined), { state: "unanswered", cause: "HTTP 401", retryAfterSeconds: 0 }],
    [
      "500 that says failed",
      answer(500, { status: "failed" }),
      { state: "unanswered", cause: "HTTP 500", retryAfterSeconds: 0 },
    ],
    ["200 that is no JSON", answer(200, undefined), { state: "unanswered", cause: "HTTP 200", retryAfterSeconds: 0 }],
    [
      "200 without a status",
      answer(200, { id: "v" }),
      { state: "unanswered", cause: "HTTP 200", retryAfterSeconds: 0 },
    ],
    ["200 with a list", answer(200, ["completed"]), { state: "unanswered", cause: "HTTP 200", retryAfterSeconds: 0 }],
  ];
  for (const [name, given, poll] of cases) {
    test(name, () => assert.deepEqual(openaiVideos.poll.read(given), poll));
  }

  test("a message of a failure has 500 characters, one line, no address and no key", () => {
    const message = `Bad key sk-proj-abcdef123 at https://internal.example/x?y,\n\tagain\0now \ud800 ${"x".repeat(600)}`;
    const poll = openaiVideos.poll.read(answer(200, { status: "failed", error: { code: "x", message } }));
    assert.ok(poll.state === "failed");
    assert.match(poll.message, /^Bad key \[hidden\] at \[hidden\] again now \ufffd x+$/);
    assert.equal(poll.message.length, 500);
  });
});

test("every file of a task has an address under the upstream's base", () => {
  const locate = (baseUrl: string, variant: Variant) =>
    openaiVideos.locate({ upstreamId: "video_1", contentUrl: undefined, baseUrl: new URL(baseUrl) }, variant);
  assert.equal(locate("https://api.example", "video"), "https://api.example/v1/videos/video_1/content");
  assert.equal(
    locate("https://api.example/tenant/", "thumbnail"),
    "https://api.example/tenant/v1/videos/video_1/content?variant=thumbnail",
  );
  assert.match(locate("https://api.example", "spritesheet") ?? "", /\?variant=spritesheet$/);
});
