import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ReceivedRequest } from "#fake-provider/receive.ts";
import { ask, bodyOf, chat, eventsOf, jsonEventsOf, makeCall, messages, type Side, sides } from "./ask.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const customer = await world.createCustomer();
const { relayUrl, fake } = world;

/** What the upstream received for a call. */
function receivedFor(rid: string): ReceivedRequest {
  const found = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
  assert.ok(found, "the upstream got the call");
  return found;
}

/** Sends a body as it stands; gives the bytes that the upstream received. */
async function relayBody(side: Side, body: string, headers: Record<string, string> = {}): Promise<string> {
  const sent = { headers: { ...side.headers(customer.secret), ...headers }, body };
  const reply = await ask(`${relayUrl}${side.path}`, sent);
  assert.equal(reply.status, 200, reply.text);
  return receivedFor(reply.rid).rawBody.toString();
}

// Odd on purpose: spellings that a parser would normalise, unknown fields, nesting, escapes, white space within.
const oddFields = [
  `"temperature" : 1.0e0`,
  String.raw`"zeta":{"b":[1E+2, -0, 0.10, 12345678901234567890],"a":{"\u0061":null}}`,
  `"seed":1e2`,
  String.raw`"unknown_field":"caf\u00e9 \ud83d\ude00 \/ \"quoted\" é 😀"`,
  `"top_p":1.00`,
  String.raw`"messages":
	[ {"content":"Say \u0073omething.\n","role":"user" , "name":"\u4f60"} ]`,
  `"logit_bias":{}`,
];
const oddly = oddFields.join(" ,\r\n\t  ");
// Where the relay must change a field, it may close the gaps between fields.
const closely = oddFields.join(",");

describe("unknown fields pass through; numbers, order and escapes of the body are not rewritten needlessly", () => {
  test("a chat body reaches the upstream byte for byte; API spec, Resources and their fields: **Model ID.** written the same way as the name used in the model's provider's own API", async () => {
    const body = ` {${oddly},\r\n"model":"test-model"} `;
    assert.equal(await relayBody(chat, body), body);
  });

  test("a streamed chat body that asks for usage reaches the upstream byte for byte", async () => {
    const body = `{"stream":true,${oddly},"stream_options":{ "include_usage":true },"model":"test-model"}`;
    assert.equal(await relayBody(chat, body), body);
  });

  test("a messages body reaches the upstream byte for byte, streamed or not, its metadata unchanged", async () => {
    for (const stream of ["true", "false"]) {
      const fields = `"max_tokens":1e2,"metadata":{ "user_id":"u-1" ,"x":1.0},"stream":${stream}`;
      const body = `{${oddly},${fields},"model":"test-model"}`;
      assert.equal(await relayBody(messages, body), body);
    }
  });

  test("the model name alone is changed when the upstream's differs", async () => {
    for (const side of sides) {
      const more = side.format === "B" ? `,"max_tokens":10` : "";
      const body = `{${closely}${more},"model" : "renamed\\u002dmodel","user":"renamed-model"}`;
      assert.equal(await relayBody(side, body), body.replace(String.raw`"renamed\u002dmodel"`, `"upstream-name"`));
    }
  });
});

describe("the token counts of a stream, which are always asked for", () => {
  const streamed = (streamOptions: string): string => `{${closely},"model":"test-model","stream":true${streamOptions}}`;

  test("a caller without stream_options: they are added, and the counts are kept from the caller", async () => {
    const body = streamed("");
    const sent = { headers: chat.headers(customer.secret), body };
    const reply = await ask(`${relayUrl}${chat.path}`, sent);
    const received = receivedFor(reply.rid);
    assert.deepEqual(received.body, { ...(JSON.parse(body) as object), stream_options: { include_usage: true } });
    const raw = received.rawBody.toString();
    assert.equal(raw.replace(/,?\s*"stream_options":\{"include_usage":true\},?/, ""), body, "nothing else was changed");
    assert.equal(eventsOf(reply.text).at(-1), "[DONE]");
    for (const event of jsonEventsOf(reply.text)) assert.equal((event["choices"] as unknown[]).length, 1);
    for (const event of jsonEventsOf(reply.text)) assert.equal(event["usage"] ?? null, null);
  });

  test("a caller who says include_usage false: the upstream is asked all the same, other options stay", async () => {
    const body = streamed(`,"stream_options":{"include_obfuscation":false,"include_usage":false}`);
    const raw = await relayBody(chat, body);
    assert.deepEqual(JSON.parse(raw), {
      ...(JSON.parse(body) as object),
      stream_options: { include_obfuscation: false, include_usage: true },
    });
  });

  test("API spec, Events: Chat completions: Lines `data: {...}` ending with `data: [DONE]`. With `stream_options.include_usage` true, token counts arrive before `[DONE]`", async () => {
    const call = { side: chat, isStream: true, behaviour: { usage: { inputTokens: 7, outputTokens: 9 } } };
    const reply = await makeCall(relayUrl, customer.secret, {
      ...call,
      more: { stream_options: { include_usage: true } },
    });
    assert.equal(eventsOf(reply.text).at(-1), "[DONE]");
    const last = jsonEventsOf(reply.text).at(-1);
    assert.deepEqual(last?.["choices"], []);
    const { prompt_tokens: prompt, completion_tokens: completion } = (last?.["usage"] ?? {}) as Record<string, number>;
    assert.deepEqual([prompt, completion], [7, 9]);
  });

  test("a call that is not streamed gets no stream_options", async () => {
    const body = `{"model":"test-model",${oddly},"stream":false}`;
    assert.equal(await relayBody(chat, body), body);
  });
});

