import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { TaskState } from "#proto/video/v1/video_pb.ts";
import { connectRaw } from "../testing/raw-client.ts";
import { taskWith } from "../testing/task-server.ts";
import { ask, errorOf, startVideoRelay, submit } from "../testing/video-relay.ts";

const idOf = (letter: string): string => `video_${letter.repeat(32)}`;
const notFound = [400, "invalid_request_error", "task_not_found", "Task not found"];

const endpoints = [
  ["POST", "/v1/videos"],
  ["GET", "/v1/videos"],
  ["GET", `/v1/videos/${idOf("a")}`],
  ["DELETE", `/v1/videos/${idOf("a")}`],
  ["GET", `/v1/videos/${idOf("a")}/content`],
] as const;

describe("the endpoints of videos", () => {
  test("API spec, Endpoints: `GET /v1/videos/{task_id}` | A | Progress of a task. API spec, States and transitions: `failed` | Progress check shows `failed`", async () => {
    await using relay = await startVideoRelay();
    const states: [TaskState, string][] = [
      [TaskState.QUEUED, "queued"],
      [TaskState.IN_PROGRESS, "in_progress"],
      [TaskState.COMPLETED, "completed"],
      [TaskState.FAILED, "failed"],
    ];
    for (const [state, status] of states) {
      const task = taskWith({ taskId: idOf("a"), state, seconds: 8, progress: 30, expiresAt: { seconds: 7n } });
      relay.taskServer.tasks.set(idOf("a"), { accountId: "acct_1", task });
      const told = await ask(relay, `/v1/videos/${idOf("a")}`);
      assert.deepEqual([told.status, told.body["status"], told.body["progress"]], [200, status, 30]);
      assert.deepEqual([told.body["seconds"], told.body["expires_at"]], ["8", 7]);
    }
  });

  test("API spec, Video generation errors: Wrong task ID or another account's task", async () => {
    await using relay = await startVideoRelay();
    const task = taskWith({ taskId: idOf("b"), state: TaskState.COMPLETED });
    relay.taskServer.tasks.set(idOf("b"), { accountId: "acct_2", task });
    for (const id of [idOf("a"), idOf("b"), "wrong", "video_1", idOf("A"), "a%2Fb", "x".repeat(3_000)]) {
      assert.deepEqual(errorOf(await ask(relay, `/v1/videos/${id}`)), notFound, id);
      assert.deepEqual(errorOf(await ask(relay, `/v1/videos/${id}`, { method: "DELETE" })), notFound, id);
    }
    assert.deepEqual(errorOf(await ask(relay, "/v1/videos?after=wrong")), notFound);
  });

  test("a video that runs cannot be deleted; one that has ended is not found any more", async () => {
    await using relay = await startVideoRelay();
    const task = taskWith({ taskId: idOf("a"), state: TaskState.IN_PROGRESS });
    relay.taskServer.tasks.set(idOf("a"), { accountId: "acct_1", task });
    const remove = () => ask(relay, `/v1/videos/${idOf("a")}`, { method: "DELETE" });
    assert.deepEqual(errorOf(await remove()), [
      400,
      "invalid_request_error",
      "task_not_ready",
      "The video is not ready yet",
    ]);
    task.state = TaskState.COMPLETED;
    const { status, body } = await remove();
    assert.deepEqual([status, body], [200, { id: idOf("a"), object: "video.deleted", deleted: true }]);
    assert.deepEqual(errorOf(await remove()), notFound);
  });

  test("a list is a page of the account's own videos", async () => {
    await using relay = await startVideoRelay();
    const asked: unknown[] = [];
    const tasks = ["a", "b"].map((letter) => taskWith({ taskId: idOf(letter), state: TaskState.QUEUED }));
    relay.taskServer.script.listTasks = async ({ accountId, afterTaskId, limit, isAscending }) => {
      asked.push([accountId, afterTaskId, limit, isAscending]);
      return { tasks, hasMore: true };
    };
    const { body } = await ask(relay, `/v1/videos?limit=2&order=asc&after=${idOf("c")}`);
    assert.deepEqual(asked, [["acct_1", idOf("c"), 2, true]]);
    const { data, ...page } = body;
    assert.deepEqual(
      (data as { id: string }[]).map(({ id }) => id),
      [idOf("a"), idOf("b")],
    );
    assert.deepEqual(page, { object: "list", has_more: true, first_id: idOf("a"), last_id: idOf("b") });
    const wrong = errorOf(await ask(relay, "/v1/videos?limit=0"));
    assert.deepEqual(wrong.slice(0, 3), [400, "invalid_request_error", "invalid_request"]);
  });

  test("a relay without the service of videos has no model for them, and no video", async () => {
    await using relay = await startVideoRelay({ isWithoutVideos: true });
    const told = await submit(relay);
    assert.deepEqual(errorOf(told), [
      503,
      "api_error",
      "model_not_found",
      "The model sora-2 does not exist or is not available",
    ]);
    assert.equal(told.headers.get("x-should-retry"), "false");
    assert.deepEqual(errorOf(await ask(relay, `/v1/videos/${idOf("a")}`)), notFound);
    assert.equal((await ask(relay, `/v1/videos/${idOf("a")}/content`)).status, 404);
    assert.deepEqual((await ask(relay, "/v1/videos")).body["data"], []);
  });

  test("a service that is away is a 503", async () => {
    await using relay = await startVideoRelay();
    await relay.taskServer[Symbol.asyncDispose]();
    for (const path of ["", `/${idOf("a")}`, `/${idOf("a")}/content`]) {
      const told = await ask(relay, `/v1/videos${path}`);
      assert.deepEqual(errorOf(told).slice(0, 3), [503, "api_error", "service_unavailable"]);
      assert.equal(told.headers.get("retry-after"), "5");
    }
  });
});

