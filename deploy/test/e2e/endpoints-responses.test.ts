import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { chat, type Json, jsonEventsOf, type Reply } from "./ask.ts";
import { type Charge, checkCharge } from "./charge.ts";
import { claimOf, post, readUntil, sideOf, truthOf } from "./endpoints.ts";
import { checkRefusal, type Refusal, rows } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { relayUrl, fake } = world;

const { COMPLETE, CLIENT_GONE, UPSTREAM_CUT, UPSTREAM_ERROR } = EndCause;
const path = "/v1/responses";
const side = sideOf(path);
const atOnce = { concurrency: 4 };

const bodyOf = (behaviour: Behaviour, more: Json = {}): Json => ({
  model: "test-model",
  input: behaviourText(behaviour, "Say something."),
  ...more,
});

type CallOptions = { behaviour: Behaviour; more?: Json };

async function respond(secret: string, { behaviour, more = {} }: CallOptions): Promise<Reply & { sentBody: string }> {
  const body = bodyOf(behaviour, more);
  const reply = await post(relayUrl, secret, { path, body });
  return { ...reply, sentBody: JSON.stringify(body) };
}

const typesOf = (stream: string): string[] => jsonEventsOf(stream).map(({ type }) => String(type));

/** All text that a stream has delivered. */
const textOf = (stream: string): string =>
  jsonEventsOf(stream)
    .map(({ type, delta }) => (type === "response.output_text.delta" ? String(delta) : ""))
    .join("");

const usages: [string, NonNullable<Behaviour["usage"]>][] = [
  ["plain", { inputTokens: 1, outputTokens: 1 }],
  ["cached", { inputTokens: 100, cacheReadTokens: 1_777, outputTokens: 10 }],
  ["reasoning", { inputTokens: 31, outputTokens: 12, reasoningTokens: 345 }],
  ["cache-write", { inputTokens: 3, cacheWrite5mTokens: 2_049, outputTokens: 5 }],
];

describe("API spec, Endpoints: `POST /v1/responses` | A | Generate a response", atOnce, () => {
  for (const [kind, usage] of usages) {
    for (const stream of [false, true]) {
      test(`${kind} usage, ${stream ? "streamed" : "whole"}: one ledger line of exactly it`, async () => {
        const customer = await world.createCustomer();
        const reply = await respond(customer.secret, { behaviour: { usage }, more: { stream } });
        assert.equal(reply.status, 200, reply.text);
        const charge = { provider: claimOf(await truthOf(world, reply.rid)) };
        const line = await checkCharge(world, customer, { rid: reply.rid, endCause: COMPLETE, charge });
        assert.equal(line.usage.endpoint, path);
      });
    }
  }

  test("what is said is what is counted: reasoning, text and a function call, whole and streamed", async () => {
    const tools = [{ name: "get_weather", arguments: { city: "New York City" } }];
    const behaviour: Behaviour = { thinking: "Let me think.", text: "I will look.", tools };
    for (const stream of [false, true]) {
      const customer = await world.createCustomer();
      const reply = await respond(customer.secret, { behaviour, more: { stream } });
      const truth = await truthOf(world, reply.rid);
      assert.equal(truth.tokensEmitted, 3 + 3 + 1 + 3);
      await checkCharge(world, customer, {
        rid: reply.rid,
        endCause: COMPLETE,
        charge: { provider: { inputTokens: BigInt(truth.promptTokens), outputTokens: 7n, reasoningTokens: 3n } },
      });
      const last = (stream ? jsonEventsOf(reply.text).at(-1)?.["response"] : reply.json()) as { output: Json[] };
      assert.deepEqual(
        last.output.map(({ type }) => type),
        ["reasoning", "message", "function_call"],
      );
    }
  });

  test("an answer that its limit ended is whole: status incomplete, charged as told", async () => {
    for (const stream of [false, true]) {
      const customer = await world.createCustomer();
      const asked = { behaviour: { outputTokens: 50 }, more: { stream, max_output_tokens: 4 } };
      const { text, rid } = await respond(customer.secret, asked);
      assert.match(text, /"incomplete_details":\s*\{\s*"reason":\s*"max_output_tokens"/);
      const charge = { provider: claimOf(await truthOf(world, rid)) };
      assert.equal(charge.provider.outputTokens, 4n);
      await checkCharge(world, customer, { rid, endCause: COMPLETE, charge });
    }
  });

  test("without counts of the provider, input and output are counted from what was sent", async () => {
    const customer = await world.createCustomer();
    const behaviour: Behaviour = { usage: "omit", text: "four words in all" };
    const { rid, sentBody } = await respond(customer.secret, { behaviour, more: { stream: true } });
    const charge = { sentBody, sentText: "four words in all" };
    await checkCharge(world, customer, { rid, endCause: COMPLETE, charge });
  });
});

test("API spec, Events: Responses | Events such as `response.created`, `response.output_text.delta`, `response.completed`; API spec, Responses request: `stream` | `true` to stream", async () => {
  const customer = await world.createCustomer();
  const { text, headers } = await respond(customer.secret, { behaviour: { text: "a b c" }, more: { stream: true } });
  assert.equal(headers.get("content-type"), "text/event-stream; charset=utf-8");
  assert.deepEqual(typesOf(text), [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    ...Array.from({ length: 3 }, () => "response.output_text.delta"),
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
  ]);
  assert.deepEqual(
    [...text.matchAll(/^event: (.*)$/gm)].map(([, name]) => name),
    typesOf(text),
  );
  assert.ok(!text.includes("[DONE]"));
});

const weather = { type: "function", name: "get_weather", parameters: { type: "object", properties: {} } };
const parameters: [row: string, clauses: string, fields: Json][] = [
  [
    "`input`",
    "String or array of conversation items",
    { input: [{ role: "user", content: [{ type: "input_text", text: "Say something." }] }] },
  ],
  ["`instructions`", "System instructions", { instructions: "Be kind." }],
  ["`stream`", "passed on", { stream: true }],
  ["`max_output_tokens`", "Output token maximum", { max_output_tokens: 77 }],
  [
    "`tools`, `tool_choice`",
    "Tool-call definitions and selection",
    { tools: [weather], tool_choice: { type: "function", name: "get_weather" } },
  ],
  ["`reasoning`", "Reasoning settings", { reasoning: { effort: "high", summary: "auto" } }],
  ["`store`", "passed on unchanged; upstream default is true (stored)", { store: false }],
];

describe("a parameter reaches the upstream as it was sent, and none is added", atOnce, () => {
  async function checkPassed(body: Json): Promise<Reply> {
    const { secret } = await world.createCustomer();
    const reply = await post(relayUrl, secret, { path, body });
    assert.equal(reply.status, 200, reply.text);
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === reply.rid);
    assert.deepEqual([received?.path, received?.rawBody.toString()], [path, JSON.stringify(body)]);
    return reply;
  }

  for (const [row, clauses, fields] of parameters) {
    test(`API spec, Responses request: ${row} | no | ${clauses}`, async () => {
      const [name = ""] = Object.keys(fields);
      await checkPassed(Object.fromEntries(Object.entries(bodyOf({})).filter(([field]) => field !== name)));
      await checkPassed({ ...bodyOf({}), ...fields });
    });
  }

  test("API spec, Responses request: Available parameters and value ranges differ by model: the upstream judges them", async () => {
    const { secret } = await world.createCustomer();
    await checkPassed({ ...bodyOf({}), temperature: 99, a_parameter_of_tomorrow: { depth: 1 } });
    const error = { message: "temperature must be at most 1", code: "invalid_value" };
    const refused = await post(relayUrl, secret, { path, body: bodyOf({ status: 400, error }) });
    assert.equal(refused.status, 400);
    assert.equal((refused.json() as { error: Json }).error["message"], error.message);
  });
});

