import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { document } from "./openapi.ts";
import { ask, bodyOf, chat, errorOf, type Json, makeCall, messages, type Reply, type Side, sides } from "./ask.ts";
import { checkRefusal, checkUntouched, rows } from "./refusal.ts";
import { checkVideoRefusal } from "./videos.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { relayUrl } = world;
const customer = await world.createCustomer();
const { secret } = customer;

/** Asks with a right key and a right body, which must not help: nothing is charged and no upstream is called. */
async function askInVain(method: string, path: string, side: Side = chat): Promise<Reply> {
  const body = method === "POST" ? { body: bodyOf({ side }) } : {};
  const replies: Reply[] = [];
  await checkUntouched(world, customer, async () => {
    replies.push(await ask(`${relayUrl}${path}`, { method, headers: side.headers(secret), ...body }));
  });
  return replies[0] as Reply;
}

async function checkUnknown(method: string, path: string): Promise<void> {
  const wanted = { status: 404, message: `Invalid URL (${method} ${path})`, code: "" };
  checkRefusal(chat, await askInVain(method, path), wanted);
}

describe("paths that are not supported", () => {
  test("API spec, Not supported or not checked: `POST /v1/messages/count_tokens` | Not supported; HTTP 404", async () => {
    const reply = await askInVain("POST", "/v1/messages/count_tokens", messages);
    assert.equal(reply.status, 404);
    assert.equal(errorOf(messages, reply).message, "Invalid URL (POST /v1/messages/count_tokens)");
  });

  test("API spec, Not supported or not checked: `/v1/files`, `/v1/batches`, fine-tuning | Not supported; `POST /v1/batches` returns 404; `GET /v1/files` returns 400", async () => {
    await checkUnknown("POST", "/v1/files");
    await checkUnknown("POST", "/v1/batches");
    await checkUnknown("GET", "/v1/batches/batch_1");
    await checkUnknown("POST", "/v1/fine_tuning/jobs");
    await checkUnknown("GET", "/v1/fine-tuning");
    const files = await askInVain("GET", "/v1/files");
    assert.equal(files.status, 400);
    assert.ok(errorOf(chat, files).message);
  });

  test("API spec, Not supported or not checked: `POST /v1/images/variations` | Not supported, a 404", async () => {
    await checkUnknown("POST", "/v1/images/variations");
  });

  test("API spec, Not supported or not checked: A third provider's format (`/v1beta/models/...`) | Not supported; HTTP 401, even with a right key", async () => {
    for (const [method, path] of [
      ["POST", "/v1beta/models/test-model:generateContent"],
      ["POST", "/v1beta/models/test-model:streamGenerateContent?alt=sse"],
      ["GET", "/v1beta/models"],
    ] as const) {
      checkRefusal(chat, await askInVain(method, path), rows.keyInvalid);
    }
  });

  test("API spec, Not supported or not checked: Balance (`/v1/dashboard/billing/...`) | Not supported; HTTP 404. API spec, What the service does: 5. no API returns the balance", async () => {
    for (const path of ["subscription", "usage", "credit_grants"]) {
      await checkUnknown("GET", `/v1/dashboard/billing/${path}`);
    }
  });

  test("API spec, Not supported or not checked: `/v1/realtime` | Not checked: a 404", async () => {
    await checkUnknown("GET", "/v1/realtime");
    await checkUnknown("POST", "/v1/realtime/sessions");
  });
});

test("API spec, Not supported or not checked: `GET /v1/models/{model_id}` gives an offered model's entry, else HTTP 200 with an error body saying the model does not exist", async () => {
  const limited = await world.createKey(customer.accountId, { models: ["test-model"] });
  const look = (model: string) =>
    ask(`${relayUrl}/v1/models/${model}`, { method: "GET", headers: chat.headers(limited.secret) });
  const offered = await look("test-model");
  assert.deepEqual([offered.status, offered.json()["id"], offered.json()["object"]], [200, "test-model", "model"]);
  for (const model of ["no-such-model", "renamed-model"]) {
    const reply = await look(model);
    assert.equal(reply.status, 200);
    const { message, code } = errorOf(chat, reply);
    assert.deepEqual([message, code], [`The model ${model} does not exist or is not available`, "model_not_found"]);
  }
});

test("API spec, Authentication: 5. When the path has `/v1` twice, then HTTP 404 with a JSON error whose message is `Invalid URL`; API spec, Cases: `/v1` twice | 404 | `Invalid URL (POST /v1/v1/...)`", async () => {
  for (const { path } of sides) await checkUnknown("POST", `/v1${path}`);
  await checkUnknown("GET", "/v1/v1/models");
});

test("API spec, Cases: Unsupported endpoint | 404 | `Invalid URL (POST /v1/...)`, and a supported one by another method", async () => {
  for (const path of ["/v1/nothing", "/v1/chat", "/v1/chat/completions/x", "/v1/"]) await checkUnknown("POST", path);
  await checkUnknown("GET", "/v1/chat/completions");
  await checkUnknown("DELETE", "/v1/models");
});