test("API spec, Messages request: The service removes the parameters `inference_geo`, `service_tier` and `speed` before forwarding; API spec, Messages request: `metadata` | Passed to the upstream unchanged", async () => {
  const places = [
    [`"service_tier":"auto",`, `"max_tokens":9`, `,"metadata":{"user_id":"caf\\u00e9"},"inference_geo":"us"`],
    [``, `"max_tokens":9`, `,"speed":"fast" , "inference_geo":{"a":[1,{}]},"service_tier":null`],
    [`"speed":1,`, `"metadata" : {"user_id":"1"}`, `,"max_tokens":9`],
  ];
  for (const [before, kept, behind] of places) {
    const body = `{${before}"model":"test-model",${kept}${behind},${closely}}`;
    const raw = await relayBody(messages, body);
    const wanted = JSON.parse(body) as Record<string, unknown>;
    for (const name of ["inference_geo", "service_tier", "speed"]) delete wanted[name];
    assert.deepEqual(JSON.parse(raw), wanted);
    assert.ok(raw.includes(closely), "the other fields keep their bytes");
  }
});

test("service_tier of a chat request is the provider's and passes, where it needs no price of its own", async () => {
  const body = `{"service_tier":"default","model":"test-model",${oddly}}`;
  assert.equal(await relayBody(chat, body), body);
});

describe("headers", () => {
  test("the upstream gets the service's credential and the call's id, not the caller's credential", async () => {
    for (const side of sides) {
      const headers = { ...side.headers(customer.secret), "anthropic-beta": "beta-1", cookie: "a=b" };
      const reply = await ask(`${relayUrl}${side.path}`, { headers, body: bodyOf({ side }) });
      const received = receivedFor(reply.rid);
      assert.ok(!JSON.stringify(received.headers).includes(customer.secret));
      assert.equal(received.headers["cookie"], undefined);
      if (side.format === "A") assert.equal(received.headers["authorization"], "Bearer demo");
      else {
        assert.equal(received.headers["x-api-key"], "demo");
        assert.equal(received.headers["anthropic-version"], "2023-06-01");
        assert.equal(received.headers["anthropic-beta"], "beta-1");
      }
    }
  });

  test("nothing of the upstream's own headers reaches the caller", async () => {
    for (const side of sides) {
      for (const isStream of [false, true]) {
        const reply = await makeCall(relayUrl, customer.secret, { side, isStream });
        const names = [...reply.headers.keys()].filter((name) =>
          /openai|anthropic|ratelimit|cookie|cf-|server/.test(name),
        );
        assert.deepEqual(names, []);
      }
    }
  });

  test("API spec, What the service does: 6. Every processed response carries a request ID, each its own; API spec, Resources and their fields: **Request ID.** `X-Request-Id` and `request-id` (same value) on every processed response, successful or not", async () => {
    const { secret } = customer;
    const headers = chat.headers(secret);
    // `ask` itself fails on an answer without both.
    const replies = await Promise.all([
      ...sides.flatMap((side) => [false, true].map((isStream) => makeCall(relayUrl, secret, { side, isStream }))),
      ...sides.map((side) => makeCall(relayUrl, "sk-wrong", { side })),
      ...sides.map((side) => makeCall(relayUrl, secret, { side, behaviour: { status: 500 } })),
      ...sides.map((side) => ask(`${relayUrl}${side.path}`, { headers: side.headers(secret), body: "{" })),
      ask(`${relayUrl}/v1/models`, { method: "GET", headers }),
      ask(`${relayUrl}/v1/models`, { method: "GET" }),
      ask(`${relayUrl}/v1/nothing`, { headers }),
      ask(`${relayUrl}/nothing`, { headers }),
      ask(`${relayUrl}/v1/v1/messages`, { headers }),
      ask(`${relayUrl}/v1/chat/completions`, { method: "GET", headers }),
    ]);
    assert.equal(new Set(replies.map(({ rid }) => rid)).size, replies.length);
  });
});