const errors: [Behaviour, Refusal | { status: number; code: string }][] = [
  [{ status: 400 }, { status: 400, code: "context_length_exceeded" }],
  [{ status: 404 }, { status: 400, code: "model_not_found" }],
  [{ status: 401 }, { status: 503, code: "service_unavailable" }],
  [{ status: 429 }, { status: 429, code: "rate_limit_exceeded" }],
  [{ status: 500 }, { status: 500, code: "server_error" }],
  [{ isHtml: true }, { status: 502, code: "server_error" }],
  [{ fault: { kind: "reset-before-headers" } }, { status: 500, code: "server_error" }],
];

describe("errors come in Format A and cost nothing", atOnce, () => {
  for (const [behaviour, wanted] of errors) {
    for (const stream of [false, true]) {
      test(`${JSON.stringify(behaviour)}, ${stream ? "streamed" : "whole"}`, async () => {
        const customer = await world.createCustomer();
        const reply = await respond(customer.secret, { behaviour, more: { stream } });
        assert.equal(reply.status, wanted.status);
        const { error } = reply.json() as { error: Json };
        assert.equal(error["code"], wanted.code);
        const line = await world.untilBooked(customer.accountId, reply.rid);
        assert.equal(line.amountNanos, 0n);
      });
    }
  }

  test("API spec, Responses request: `model` | yes | Model ID: one that is not offered or not given is refused, a wrong key too", async () => {
    const { secret } = await world.createCustomer();
    const model = await post(relayUrl, secret, { path, body: { model: "no-such-model", input: "x" } });
    checkRefusal(side, model, rows.unknownModel("no-such-model"));
    checkRefusal(side, await post(relayUrl, secret, { path, body: { input: "x" } }), rows.fieldRequired("model"));
    checkRefusal(side, await post(relayUrl, "sk-wrong", { path, body: bodyOf({}) }), rows.keyInvalid);
  });
});

