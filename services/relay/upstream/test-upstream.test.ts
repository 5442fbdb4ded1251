import assert from "node:assert/strict";
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { describe, test } from "node:test";
import { createPools } from "#shared/catalog/pools.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { Model } from "../catalog/models.ts";
import { listeningLog, modelOf, upstreamOf } from "../testing/fakes.ts";
import { serveHttp } from "../testing/raw-client.ts";
import { createUpstreamTest } from "./test-upstream.ts";

type Answering = (response: ServerResponse) => void;
type Seen = { path: string | undefined; headers: IncomingMessage["headers"]; body: Record<string, unknown> };

const json =
  (status: number, body: object): Answering =>
  (response) =>
    void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));

const chatAnswer = {
  id: "c",
  object: "chat.completion",
  model: "m-served",
  choices: [{ index: 0, message: { role: "assistant", content: "OK" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 },
};

const messagesAnswer = {
  id: "m",
  type: "message",
  role: "assistant",
  model: "m-served",
  content: [{ type: "text", text: "OK" }],
  stop_reason: "end_turn",
  usage: { input_tokens: 9, output_tokens: 2 },
};

async function serve(answer: Answering, changes: Partial<Upstream> = {}, ofModel: Partial<Model> = {}) {
  const stack = new AsyncDisposableStack();
  const seen: Seen[] = [];
  const server = stack.use(
    await serveHttp((request, response) => {
      void text(request).then((body) => {
        seen.push({ path: request.url, headers: request.headers, body: JSON.parse(body) as Seen["body"] });
        answer(response);
      });
    }),
  );
  const upstream = upstreamOf({
    name: "near",
    baseUrl: new URL(`http://127.0.0.1:${server.port}/base`),
    dialects: ["openai-chat"],
    headers: ["x-org", "organisation-7"],
    ...changes,
  });
  const routes = [{ upstream, model: "m-there", priority: 0, weight: 0 }];
  const models = new Map([["m", modelOf({ routes, ...ofModel })]]);
  const pools = stack.use(createPools());
  const inForce = () => ({ models, upstreams: [upstream], isMaintenance: false });
  const { log, lines } = listeningLog();
  const call = createUpstreamTest({ inForce, pools, log });
  return {
    seen,
    lines,
    call: () => call({ upstream: "near", model: "m" }),
    callOf: call,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

describe("a test of an upstream", () => {
  test("is one real call of a few tokens, with the credential and the model's name there", async () => {
    await using near = await serve(json(200, chatAnswer));
    const { durationMs, usage, ...result } = await near.call();
    assert.deepEqual(result, {
      status: 200,
      problem: "",
      modelServed: "m-served",
      dialect: "openai-chat",
    });
    assert.deepEqual([usage?.inputTokens, usage?.outputTokens], [9n, 2n]);
    assert.ok(typeof durationMs === "bigint");
    const [request, ...more] = near.seen;
    assert.equal(more.length, 0);
    assert.equal(request?.path, "/base/v1/chat/completions");
    assert.equal(request.headers.authorization, "Bearer secret-of-ours");
    assert.equal(request.headers["x-org"], "organisation-7");
    assert.deepEqual([request.body["model"], request.body["max_completion_tokens"]], ["m-there", 16]);
    assert.match(JSON.stringify(near.lines), /upstream tested/);
  });

  test("is made in the upstream's own format", async () => {
    await using near = await serve(json(200, messagesAnswer), { dialects: ["anthropic-messages"] });
    const result = await near.call();
    assert.deepEqual([result.problem, result.dialect], ["", "anthropic-messages"]);
    assert.equal(near.seen[0]?.path, "/base/v1/messages");
    assert.equal(near.seen[0].headers["x-api-key"], "secret-of-ours");
  });

  test("is converted where no caller speaks the upstream's format", async () => {
    const answer = { candidates: [{ content: { parts: [{ text: "OK" }] }, finishReason: "STOP" }] };
    const usageMetadata = { promptTokenCount: 9, candidatesTokenCount: 2, totalTokenCount: 11 };
    await using near = await serve(json(200, { ...answer, usageMetadata }), { dialects: ["gemini-generate"] });
    const result = await near.call();
    assert.deepEqual([result.problem, result.dialect], ["", "gemini-generate"]);
    assert.equal(near.seen[0]?.path, "/base/v1beta/models/m-there:generateContent");
  });

  test("tells the upstream's wording of a refusal without our secrets, and is not made again", async () => {
    const error = { message: "key secret-of-ours of organisation-7 is wrong", type: "invalid_request_error" };
    await using near = await serve(json(401, { error }));
    const { status, problem } = await near.call();
    assert.equal(status, 401);
    assert.equal(problem, "invalid_request_error: key [hidden] of [hidden] is wrong");
    assert.equal(near.seen.length, 1);
  });

  test("says when the answer is none that can be charged for", async () => {
    await using near = await serve((response) => void response.end("<html>"));
    assert.match((await near.call()).problem ?? "", /the answer is none of openai-chat/);
    await using other = await serve(json(200, { ...chatAnswer, usage: undefined }));
    assert.match((await other.call()).problem ?? "", /tells no usage/);
  });

  test("says why there was no answer", async () => {
    await using near = await serve((response) => void response.socket?.destroy());
    const { status, problem } = await near.call();
    assert.equal(status, 0);
    assert.notEqual(problem, "");
    await using nobody = await serve(json(200, {}), { baseUrl: new URL("http://127.0.0.1:1") });
    assert.match((await nobody.call()).problem ?? "", /ECONNREFUSED/);
  });

  test("is made one at a time", async () => {
    let open: (() => void) | undefined;
    const isOpen = new Promise<void>((resolve) => (open = resolve));
    await using near = await serve((response) => void isOpen.then(() => json(200, chatAnswer)(response)));
    const first = near.call();
    await assert.rejects(near.call(), { code: "unavailable" });
    open?.();
    assert.equal((await first).problem, "");
    assert.equal((await near.call()).problem, "");
  });

  test("is of a model that runs there, and of a kind that costs next to nothing", async () => {
    await using near = await serve(json(200, {}), {}, { dialects: new Set(["openai-images"]) });
    await assert.rejects(near.call(), { code: "failed_precondition" });
    await assert.rejects(near.callOf({ upstream: "far", model: "m" }), { code: "not_found" });
    await assert.rejects(near.callOf({ upstream: "near", model: "none" }), { code: "not_found" });
    assert.equal(near.seen.length, 0);
  });
});
