import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { ask, bodyOf, chat, errorOf, type Json, makeCall, messages, ridOf, type Side } from "./ask.ts";
import { checkRefusal, checkUntouched, type Refusal, rows } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { relayUrl } = world;
const customer = await world.createCustomer();
const right = chat.headers(customer.secret);

const invalidUrl = (method: string, path: string): Refusal => ({
  status: 404,
  message: `Invalid URL (${method} ${path})`,
  code: "",
});
const formatOf = (path: string): Side => (/^\/v1\/messages(\/|$)/.test(path) ? messages : chat);

type RequestOptions = { method: string; path: string; headers?: Record<string, string> };

function askPath({ method, path, headers = right }: RequestOptions) {
  const hasBody = method !== "GET" && method !== "HEAD" && method !== "OPTIONS";
  return ask(`${relayUrl}${path}`, { method, headers, ...(hasBody ? { body: bodyOf({ side: chat }) } : {}) });
}

async function expectRefusal(asked: RequestOptions, wanted: Refusal): Promise<void> {
  await checkUntouched(world, customer, async () => {
    const reply = await askPath(asked);
    checkRefusal(formatOf(asked.path), reply, wanted);
  });
}

const unsupported: [string, [string, string][]][] = [
  ["Not supported or not checked: `POST /v1/messages/count_tokens`", [["POST", "/v1/messages/count_tokens"]]],
  [
    "Not supported or not checked: `/v1/files`, `/v1/batches`, fine-tuning",
    [
      ["POST", "/v1/batches"],
      ["GET", "/v1/batches"],
      ["GET", "/v1/batches/batch_1"],
      ["POST", "/v1/batches/batch_1/cancel"],
      ["POST", "/v1/files"],
      ["GET", "/v1/files/file-1"],
      ["DELETE", "/v1/files/file-1"],
      ["POST", "/v1/fine_tuning/jobs"],
      ["GET", "/v1/fine_tuning/jobs/job-1/events"],
    ],
  ],
  ["Not supported or not checked: `POST /v1/images/variations`", [["POST", "/v1/images/variations"]]],
  [
    "Not supported or not checked: Balance (`/v1/dashboard/billing/...`)",
    [
      ["GET", "/v1/dashboard/billing/credit_grants"],
      ["GET", "/v1/dashboard/billing/subscription"],
      ["GET", "/v1/dashboard/billing/usage"],
    ],
  ],
  [
    "Not supported or not checked: `/v1/realtime`",
    [
      ["GET", "/v1/realtime"],
      ["POST", "/v1/realtime"],
      ["POST", "/v1/realtime/sessions"],
    ],
  ],
  [
    "Cases: `/v1` twice",
    [
      ["POST", "/v1/v1/chat/completions"],
      ["POST", "/v1/v1/messages"],
      ["GET", "/v1/v1/models"],
      ["POST", "/v1/v1/v1/responses"],
      ["GET", "/v1/v1"],
    ],
  ],
  [
    "Authentication: 5. When the path has `/v1` twice, then HTTP 404",
    [
      ["POST", "/v1/v1/embeddings"],
      ["POST", "/v1/v1/videos"],
    ],
  ],
  [
    "Cases: Unsupported endpoint",
    [
      ["POST", "/v1/nothing"],
      ["POST", "/v1/audio/voices"],
      ["GET", "/v1/messages/batches"],
      ["POST", "/v1/messagesx"],
      ["GET", "/v1"],
      ["POST", "/v1/"],
    ],
  ],
  [
    "Authentication: 9. Keys, balance and spending limits are managed in the console, not through the API.",
    [
      ["GET", "/v1/keys"],
      ["POST", "/v1/keys"],
      ["GET", "/v1/balance"],
      ["GET", "/v1/usage"],
      ["GET", "/v1/organization/admin_api_keys"],
      ["GET", "/v1/user/balance"],
    ],
  ],
];
for (const [row, paths] of unsupported) {
  describe(`API spec, ${row}`, () => {
    for (const [method, path] of paths) {
      test(`${method} ${path}: 404, Invalid URL`, () => expectRefusal({ method, path }, invalidUrl(method, path)));
    }
  });
}

describe("API spec, Not supported or not checked: `/v1/files`, `/v1/batches`, fine-tuning", () => {
  test("GET /v1/files returns 400, with any key", async () => {
    const wanted = { status: 400, message: "The request could not be completed", code: "invalid_request" };
    await expectRefusal({ method: "GET", path: "/v1/files" }, wanted);
    await expectRefusal({ method: "GET", path: "/v1/files", headers: {} }, wanted);
    const reply = await ask(`${relayUrl}/v1/files?purpose=batch`, { method: "GET", headers: right });
    assert.equal(reply.status, 400);
  });
});