type Cut = { how: string; behaviour: Behaviour; endCause: EndCause; said: string; ends: string };
const cuts: Cut[] = [
  {
    how: "cut by the upstream",
    behaviour: { fault: { kind: "cut", afterChunks: 3 } },
    endCause: UPSTREAM_CUT,
    said: "word1 word2 word3",
    ends: "response.output_text.delta",
  },
  {
    how: "ended by the upstream before its time",
    behaviour: { fault: { kind: "end-early", afterChunks: 2 } },
    endCause: UPSTREAM_CUT,
    said: "word1 word2",
    ends: "response.output_text.delta",
  },
  {
    how: "an upstream error partway: the event error, then response.failed",
    behaviour: { fault: { kind: "error-event", afterChunks: 2 } },
    endCause: UPSTREAM_ERROR,
    said: "word1 word2",
    ends: "response.failed",
  },
  {
    how: "an upstream error partway: response.failed alone",
    behaviour: { fault: { kind: "failed-event", afterChunks: 1 } },
    endCause: UPSTREAM_ERROR,
    said: "word1",
    ends: "response.failed",
  },
  {
    how: "an upstream error partway: the event error alone, behind which response.failed is added",
    behaviour: { fault: { kind: "lone-error-event", afterChunks: 2 } },
    endCause: UPSTREAM_ERROR,
    said: "word1 word2",
    ends: "response.failed",
  },
  {
    how: "an upstream error before any text",
    behaviour: { fault: { kind: "error-event" } },
    endCause: UPSTREAM_ERROR,
    said: "",
    ends: "response.failed",
  },
];

describe(
  "API spec, Streaming that stops partway: Responses | Not checked | Not checked | `response.completed` arrived",
  atOnce,
  () => {
    for (const { how, behaviour, endCause, said, ends } of cuts) {
      test(`${how}: no response.completed, and what came before is charged`, async () => {
        const customer = await world.createCustomer();
        const { text, rid, sentBody } = await respond(customer.secret, { behaviour, more: { stream: true } });
        assert.ok(!text.includes("response.completed"));
        assert.deepEqual([textOf(text), typesOf(text).at(-1)], [said, ends]);
        assert.equal(
          typesOf(text).filter((type) => type === "response.failed").length,
          ends === "response.failed" ? 1 : 0,
        );
        const charge: Charge = said === "" ? "nothing" : { sentBody, sentText: said };
        await checkCharge(world, customer, { rid, endCause, charge });
      });
    }

    test("the caller hangs up: the upstream is cancelled, and what came before is charged", async () => {
      const customer = await world.createCustomer();
      const behaviour: Behaviour = { text: "one two three", fault: { kind: "stall", afterChunks: 2 } };
      const sentBody = JSON.stringify(bodyOf(behaviour, { stream: true }));
      const request = { headers: chat.headers(customer.secret), body: sentBody };
      const { rid, text } = await readUntil(`${relayUrl}${path}`, request, '"delta":" two"');
      assert.equal(textOf(text), "one two");
      const charge = { sentBody, sentText: "one two" };
      await checkCharge(world, customer, { rid, endCause: CLIENT_GONE, charge });
      await until("upstream cancelled", () => fake.truth.find((truth) => truth.rid === rid)?.ended === "client-gone");
    });

    test("response.completed arrived: the answer is whole, whatever becomes of the connections behind it", async () => {
      const customer = await world.createCustomer();
      const behaviour: Behaviour = { fault: { kind: "stall", withheldFrames: 0 }, usage: { outputTokens: 7 } };
      const request = {
        headers: chat.headers(customer.secret),
        body: JSON.stringify(bodyOf(behaviour, { stream: true })),
      };
      const { rid } = await readUntil(`${relayUrl}${path}`, request, "event: response.completed");
      const charge = { provider: claimOf(await truthOf(world, rid)) };
      await checkCharge(world, customer, { rid, endCause: COMPLETE, charge });
    });
  },
);

describe(
  "API spec, Not supported or not checked: `POST /v1/responses/compact` | Passed to upstream as is",
  atOnce,
  () => {
    const compact = "/v1/responses/compact";
    const input = [
      { role: "user", content: "one two three four five six" },
      { role: "assistant", content: "seven eight nine ten eleven" },
    ];

    test("the body as it was sent, the answer as it came, charged by its usage", async () => {
      const customer = await world.createCustomer();
      const body = { model: "test-model", input, unheard_of: [1.1, { a: null }] };
      const reply = await post(relayUrl, customer.secret, { path: compact, body });
      assert.deepEqual([reply.status, reply.json()["object"]], [200, "response.compaction"]);
      assert.equal((reply.json()["output"] as Json[]).at(-1)?.["type"], "compaction");
      const received = fake.received.find(({ headers }) => headers["x-request-id"] === reply.rid);
      assert.deepEqual([received?.path, received?.rawBody.toString()], [compact, JSON.stringify(body)]);
      const provider = claimOf(await truthOf(world, reply.rid));
      assert.deepEqual(provider, { inputTokens: 11n, outputTokens: 2n });
      await checkCharge(world, customer, { rid: reply.rid, endCause: COMPLETE, charge: { provider } });
    });

    test("an upstream's error", async () => {
      const customer = await world.createCustomer();
      const body = { model: "test-model", input: behaviourText({ status: 429 }) };
      const reply = await post(relayUrl, customer.secret, { path: compact, body });
      assert.equal(reply.status, 429);
      await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_ERROR, charge: "nothing" });
    });
  },
);