describe("API spec, Errors: All others | on /v1/videos the type follows the status", () => {
  test("a missing key, a wrong key and an address that asks too often, before anything else is told", async () => {
    await using relay = await startVideoRelay();
    for (const [method, path] of endpoints) {
      const none = await ask(relay, `${path}?limit=0&variant=x`, { method, headers: { authorization: "" } });
      assert.deepEqual(errorOf(none), [401, "authentication_error", "", "Invalid API key"]);
      const ofFormatB = { authorization: "", "x-api-key": "k", "provider-version": "2023-06-01" };
      assert.equal((await ask(relay, path, { method, headers: ofFormatB })).status, 401);
      relay.desk.decide = () => ({ verdict: Verdict.KEY_INVALID });
      const wrong = await ask(relay, `${path}?limit=0&variant=x`, { method });
      assert.deepEqual(errorOf(wrong), [401, "authentication_error", "", "Invalid API key"]);
      relay.desk.decide = () => ({ verdict: Verdict.IP_RATE, retryAfterSeconds: 17 });
      const often = await ask(relay, path, { method });
      assert.deepEqual(errorOf(often).slice(0, 3), [429, "rate_limit_error", "rate_limit_exceeded"]);
      assert.equal(often.headers.get("retry-after"), "17");
      relay.desk.decide = () => undefined;
    }
    assert.deepEqual(relay.taskServer.submitted, []);
  });

  test("a key that has used up its limit fetches what it has paid for, and submits nothing", async () => {
    await using relay = await startVideoRelay();
    // As auth-quota decides of such a key.
    relay.desk.decide = (operation) =>
      operation.case === "authorize" && operation.value.mayBeUsedUp
        ? { verdict: Verdict.OK, accountId: "acct_1", keyId: "key_1" }
        : { verdict: Verdict.KEY_INVALID };
    const task = taskWith({ taskId: idOf("a"), state: TaskState.FAILED });
    relay.taskServer.tasks.set(idOf("a"), { accountId: "acct_1", task });
    assert.equal((await ask(relay, "/v1/videos")).status, 200);
    assert.equal((await ask(relay, `/v1/videos/${idOf("a")}`)).status, 200);
    assert.equal(errorOf(await ask(relay, `/v1/videos/${idOf("a")}/content`))[2], "task_failed");
    assert.equal((await ask(relay, `/v1/videos/${idOf("a")}`, { method: "DELETE" })).status, 200);
    for (const headers of [{}, { "idempotency-key": "k" }]) {
      const refused = errorOf(await submit(relay, {}, headers));
      assert.deepEqual(refused, [401, "authentication_error", "", "Invalid API key"]);
    }
    assert.deepEqual(relay.taskServer.submitted, []);
    assert.equal((await ask(relay, "/v1/models")).status, 401);
  });

  test("the address counts once, however much is asked of auth-quota for one call", async () => {
    await using relay = await startVideoRelay();
    await submit(relay, { prompt: "x".repeat(100_000) }, { "idempotency-key": "k" });
    await submit(relay, {}, { "idempotency-key": "k" });
    const ips = [...relay.told("authorize"), ...relay.told("reserve")].map(({ ip }) => ip).filter((ip) => ip !== "");
    assert.equal(ips.length, 2);
  });

  test("money that does not reach", async () => {
    await using relay = await startVideoRelay();
    relay.desk.decide = ({ case: name }) => (name === "reserve" ? { verdict: Verdict.BALANCE } : undefined);
    assert.deepEqual(errorOf(await submit(relay)), [
      403,
      "permission_error",
      "insufficient_quota",
      "Insufficient balance",
    ]);
    relay.desk.decide = ({ case: name }) => (name === "reserve" ? { verdict: Verdict.ACCOUNT_RATE } : undefined);
    assert.deepEqual(errorOf(await submit(relay)).slice(0, 3), [429, "rate_limit_error", "rate_limit_exceeded"]);
  });

  test("a body that is wrong, a model that is not there or makes none, a value that it does not make", async () => {
    await using relay = await startVideoRelay();
    const invalid = [400, "invalid_request_error", "invalid_request"];
    for (const fields of [{ prompt: null }, { seconds: 5 }, { size: "1x1" }, { input_reference: { file_id: "f" } }])
      assert.deepEqual(errorOf(await submit(relay, fields)).slice(0, 3), invalid);
    const broken = await ask(relay, "/v1/videos", { method: "POST", body: "{" });
    assert.deepEqual(errorOf(broken), [...invalid, "Invalid request: invalid JSON request body"]);
    const unknown = "The model veo-9 does not exist or is not available";
    assert.deepEqual(errorOf(await submit(relay, { model: "veo-9" })), [503, "api_error", "model_not_found", unknown]);
    assert.deepEqual([relay.told("reserve"), relay.taskServer.submitted], [[], []]);
  });

  const unknown = [
    ["POST", "/v1/videos/"],
    ["GET", "/v1/videos/"],
    ["PUT", "/v1/videos"],
    ["DELETE", "/v1/videos"],
    ["POST", `/v1/videos/${idOf("a")}`],
    ["POST", `/v1/videos/${idOf("a")}/remix`],
    ["GET", `/v1/videos/${idOf("a")}/`],
    ["GET", `/v1/videos/${idOf("a")}/content/`],
    ["DELETE", `/v1/videos/${idOf("a")}/content`],
    ["POST", "/v1/videos/edits"],
    ["POST", "/v1/videos/extensions"],
    ["POST", "/v1/videos/characters"],
    ["GET", "/v1/videos/characters/char_1"],
    ["GET", "/v1/videos//content"],
  ] as const;
  for (const [method, path] of unknown) {
    test(`API spec, Cases: Unsupported endpoint | 404: ${method} ${path}`, async () => {
      await using relay = await startVideoRelay();
      const told = await ask(relay, path, { method });
      assert.deepEqual(errorOf(told), [404, "not_found_error", "", `Invalid URL (${method} ${path})`]);
    });
  }

  test("maintenance, plain HTTP and what is no HTTP", async () => {
    await using closed = await startVideoRelay({ isMaintenance: true });
    for (const [method, path] of endpoints)
      assert.deepEqual(errorOf(await ask(closed, path, { method })).slice(0, 3), [
        503,
        "api_error",
        "service_unavailable",
      ]);
    await using relay = await startVideoRelay();
    const plain = await ask(relay, "/v1/videos", { headers: { "x-forwarded-proto": "http" } });
    assert.deepEqual(errorOf(plain).slice(0, 3), [403, "permission_error", "invalid_request"]);
    for (const head of ["GET /v1/videos HTTP/1.1\r\n", "GET /v1/videos HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n"]) {
      const client = await connectRaw(relay.port);
      client.socket.end(`${head}\r\n`);
      await client.closed;
      assert.match(client.head(), /^HTTP\/1\.1 400 /);
      assert.match(client.body().toString(), /"type":"invalid_request_error","param":"","code":"invalid_request"/);
    }
  });
});