describe("API spec, Not supported or not checked: A third provider's format (`/v1beta/models/...`)", () => {
  for (const [method, path] of [
    ["POST", "/v1beta/models/some-model:generateContent"],
    ["POST", "/v1beta/models/some-model:streamGenerateContent?alt=sse"],
    ["GET", "/v1beta/models"],
    ["GET", "/v1beta/models/some-model"],
  ] as const) {
    test(`${method} ${path}: 401, even with a correct key`, () => expectRefusal({ method, path }, rows.keyInvalid));
  }
});

describe("other ways to write a known path", () => {
  for (const [method, path] of [
    ["POST", "/v1/chat/completions/"],
    ["POST", "/v1//chat/completions"],
    ["POST", "/v1/chat//completions"],
    ["POST", "/v1/Chat/Completions"],
    ["POST", "/v1/chat%2Fcompletions"],
    ["POST", "/v1/chat/completions%zz"],
    ["POST", "/v1/chat/completions%00"],
    ["POST", "/v1/chat/completions;x=1"],
    ["POST", "/v1/messages/"],
    ["GET", "/v1/models/"],
    ["GET", "/v1/chat/completions"],
    ["PUT", "/v1/chat/completions"],
    ["PATCH", "/v1/messages"],
    ["DELETE", "/v1/models"],
    ["DELETE", "/v1/models/test-model"],
    ["POST", "/v1/models"],
    ["OPTIONS", "/v1/chat/completions"],
    ["OPTIONS", "/v1/models"],
  ] as const) {
    test(`${method} ${path}: 404, Invalid URL, without its query`, async () => {
      await expectRefusal({ method, path }, invalidUrl(method, path));
      const reply = await askPath({ method, path: `${path}?api_key=secret` });
      checkRefusal(formatOf(path), reply, invalidUrl(method, path));
    });
  }

  test("HEAD: 404 without a body", async () => {
    for (const path of ["/v1/models", "/v1/chat/completions", "/v1/nothing"]) {
      const reply = await fetch(`${relayUrl}${path}`, { method: "HEAD", headers: right });
      assert.deepEqual([reply.status, await reply.text()], [404, ""]);
      ridOf(reply);
    }
  });

  test("a query, and encoded letters, do not change which endpoint is meant", async () => {
    for (const path of ["/v1/chat/completions?beta=true&x=%20", "/v1/chat/%63ompletions", "/v1/chat/completions?"]) {
      const options = { method: "POST", headers: right, body: bodyOf({ side: chat }) };
      const reply = await fetch(`${relayUrl}${path}`, options);
      assert.equal(reply.status, 200, `${path}: ${await reply.text()}`);
      await world.untilBooked(customer.accountId, ridOf(reply));
    }
  });

  test("a target of more than 8,192 characters: 400", async () => {
    const wanted = { status: 400, message: "The request could not be completed", code: "invalid_request" };
    await expectRefusal({ method: "POST", path: `/v1/chat/completions?x=${"a".repeat(9_000)}` }, wanted);
    const long = `/v1/${"a".repeat(8_000)}`;
    await expectRefusal({ method: "GET", path: long }, invalidUrl("GET", long));
  });

  for (const path of ["//v1/models", "/V1/models", "/v1beta", "/v1betax/models", "/v1.1/models", "/%zz", "/v10"]) {
    test(`${path}: without /v1, the website's HTML page`, async () => {
      const reply = await ask(`${relayUrl}${path}`, { method: "GET", headers: right });
      assert.equal(reply.status, 404);
      assert.match(reply.headers.get("content-type") ?? "", /^text\/html/);
    });
  }
});

