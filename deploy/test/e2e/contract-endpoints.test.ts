import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { ask, chat, type Json, makeCall, messages, type Reply } from "./ask.ts";
import { modelOn } from "./catalog.ts";
import { checkCharge } from "./charge.ts";
import { endpointCatalog, post, truthOf } from "./endpoints.ts";
import { document } from "./openapi.ts";
import { withVideos } from "./video-catalog.ts";
import { startWorld } from "./world.ts";

// Models of the families that the spec recommends a format for, each on an upstream that speaks its provider's formats.
const families = {
  "format-b-model": ["anthropic-messages"],
  "format-a-model": ["openai-chat", "openai-responses"],
  "other-model": ["openai-chat"],
} as const;

function familyCatalog(fakeUrl: string, videosUrl: string): string {
  const catalog = JSON.parse(endpointCatalog(fakeUrl)) as Record<"upstreams" | "models", Record<string, Json>>;
  for (const [model, dialects] of Object.entries(families)) {
    catalog.upstreams[model] = { ...catalog.upstreams["fake"], dialects };
    catalog.models[model] = modelOn(model) as Json;
  }
  return withVideos(JSON.stringify(catalog), videosUrl);
}

const world = await startWorld({ catalog: familyCatalog });
after(() => world[Symbol.asyncDispose]());
const { relayUrl } = world;
const { secret } = await world.createCustomer();

const said = behaviourText({ text: "Here it is." }, "Say something.");
const conversation = { model: "test-model", messages: [{ role: "user", content: said }] };

/** A right body for each endpoint that takes JSON. */
const bodies: Record<string, Json> = {
  "/v1/chat/completions": conversation,
  "/v1/responses": { model: "test-model", input: said },
  "/v1/messages": { ...conversation, max_tokens: 100 },
  "/v1/embeddings": { model: "embedding-model", input: "some text" },
  "/v1/completions": { model: "completion-model", prompt: said },
  "/v1/images/generations": { model: "picture-model", prompt: "a house" },
  "/v1/audio/speech": { model: "voice-model", input: "Good morning.", voice: "alloy" },
  "/v1/moderations": { model: "moderation-model", input: "a song" },
  "/v1/videos": { model: "sora-model", prompt: "a tide pool at dawn" },
};

test("API spec, What the service does: 2. Endpoints cover: conversation generation (three endpoints), model listing, embeddings, older text completions, image generation, speech synthesis, moderation, and asynchronous video generation tasks", async () => {
  for (const [path, body] of Object.entries(bodies)) {
    const customer = await world.createCustomer();
    const { headers } = path === messages.path ? messages : chat;
    const asked = { headers: headers(customer.secret), body: JSON.stringify(body) };
    const reply = await ask(`${relayUrl}${path}`, asked);
    assert.equal(reply.status, 200, `${path}: ${reply.text}`);
    const line = await world.untilBooked(customer.accountId, reply.rid);
    assert.equal(line.usage.endpoint, path);
    assert.ok(line.amountNanos < 0n, `${path} is metered`);
  }
  const list = await ask(`${relayUrl}/v1/models`, { method: "GET", headers: chat.headers(secret) });
  assert.equal(list.status, 200);
  // Beside them: what is passed through; a model's own entry, a video's and its file; secrets of realtime sessions.
  const beside = [
    "/v1/models",
    "/v1/models/{model_id}",
    "/v1/responses/compact",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/images/edits",
    "/v1/realtime/client_secrets",
    "/v1/videos/{task_id}",
    "/v1/videos/{task_id}/content",
  ];
  assert.deepEqual(Object.keys(document.paths).toSorted(), [...Object.keys(bodies), ...beside].toSorted());
});

describe("the conversation endpoints, whole and streamed", () => {
  for (const side of [chat, messages]) {
    for (const isStream of [false, true]) {
      test(`API spec, Endpoints: \`POST ${side.path}\` | ${side.format} | ${isStream ? "streamed" : "whole"}`, async () => {
        const customer = await world.createCustomer();
        const reply = await makeCall(relayUrl, customer.secret, { side, isStream, behaviour: { text: "Here." } });
        assert.equal(reply.status, 200, reply.text);
        assert.match(reply.text, /Here\./);
        const { promptTokens } = await truthOf(world, reply.rid);
        const charge = { provider: { inputTokens: BigInt(promptTokens), outputTokens: 1n } };
        await checkCharge(world, customer, { rid: reply.rid, endCause: EndCause.COMPLETE, charge });
      });
    }
  }
});

describe("every family of models answers in the formats that are recommended for it", () => {
  const respond = (model: string): Promise<Reply> =>
    post(relayUrl, secret, { path: "/v1/responses", body: { model, input: said } });

  test("API spec, What the service does: Models of the Format B provider | Format B, `POST /v1/messages`", async () => {
    const reply = await makeCall(relayUrl, secret, { side: messages, model: "format-b-model" });
    assert.deepEqual([reply.status, reply.json()["type"]], [200, "message"]);
  });

  test("API spec, What the service does: Models of the Format A provider | Format A, `POST /v1/chat/completions` or `POST /v1/responses`", async () => {
    const reply = await makeCall(relayUrl, secret, { side: chat, model: "format-a-model" });
    assert.deepEqual([reply.status, reply.json()["object"]], [200, "chat.completion"]);
    const response = await respond("format-a-model");
    assert.deepEqual([response.status, response.json()["object"]], [200, "response"]);
  });

  test("API spec, What the service does: All other models | Format A, `POST /v1/chat/completions`", async () => {
    const reply = await makeCall(relayUrl, secret, { side: chat, model: "other-model" });
    assert.deepEqual([reply.status, reply.json()["object"]], [200, "chat.completion"]);
  });
});
