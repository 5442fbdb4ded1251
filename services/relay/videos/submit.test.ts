import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { EndCause, RecordKind, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { RefusalReason, TaskState } from "#proto/video/v1/video_pb.ts";
import { until } from "#shared/testing/until.ts";
import { upstreamOf } from "../testing/fakes.ts";
import { connectRaw } from "../testing/raw-client.ts";
import { chargeOf, taskIdOf, taskWith } from "../testing/task-server.ts";
import {
  ask,
  checkClosed,
  errorOf,
  outcomeUnknown,
  startVideoRelay,
  submit,
  videoModelOf,
} from "../testing/video-relay.ts";

describe("a submission", () => {
  test("API spec, Endpoints: `POST /v1/videos` | A | holds the full price, submits once and gives the video as it stands", async () => {
    await using relay = await startVideoRelay();
    const { status, body, headers } = await submit(relay, { seconds: "8", size: "1280x720" });
    assert.equal(status, 200, JSON.stringify(body));
    const rid = headers.get("x-request-id") ?? "";
    assert.equal(headers.get("request-id"), rid);
    assert.deepEqual(body, {
      id: taskIdOf(rid),
      object: "video",
      model: "sora-2",
      status: "queued",
      progress: 0,
      created_at: 1,
      completed_at: null,
      expires_at: null,
      error: null,
      prompt: "a red fox",
      seconds: "8",
      size: "1280x720",
      remixed_from_video_id: null,
    });
    const [held] = relay.told("reserve");
    // 8 s at 0.30 USD: the price of this size.
    assert.deepEqual([held?.rid, held?.model, held?.estimateNanos], [rid, "sora-2", 2_400_000_000n]);
    const [request, ...more] = relay.taskServer.submitted;
    assert.deepEqual(more, []);
    assert.deepEqual([request?.seconds, request?.size, request?.deadlineSeconds], [8, "1280x720", 3_600]);
    assert.deepEqual(
      request?.routes.map(({ upstream, model, upstreamCostNanos }) => [upstream, model, upstreamCostNanos]),
      [["somewhere", "sora-2-there", 400_000_000n]],
    );
    const { charge } = request ?? {};
    assert.deepEqual(
      [charge?.rid, charge?.accountId, charge?.keyId, charge?.endpoint],
      [rid, "acct_1", "key_1", "/v1/videos"],
    );
    assert.deepEqual(
      [charge?.kind, charge?.endCause, charge?.usageSource],
      [RecordKind.FINAL, EndCause.COMPLETE, UsageSource.REQUEST],
    );
    assert.deepEqual([charge?.usage?.mediaMs, charge?.usage?.requests], [8_000n, 0n], "requests have no price");
    assert.deepEqual([charge?.unitPriceNanos?.mediaMs, charge?.priceVersion], [300_000_000_000n, "v1+1280x720"]);
    assert.deepEqual([charge?.costNanos, charge?.heldNanos], [2_400_000_000n, 2_400_000_000n]);
    assert.deepEqual([charge?.relaySession, charge?.sequence, charge?.httpStatus], ["", 0n, 200]);
  });

  test("the charge that the service wrote goes to every home, byte by byte", async () => {
    await using relay = await startVideoRelay();
    const { headers } = await submit(relay);
    const rid = headers.get("x-request-id") ?? "";
    const [request] = relay.taskServer.submitted;
    assert.ok(request);
    const charge = Buffer.from(chargeOf(request));
    assert.deepEqual(Buffer.from(relay.spool.records.get(rid) ?? []), charge);
    assert.deepEqual(
      relay.published.map((bytes) => Buffer.from(bytes)),
      [charge],
    );
    await until("auth-quota is told", () => relay.told("settle").length === 1);
    const [told] = relay.told("settle");
    assert.deepEqual(Buffer.from(told?.record ?? []), charge);
    assert.deepEqual(
      [told?.rid, told?.accountId, told?.keyId, told?.costNanos],
      [rid, "acct_1", "key_1", 400_000_000n],
    );
    assert.deepEqual(relay.told("release"), []);
    assert.equal(relay.relay.live.size, 0);
    const line = relay.lines.find((one) => one["msg"] === "call" && one["rid"] === rid);
    assert.deepEqual(
      [line?.["endpoint"], line?.["status"], line?.["end"], line?.["chargedNanos"]],
      ["/v1/videos", 200, "complete", "400000000"],
    );
  });

  test("a model priced by the request is charged for that, and tried in the order of priorities and weights", async () => {
    const one = {
      upstream: upstreamOf({ name: "one", dialects: ["gemini-videos"] }),
      model: "m1",
      priority: 1,
      weight: 0,
    };
    const two = {
      upstream: upstreamOf({ name: "two", dialects: ["openai-videos"] }),
      model: "m2",
      priority: 0,
      weight: 0,
    };
    const model = {
      ...videoModelOf({ id: "veo", prices: { requests: 2_000_000_000_000n }, routes: [one, two] }),
      variants: [],
    };
    await using relay = await startVideoRelay({ models: [model] });
    assert.equal((await submit(relay, { model: "veo" })).status, 200);
    const [request] = relay.taskServer.submitted;
    assert.deepEqual(
      request?.routes.map(({ upstream }) => upstream),
      ["two", "one"],
    );
    assert.equal(request?.routes[0]?.upstreamCostNanos, undefined);
    assert.deepEqual([request?.charge?.usage?.mediaMs, request?.charge?.usage?.requests], [0n, 1n]);
    assert.equal(request?.charge?.costNanos, 2_000_000n);
  });

  test("a caller who goes away changes nothing: the video is taken and charged", async () => {
    await using relay = await startVideoRelay();
    const gate = Promise.withResolvers<void>();
    relay.taskServer.script.submit = async (request) => {
      await gate.promise;
      const task = taskWith({ taskId: taskIdOf(request.charge?.rid ?? ""), state: TaskState.QUEUED });
      return { outcome: { case: "accepted", value: { task, charge: chargeOf(request) } } };
    };
    const client = await connectRaw(relay.port);
    const body = JSON.stringify({ prompt: "x" });
    client.socket.write(
      `POST /v1/videos HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer k\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await until("it is being submitted", () => relay.taskServer.submitted.length === 1);
    client.socket.resetAndDestroy();
    await client.closed;
    gate.resolve();
    await until("it is charged", () => relay.charges().length === 1);
    await until("it has ended", () => relay.relay.live.size === 0);
    assert.deepEqual(relay.told("release"), []);
    assert.equal(relay.taskServer.submitted.length, 1);
  });
});

const rejected = "The model service rejected the request, check the parameters and try again";
const away = "The model service is temporarily unavailable, please try again later";
const limited = "The model service is temporarily rate limited, please retry after 60 seconds";
const stopping = "The service is temporarily unavailable, please try again later";

// Why nobody took it, what the caller is told, and whether and when to try again.
const refusals: [keyof typeof RefusalReason, [number, string, string, string], string | null, string | null, string][] =
  [
    [
      "REJECTED",
      [400, "invalid_request_error", "upstream_error", rejected],
      null,
      null,
      "API spec, Video generation errors: Provider rejected the request",
    ],
    [
      "RATE",
      [429, "rate_limit_error", "rate_limit_exceeded", limited],
      "60",
      null,
      "API spec, Cases: Upstream rate limit exceeded",
    ],
    [
      "ACCOUNT",
      [503, "api_error", "service_unavailable", away],
      "60",
      null,
      "API spec, Cases: Upstream temporarily unavailable, or problem with the service's account at upstream",
    ],
    [
      "UNAVAILABLE",
      [503, "api_error", "service_unavailable", away],
      "5",
      null,
      "API spec, Cases: Upstream temporarily unavailable, or problem with the service's account at upstream",
    ],
    [
      "UNREACHABLE",
      [500, "api_error", "server_error", away],
      null,
      null,
      "API spec, Cases: Cannot connect to upstream",
    ],
    [
      "UNKNOWN",
      outcomeUnknown,
      null,
      "false",
      "API spec, Retry guidance: Do not retry | 400: an unknown outcome, of which another try may make a second video",
    ],
    ["STOPPING", [503, "api_error", "service_unavailable", stopping], "5", null, "a service that stops"],
  ];

describe("API spec, States and transitions: 4. Errors returned at submission are free of charge.", () => {
  for (const [reason, wanted, retryAfter, shouldRetry, title] of refusals) {
    test(`${title}, ${reason}`, async () => {
      await using relay = await startVideoRelay();
      relay.taskServer.script.submit = async () => ({
        outcome: {
          case: "refused",
          value: { reason: RefusalReason[reason], cause: "of the provider", retryAfterSeconds: 7 },
        },
      });
      const told = await submit(relay);
      assert.deepEqual(errorOf(told), wanted);
      assert.deepEqual(
        [told.headers.get("retry-after"), told.headers.get("x-should-retry")],
        [retryAfter, shouldRetry],
      );
      assert.equal(relay.taskServer.submitted.length, 1, "nothing is submitted again");
      await checkClosed(relay);
    });
  }

  test("what auth-quota refuses is never submitted", async () => {
    await using relay = await startVideoRelay();
    const verdicts: [Verdict, number][] = [
      [Verdict.KEY_INVALID, 401],
      [Verdict.BALANCE, 403],
      [Verdict.KEY_LIMIT, 403],
      [Verdict.ACCOUNT_RATE, 429],
      [Verdict.MODEL, 503],
    ];
    for (const [verdict, status] of verdicts) {
      relay.desk.decide = () => ({ verdict });
      assert.equal((await submit(relay)).status, status);
    }
    assert.deepEqual(relay.taskServer.submitted, []);
    assert.equal(relay.relay.live.size, 0);
  });
});

describe("an Idempotency-Key", () => {
  const key = { "idempotency-key": "order-7" };

  test("is asked about before money, and the earlier task is the answer", async () => {
    await using relay = await startVideoRelay();
    const asked: unknown[] = [];
    const earlier = taskWith({ taskId: "video_of_before", state: TaskState.IN_PROGRESS, progress: 40 });
    relay.taskServer.script.findSubmission = async ({ accountId, idempotencyKey, requestHash }) => {
      asked.push([accountId, idempotencyKey, Buffer.from(requestHash).toString("hex")]);
      return { found: { case: "task", value: earlier } };
    };
    const { status, body } = await submit(relay, {}, key);
    assert.deepEqual(
      [status, body["id"], body["status"], body["progress"]],
      [200, "video_of_before", "in_progress", 40],
    );
    const requestHash = hash("sha256", JSON.stringify(["sora-2", "a red fox", 4, "720x1280", ""]));
    assert.deepEqual(asked, [["acct_1", "order-7", requestHash]]);
    assert.deepEqual([relay.told("reserve"), relay.taskServer.submitted], [[], []]);
  });

  test("goes along with the hash of what is asked for, which does not depend on how a client writes it", async () => {
    await using relay = await startVideoRelay();
    await submit(relay, { seconds: "4" }, key);
    const form = new FormData();
    form.append("prompt", "a red fox");
    form.append("model", "sora-2");
    await ask(relay, "/v1/videos", { method: "POST", body: form, headers: key });
    await submit(relay, { seconds: 8 }, key);
    const [json, ofForm, longer] = relay.taskServer.submitted.map(({ requestHash }) => Buffer.from(requestHash));
    assert.deepEqual(json, ofForm);
    assert.notDeepEqual(json, longer);
    assert.deepEqual(
      relay.taskServer.submitted.map(({ idempotencyKey }) => idempotencyKey),
      Array(3).fill("order-7"),
    );
  });

  test("that comes with another request is a 409 and costs nothing, whoever notices it", async () => {
    await using relay = await startVideoRelay();
    const wanted = [
      409,
      "invalid_request_error",
      "invalid_request",
      "This Idempotency-Key was used with another request",
    ];
    relay.taskServer.script.findSubmission = async () => ({ found: { case: "keyReused", value: {} } });
    const told = await submit(relay, {}, key);
    assert.deepEqual(errorOf(told), wanted);
    assert.equal(told.headers.get("x-should-retry"), "false");
    assert.deepEqual(relay.told("reserve"), []);
    delete relay.taskServer.script.findSubmission;
    relay.taskServer.script.submit = async () => ({ outcome: { case: "keyReused", value: {} } });
    assert.deepEqual(errorOf(await submit(relay, {}, key)), wanted);
    await checkClosed(relay);
  });

  test("of a submission that came in between: its task, and this hold is released", async () => {
    await using relay = await startVideoRelay();
    const earlier = taskWith({ taskId: "video_of_before", state: TaskState.QUEUED });
    relay.taskServer.script.submit = async () => ({ outcome: { case: "earlier", value: earlier } });
    const { status, body } = await submit(relay, {}, key);
    assert.deepEqual([status, body["id"]], [200, "video_of_before"]);
    await checkClosed(relay);
  });

  test("of a submission of which nobody knows what became stays a 400 and is not submitted again", async () => {
    await using relay = await startVideoRelay();
    const refused = { reason: RefusalReason.UNKNOWN, cause: "silent" };
    relay.taskServer.script.findSubmission = async () => ({ found: { case: "refused", value: refused } });
    const told = await submit(relay, {}, key);
    assert.deepEqual(errorOf(told), outcomeUnknown);
    assert.equal(told.headers.get("x-should-retry"), "false");
    assert.deepEqual(relay.taskServer.submitted, []);
  });

  for (const [what, wrong] of [
    ["empty", ""],
    ["longer than 255", "k".repeat(256)],
    ["with a blank", "a b"],
  ] as const) {
    test(`that is ${what} is refused`, async () => {
      await using relay = await startVideoRelay();
      const told = errorOf(await submit(relay, {}, { "idempotency-key": wrong }));
      assert.deepEqual(told.slice(0, 3), [400, "invalid_request_error", "invalid_request"]);
      assert.match(told[3], /Idempotency-Key must have 1 to 255 visible ASCII characters/);
      assert.deepEqual(relay.told("reserve"), []);
    });
  }
});

describe("bounds", () => {
  test("of submissions under way: one more is a 503 before money", async () => {
    await using relay = await startVideoRelay({ bounds: { maxSubmissions: 1 } });
    const gate = Promise.withResolvers<void>();
    relay.taskServer.script.submit = async () => {
      await gate.promise;
      return { outcome: { case: "refused", value: { reason: RefusalReason.REJECTED } } };
    };
    const first = submit(relay);
    await until("one is under way", () => relay.taskServer.submitted.length === 1);
    assert.deepEqual(errorOf(await submit(relay)), [503, "api_error", "service_unavailable", stopping]);
    assert.equal(relay.told("reserve").length, 1);
    gate.resolve();
    assert.equal((await first).status, 400);
    assert.equal((await submit(relay)).status, 400, "there is room again");
  });

  test("of submissions under way do not count who is still sending, for nobody knows whose key it is", async () => {
    await using relay = await startVideoRelay({ bounds: { maxSubmissions: 1 } });
    const stranger = await connectRaw(relay.port);
    stranger.socket.write(
      "POST /v1/videos HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer k\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    );
    await until("its body is wanted", () => stranger.head().startsWith("HTTP/1.1 100"));
    assert.equal((await submit(relay)).status, 200);
    stranger.socket.destroy();
  });

  test("of the wait for a service that is away: a 503 before money", async () => {
    await using relay = await startVideoRelay();
    await relay.taskServer[Symbol.asyncDispose]();
    const told = await submit(relay);
    assert.deepEqual(errorOf(told), [503, "api_error", "service_unavailable", stopping]);
    assert.deepEqual(relay.told("reserve"), []);
  });

  test("of a full or broken spool: a 503 before money", async () => {
    await using relay = await startVideoRelay();
    relay.spool.problem = () => "the disk is full";
    assert.equal((await submit(relay)).status, 503);
    assert.deepEqual(relay.told("reserve"), []);
  });
});

test("the official client submits a form, polls, lists and deletes", async () => {
  await using relay = await startVideoRelay();
  const client = new OpenAI({ apiKey: "sk-right", baseURL: `${relay.url}/v1`, maxRetries: 0 });
  const picture = new File([Buffer.from("\x89PNG\r\n\x1a\nrest", "latin1")], "a.png", { type: "image/png" });
  const video = await client.videos.create({ prompt: "x", seconds: "8", size: "1280x720", input_reference: picture });
  assert.deepEqual([video.status, video.seconds, video.size], ["queued", "8", "1280x720"]);
  const [request] = relay.taskServer.submitted;
  assert.equal(request?.reference?.mediaType, "image/png");
  assert.equal(Buffer.from(request?.reference?.content ?? []).toString("latin1"), "\x89PNG\r\n\x1a\nrest");
  assert.equal((await client.videos.retrieve(video.id)).id, video.id);
  const listed: string[] = [];
  for await (const { id } of client.videos.list({ limit: 5 })) listed.push(id);
  assert.deepEqual(listed, [video.id]);
  const found = relay.taskServer.tasks.get(video.id);
  assert.ok(found);
  found.task.state = TaskState.FAILED;
  found.task.error = { $typeName: "video.v1.TaskError", code: "content_policy_violation", message: "No." };
  const failed = await client.videos.retrieve(video.id);
  assert.deepEqual([failed.status, failed.error], ["failed", { code: "content_policy_violation", message: "No." }]);
  assert.deepEqual(await client.videos.delete(video.id), { id: video.id, object: "video.deleted", deleted: true });
  await assert.rejects(client.videos.retrieve(video.id), (error) => error instanceof OpenAI.BadRequestError);
});
