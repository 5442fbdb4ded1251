import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { modelOf, upstreamOf } from "../testing/fakes.ts";
import { ask, errorOf, startVideoRelay, submit, videoModelOf, type VideoRelay } from "../testing/video-relay.ts";

const onUpstream = (id: string, dialects: string[]) => ({
  id,
  routes: [{ upstream: upstreamOf({ dialects }), model: id, priority: 0, weight: 0 }],
});
const models = [
  videoModelOf(),
  modelOf({ ...onUpstream("vectors", ["openai-embeddings"]), dialects: new Set(["openai-embeddings"]) }),
  modelOf({
    ...onUpstream("words", ["openai-chat"]),
    dialects: new Set(["openai-chat", "openai-responses", "anthropic-messages"]),
  }),
  // Offered in a format that its upstream does not speak.
  modelOf({ ...onUpstream("nowhere", ["openai-chat"]), dialects: new Set(["openai-speech"]) }),
];

const bodies = {
  "/v1/chat/completions": { messages: [] },
  "/v1/responses": { input: "x" },
  "/v1/responses/compact": { input: "x" },
  "/v1/embeddings": { input: "x" },
  "/v1/completions": { prompt: "x" },
  "/v1/images/generations": { prompt: "x" },
  "/v1/audio/speech": { input: "x", voice: "alloy" },
  "/v1/moderations": { input: "x" },
  "/v1/videos": { prompt: "x" },
};

const askFor = (relay: VideoRelay, path: keyof typeof bodies, model: string) =>
  ask(relay, path, { method: "POST", body: JSON.stringify({ model, ...bodies[path] }) });

const served = {
  "sora-2": "/v1/videos",
  vectors: "/v1/embeddings",
  words: "/v1/chat/completions, /v1/responses, /v1/messages",
};

describe("a model asked for at an endpoint that does not serve it", () => {
  test("is 400 by the names of those that do, at every endpoint", async () => {
    await using relay = await startVideoRelay({ models });
    for (const [model, endpoints] of Object.entries(served)) {
      for (const path of Object.keys(bodies) as (keyof typeof bodies)[]) {
        if (endpoints.split(", ").includes(path)) continue;
        const told = await askFor(relay, path, model);
        const type = path === "/v1/videos" ? "invalid_request_error" : "api_error";
        const message = `The model ${model} is not served at ${path} but at ${endpoints}`;
        assert.deepEqual(errorOf(told), [400, type, "invalid_request", message]);
      }
    }
    assert.deepEqual([relay.told("reserve"), relay.taskServer.submitted], [[], []]);
    const ips = relay.told("authorize").map(({ ip }) => ip);
    assert.ok(ips.length > 0 && !ips.includes(""), "each counts for its address");
  });

  test("is told so in Format B, too, and as a form", async () => {
    await using relay = await startVideoRelay({ models });
    const inB = await ask(relay, "/v1/messages", {
      method: "POST",
      headers: { "provider-version": "2023-06-01" },
      body: JSON.stringify({ model: "vectors", max_tokens: 1, messages: [] }),
    });
    const message = "The model vectors is not served at /v1/messages but at /v1/embeddings";
    assert.equal(inB.status, 400);
    assert.deepEqual(inB.body, { type: "error", error: { type: "invalid_request_error", message } });
    const form = new FormData();
    form.set("model", "words");
    form.set("file", new Blob(["x"]), "a.wav");
    const heard = await ask(relay, "/v1/audio/transcriptions", { method: "POST", body: form });
    assert.deepEqual(errorOf(heard).slice(0, 3), [400, "api_error", "invalid_request"]);
  });

  test("stays unknown to a key that may not use it, and is not told at all to a wrong key", async () => {
    await using relay = await startVideoRelay({ models });
    const allow = (names: string[]) => () => ({ verdict: Verdict.OK, accountId: "a", keyId: "k", models: names });
    relay.desk.decide = allow(["words"]);
    for (const path of ["/v1/chat/completions", "/v1/videos"] as const) {
      assert.deepEqual(errorOf(await askFor(relay, path, "vectors")).slice(0, 3), [
        503,
        "api_error",
        "model_not_found",
      ]);
    }
    relay.desk.decide = allow(["words", "vectors"]);
    assert.equal((await askFor(relay, "/v1/chat/completions", "vectors")).status, 400);
    relay.desk.decide = () => ({ verdict: Verdict.KEY_INVALID });
    assert.equal((await askFor(relay, "/v1/chat/completions", "vectors")).status, 401);
  });

  test("API spec, Cases: Wrong or unoffered model ID | 503, also of one that no endpoint serves", async () => {
    await using relay = await startVideoRelay({ models, isWithoutVideos: true });
    for (const [path, model] of [
      ["/v1/chat/completions", "sora-2"],
      ["/v1/videos", "sora-2"],
      ["/v1/audio/speech", "nowhere"],
      ["/v1/chat/completions", "no-such-model"],
    ] as const) {
      const told = await askFor(relay, path, model);
      assert.deepEqual(errorOf(told).slice(0, 3), [503, "api_error", "model_not_found"], `${model} at ${path}`);
      assert.equal(told.headers.get("x-should-retry"), "false");
    }
    assert.equal((await submit(relay, { model: "words" })).status, 400);
  });
});