test("API spec, Authentication: 9. Keys, balance and spending limits are managed … not through the API", async () => {
  for (const path of ["keys", "api_keys", "balance", "account", "me", "usage", "organization/costs", "limits"]) {
    await checkUnknown("GET", `/v1/${path}`);
    await checkUnknown("POST", `/v1/${path}`);
  }
});

test("API spec, Versioning: 1. All endpoints are under the path prefix `/v1`. API spec, Model Relay Gateway API Specification: This document covers the whole service: Every endpoint path below starts with `/v1`", async () => {
  for (const [path, methods] of Object.entries(document.paths)) {
    assert.match(path, /^\/v1\//);
    for (const method of Object.keys(methods)) {
      const bare = path.replace(/^\/v1/, "").replace("{model_id}", "test-model");
      const reply = await askInVain(method.toUpperCase(), bare);
      assert.equal(reply.status, 404);
      assert.match(reply.headers.get("content-type") ?? "", /^text\/html/);
    }
  }
});

describe("where the key goes", () => {
  const call = (side: Side, headers: Record<string, string>): Promise<Reply> =>
    ask(`${relayUrl}${side.path}`, {
      headers: { "content-type": "application/json", ...headers },
      body: bodyOf({ side }),
    });
  const bearer = { authorization: `Bearer ${secret}` };
  const version = { "provider-version": "2023-06-01" };

  test("API spec, Authentication: A | `{base_url}/v1` | `Authorization: Bearer <API_KEY>`", async () => {
    assert.equal((await call(chat, bearer)).status, 200);
    checkRefusal(chat, await call(chat, { "x-api-key": secret, ...version }), rows.keyInvalid);
  });

  test("API spec, Authentication: B | `{base_url}` | `x-api-key: <API_KEY>` or `Authorization: Bearer <API_KEY>`", async () => {
    assert.equal((await call(messages, { "x-api-key": secret, ...version })).status, 200);
    assert.equal((await call(messages, { ...bearer, ...version })).status, 200);
  });

  test("API spec, Versioning: 2. Format B requests carry the header `provider-version` with a date string.", async () => {
    for (const date of ["2023-06-01", "2026-10-21"]) {
      assert.equal((await call(messages, { "x-api-key": secret, "provider-version": date })).status, 200);
    }
    for (const wrong of [{}, { "provider-version": "latest" }]) {
      const reply = await call(messages, { "x-api-key": secret, ...wrong });
      assert.deepEqual([reply.status, errorOf(messages, reply).type], [400, "invalid_request_error"]);
    }
  });
});

test("API spec, Errors: When a request cannot be processed, the service returns an HTTP status and a JSON error body. The body shape follows the endpoint. API spec, Model Relay Gateway API Specification: This document covers the whole service: **Format A** (chat-completions style, also used for responses, embeddings, completions, images, speech, moderations and videos), **Format B** (messages style)", async () => {
  const wrong = { authorization: "Bearer sk-wrong" };
  for (const [path, methods] of Object.entries(document.paths)) {
    const method = Object.keys(methods)[0] ?? "";
    const url = `${relayUrl}${path.replace("{model_id}", "test-model").replace("{task_id}", "video_0")}`;
    // Whatever format the caller's headers are of.
    for (const headers of [wrong, { "x-api-key": "sk-wrong", "provider-version": "2023-06-01" }]) {
      const reply = await ask(url, { method: method.toUpperCase(), headers });
      if (path.startsWith("/v1/videos")) checkVideoRefusal(reply, rows.keyInvalid);
      else checkRefusal(path === "/v1/messages" ? messages : chat, reply, rows.keyInvalid);
    }
  }
});

test("API spec, Conversion between formats: Any | `usage` may contain extra fields; API spec, Resources and their fields: **usage object.** Token counts in a response. It may contain fields outside the provider's specification", async () => {
  for (const side of sides) {
    for (const isStream of [false, true]) {
      const usage = { inputTokens: 40, cacheReadTokens: 20, outputTokens: 7, reasoningTokens: 3 };
      const more = side.format === "A" && isStream ? { stream_options: { include_usage: true } } : {};
      const reply = await makeCall(relayUrl, secret, { side, isStream, behaviour: { usage }, more });
      const details: Record<string, RegExp> = { A: /"cached_tokens": ?20/, B: /"cache_read_input_tokens": ?20/ };
      assert.match(reply.text, details[side.format] ?? /^$/);
    }
  }
});

test("API spec, Endpoints: `GET /v1/models` | A and B | List models the key can use; API spec, Resources and their fields: **Model ID.** The IDs a key can use are returned by `GET /v1/models`; API spec, Resources and their fields: **Model list entry.** Returned by `GET /v1/models` in Format A or Format B list shape", async () => {
  const limited = await world.createKey(customer.accountId, { models: ["renamed-model"] });
  for (const { headers, format } of sides) {
    const reply = await ask(`${relayUrl}/v1/models`, { method: "GET", headers: headers(limited.secret) });
    assert.equal(reply.status, 200);
    const { data, ...list } = reply.json() as { data: Json[] };
    assert.deepEqual(
      data.map(({ id }) => id),
      ["renamed-model"],
    );
    const ends = { first_id: "renamed-model", last_id: "renamed-model" };
    assert.deepEqual(list, format === "A" ? { object: "list" } : { has_more: false, ...ends });
  }
});