describe("API spec, Not supported or not checked: `GET /v1/models/{model_id}`", () => {
  const asked = (id: string, headers: Record<string, string>) =>
    ask(`${relayUrl}/v1/models/${id}`, { method: "GET", headers });

  test("an offered model: 200 with its entry, as the list shows it, in both formats", async () => {
    for (const headers of [right, messages.headers(customer.secret)]) {
      const list = (await ask(`${relayUrl}/v1/models`, { method: "GET", headers })).json();
      for (const entry of list["data"] as Json[]) {
        const reply = await asked(String(entry["id"]), headers);
        assert.deepEqual([reply.status, reply.json()], [200, entry]);
      }
    }
    const encoded = await asked("test%2Dmodel", right);
    assert.equal(encoded.json()["id"], "test-model");
  });

  test("any other: HTTP 200 with an error body saying the model does not exist", async () => {
    const restricted = await world.createCustomer({ key: { models: ["renamed-model"] } });
    const names = ["no-such-model", "vendor/model", "a".repeat(300), "__proto__", "constructor", "%E2%82%AC", "<b>"];
    for (const side of [chat, messages]) {
      for (const id of names) {
        const reply = await asked(id, side.headers(customer.secret));
        assert.equal(reply.status, 200);
        // API spec, Errors: only /v1/messages has errors of Format B, whichever entry was asked for.
        const { message, code } = errorOf(chat, reply);
        assert.equal(message, `The model ${decodeURIComponent(id)} does not exist or is not available`);
        assert.equal(code, "model_not_found");
      }
      const forbidden = await asked("test-model", side.headers(restricted.secret));
      assert.match(errorOf(chat, forbidden).message, /^The model test-model does not exist/);
      const allowed = await asked("renamed-model", side.headers(restricted.secret));
      assert.equal(allowed.json()["id"], "renamed-model");
    }
  });

  test("a key is needed first: 401", async () => {
    checkRefusal(chat, await asked("test-model", {}), rows.keyInvalid);
    checkRefusal(chat, await asked("no-such-model", { authorization: "Bearer sk-wrong" }), rows.keyInvalid);
    checkRefusal(chat, await asked("test-model", { "x-api-key": customer.secret }), rows.keyInvalid);
    checkRefusal(chat, await asked("test-model", messages.headers("sk-wrong")), rows.keyInvalid);
  });
});

describe("base addresses and key headers", () => {
  test("API spec, Authentication: A | `{base_url}/v1` | `Authorization: Bearer <API_KEY>`", async () => {
    for (const authorization of [`Bearer ${customer.secret}`, `bearer ${customer.secret}`]) {
      const reply = await ask(`${relayUrl}/v1/chat/completions`, {
        headers: { authorization },
        body: bodyOf({ side: chat }),
      });
      assert.equal(reply.status, 200, reply.text);
      await world.untilBooked(customer.accountId, reply.rid);
    }
  });

  test("API spec, Authentication: B | `{base_url}` | `x-api-key: <API_KEY>` or `Authorization: Bearer <API_KEY>`", async () => {
    const version = { "provider-version": "2023-06-01" };
    for (const key of [{ "x-api-key": customer.secret }, { authorization: `Bearer ${customer.secret}` }]) {
      const body = bodyOf({ side: messages });
      const reply = await ask(`${relayUrl}/v1/messages`, { headers: { ...key, ...version }, body });
      assert.equal(reply.status, 200, reply.text);
      await world.untilBooked(customer.accountId, reply.rid);
    }
  });

  test("API spec, Versioning: 1. All endpoints are under the path prefix `/v1`.", async () => {
    for (const path of ["/chat/completions", "/messages", "/models", "/responses", "/embeddings", "/moderations"]) {
      const reply = await ask(`${relayUrl}${path}`, { headers: right, body: bodyOf({ side: chat }) });
      assert.deepEqual([reply.status, reply.headers.get("content-type")], [404, "text/html; charset=utf-8"]);
    }
  });
});

test("any content type is taken on a JSON endpoint, malformed ones too", async () => {
  for (const type of [
    "application/json; charset=utf-8",
    "text/plain",
    "application/x-www-form-urlencoded",
    "nonsense;;",
  ]) {
    const headers = { ...right, "content-type": type };
    const reply = await ask(`${relayUrl}${chat.path}`, { headers, body: bodyOf({ side: chat }) });
    assert.equal(reply.status, 200, `${type}: ${reply.text}`);
    await world.untilBooked(customer.accountId, reply.rid);
  }
});

test("__proto__ and constructor in a body are names like any other and go to the upstream as they came", async () => {
  const content = behaviourText({});
  const odd = `"__proto__":{"isAdmin":true,"model":"x"},"constructor":{"prototype":{"model":"y"}},"toString":null`;
  const body = `{${odd},"model":"test-model","messages":[{"role":"user","content":${JSON.stringify(content)},"__proto__":{"a":1}}]}`;
  const reply = await ask(`${relayUrl}${chat.path}`, { headers: right, body });
  assert.equal(reply.status, 200, reply.text);
  await world.untilBooked(customer.accountId, reply.rid);
  const next = await makeCall(relayUrl, customer.secret, { side: chat });
  assert.equal(next.status, 200);
  await world.untilBooked(customer.accountId, next.rid);
  await checkUntouched(world, customer, async () => {
    const without = `{"__proto__":{"model":"test-model","messages":[]}}`;
    checkRefusal(
      chat,
      await ask(`${relayUrl}${chat.path}`, { headers: right, body: without }),
      rows.fieldRequired("model"),
    );
  });
});
