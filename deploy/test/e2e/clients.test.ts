import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { answeredWith, withoutWaiting } from "./retries.ts";
import { sharedWorld } from "./shared-world.ts";
import type { Customer } from "./world.ts";

const world = await sharedWorld();
const { relayUrl, fake } = world;
const relayOpsUrl = world.stack.addresses.opsUrls.relay;

/** The official client as anybody would set it up: another base URL and another key, nothing else. */
const clientOf = ({ secret }: Pick<Customer, "secret">): OpenAI =>
  new OpenAI({ baseURL: `${relayUrl}/v1`, apiKey: secret });

const ask = (behaviour: Behaviour, model = "test-model") => ({
  model,
  messages: [{ role: "user" as const, content: behaviourText(behaviour, "Say something.") }],
});

const weather = { name: "get_weather", arguments: { city: "New York City", days: 2 } };
const sea = { name: "get_tide", arguments: { place: "Den Haag" } };
const clock = { name: "get_time", arguments: {} };
const definitions = [weather, sea, clock].map(({ name }) => ({
  type: "function" as const,
  function: { name, parameters: { type: "object", properties: {} } },
}));

describe("the official openai client, chat completions", () => {
  test("API spec, Not supported or not checked: Client base-address rule: clients of Format A use `{base_url}/v1`: a whole answer with its usage and its request id", async () => {
    const customer = await world.createCustomer();
    const usage = { inputTokens: 100, cacheReadTokens: 40, outputTokens: 12, reasoningTokens: 7 };
    const whole = await clientOf(customer).chat.completions.create(ask({ text: "Hello there, you.", usage }));
    assert.equal(whole.choices[0]?.message.content, "Hello there, you.");
    assert.equal(whole.choices[0]?.finish_reason, "stop");
    assert.deepEqual([whole.usage?.prompt_tokens, whole.usage?.completion_tokens], [140, 19]);
    const line = await world.untilBooked(customer.accountId, String(whole._request_id));
    assert.equal(line.usage.usage?.cacheReadTokens, 40n);
  });

  test("a stream: all text, a finish_reason, and no token counts that were not asked for", async () => {
    const customer = await world.createCustomer();
    const stream = await clientOf(customer).chat.completions.create({
      ...ask({ text: "one two three" }),
      stream: true,
    });
    let said = "";
    const finishes: unknown[] = [];
    for await (const { choices, usage } of stream) {
      said += choices[0]?.delta.content ?? "";
      if (choices[0]?.finish_reason) finishes.push(choices[0].finish_reason);
      assert.equal(usage ?? null, null);
      assert.equal(choices.length, 1);
    }
    assert.deepEqual([said, finishes], ["one two three", ["stop"]]);
    await world.untilSettled(customer.accountId, 1);
  });

  test("API spec, Not supported or not checked: Client base-address rule: extra settings to receive token counts: include_usage in a stream", async () => {
    const customer = await world.createCustomer();
    const usage = { inputTokens: 11, outputTokens: 22 };
    const stream = clientOf(customer).chat.completions.stream({
      ...ask({ text: "one two three", usage }),
      stream_options: { include_usage: true },
    });
    const whole = await stream.finalChatCompletion();
    assert.equal(whole.choices[0]?.message.content, "one two three");
    assert.deepEqual([whole.usage?.prompt_tokens, whole.usage?.completion_tokens], [11, 22]);
    const [line] = await world.untilSettled(customer.accountId, 1);
    assert.equal(line?.usage?.usage?.outputTokens, 22n);
  });

  test("tools: parallel calls with streamed arguments, one of them without arguments", async () => {
    const customer = await world.createCustomer();
    const asked = { ...ask({ text: "Let me look.", tools: [weather, sea, clock] }), tools: definitions };
    const wanted = [weather, sea, clock].map(({ name, arguments: values }) => [name, JSON.stringify(values)]);
    const streamed = await clientOf(customer).chat.completions.stream(asked).finalChatCompletion();
    const whole = await clientOf(customer).chat.completions.create(asked);
    for (const { choices } of [streamed, whole]) {
      const calls = choices[0]?.message.tool_calls ?? [];
      assert.deepEqual(
        calls.map((call) => call.type === "function" && [call.function.name, call.function.arguments]),
        wanted,
      );
      assert.equal(new Set(calls.map(({ id }) => id)).size, 3);
      assert.equal(choices[0]?.finish_reason, "tool_calls");
    }
    const [first, second] = await world.untilSettled(customer.accountId, 2);
    assert.equal(first?.amountNanos, second?.amountNanos, "streamed or whole, the same answer costs the same");
  });

  test("n=2: both choices come, streamed and whole, and both are charged", async () => {
    const customer = await world.createCustomer();
    const asked = { ...ask({ text: "same words here" }), n: 2 };
    const streamed = await clientOf(customer).chat.completions.stream(asked).finalChatCompletion();
    const whole = await clientOf(customer).chat.completions.create(asked);
    for (const { choices } of [streamed, whole]) {
      assert.deepEqual(
        choices.map(({ index, message }) => [index, message.content]),
        [
          [0, "same words here"],
          [1, "same words here"],
        ],
      );
    }
    for (const { usage } of await world.untilSettled(customer.accountId, 2)) {
      assert.equal(usage?.usage?.outputTokens, 6n);
    }
  });

  test("models.list gives the models of the key", async () => {
    const customer = await world.createCustomer({ key: { models: ["test-model"] } });
    const found = [];
    for await (const { id, object, owned_by: owner } of clientOf(customer).models.list())
      found.push([id, object, owner]);
    assert.deepEqual(found, [["test-model", "model", "e2e"]]);
  });

  test("abort mid-stream: the upstream is cancelled, and what came before is charged", async () => {
    const customer = await world.createCustomer();
    const behaviour: Behaviour = { text: "one two three four", fault: { kind: "stall", afterChunks: 2 } };
    const { data: stream, request_id: rid } = await clientOf(customer)
      .chat.completions.create({ ...ask(behaviour), stream: true })
      .withResponse();
    let said = "";
    for await (const { choices } of stream) {
      said += choices[0]?.delta.content ?? "";
      if (said === "one two") break;
    }
    const line = await world.untilBooked(customer.accountId, String(rid));
    assert.equal(line.usage.endCause, EndCause.CLIENT_GONE);
    assert.ok(line.amountNanos < 0n);
    await until("upstream cancelled", () => fake.truth.find((truth) => truth.rid === rid)?.ended === "client-gone");
  });
});

type ErrorType = new (...args: never[]) => InstanceType<typeof OpenAI.APIError>;
const upstreamErrors: [number, number, ErrorType, string][] = [
  [400, 400, OpenAI.BadRequestError, "context_length_exceeded"],
  [404, 400, OpenAI.BadRequestError, "model_not_found"],
  [401, 503, OpenAI.InternalServerError, "service_unavailable"],
  [429, 429, OpenAI.RateLimitError, "rate_limit_exceeded"],
  [500, 500, OpenAI.InternalServerError, "server_error"],
  [503, 503, OpenAI.InternalServerError, "service_unavailable"],
];

describe("the official openai client reads errors as its own types, with their request ids", () => {
  /** Makes a call that must fail, without retries. */
  async function failing(client: OpenAI, body: object): Promise<InstanceType<typeof OpenAI.APIError>> {
    const call = client.chat.completions.create(body as never, { maxRetries: 0 });
    const error = await call.then(
      () => assert.fail("the call must fail"),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof OpenAI.APIError, String(error));
    assert.match(String(error.requestID), /^[0-9a-f-]{36}$/);
    return error;
  }

  test("AuthenticationError 401, Invalid API key", async () => {
    const error = await failing(clientOf({ secret: "sk-wrong" }), ask({}));
    assert.ok(error instanceof OpenAI.AuthenticationError);
    assert.deepEqual([error.status, error.code, error.message], [401, "", "401 Invalid API key"]);
  });

  test("PermissionDeniedError 403, Insufficient balance", async () => {
    const error = await failing(clientOf(await world.createCustomer({ creditNanos: 1_000n })), ask({}));
    assert.ok(error instanceof OpenAI.PermissionDeniedError);
    assert.deepEqual([error.code, error.message], ["insufficient_quota", "403 Insufficient balance"]);
  });

  test("BadRequestError 400, field messages is required", async () => {
    const error = await failing(clientOf(await world.createCustomer()), { model: "test-model" });
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.deepEqual([error.code, error.message], ["invalid_request", "400 field messages is required"]);
  });

  test("RateLimitError 429, the account's own rate", async () => {
    const client = clientOf(await world.createCustomer({ requestsPerMinute: 1 }));
    await client.chat.completions.create(ask({}));
    const error = await failing(client, ask({}));
    assert.ok(error instanceof OpenAI.RateLimitError);
    assert.deepEqual([error.code, error.headers.get("retry-after")], ["rate_limit_exceeded", "60"]);
  });

  test("NotFoundError 404 for a path with /v1 twice", async () => {
    const customer = await world.createCustomer();
    const error = await failing(new OpenAI({ baseURL: `${relayUrl}/v1/v1`, apiKey: customer.secret }), ask({}));
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.message, "404 Invalid URL (POST /v1/v1/chat/completions)");
  });

  for (const [status, seen, type, code] of upstreamErrors) {
    test(`an upstream's ${status} arrives as ${type.name} ${seen}, code ${code}`, async () => {
      const customer = await world.createCustomer();
      const error = await failing(clientOf(customer), ask({ status }));
      assert.ok(error instanceof type);
      assert.deepEqual([error.status, error.code], [seen, code]);
    });
  }

  test("an error within a stream is thrown, after the chunks before it", async () => {
    const customer = await world.createCustomer();
    const behaviour: Behaviour = { fault: { kind: "error-event", afterChunks: 2 } };
    const stream = await clientOf(customer).chat.completions.create({ ...ask(behaviour), stream: true });
    let said = "";
    const reading = async (): Promise<void> => {
      for await (const { choices } of stream) said += choices[0]?.delta.content ?? "";
    };
    await assert.rejects(reading(), OpenAI.APIError);
    assert.equal(said, "word1 word2");
    await world.untilSettled(customer.accountId, 1);
  });
});

describe("API spec, Retry guidance: 4. Common client libraries retry 429 and 500-and-above errors 2 times by default. The openai client", () => {
  const cases: [number, number[]][] = [
    [429, [60_000, 60_000]],
    [503, [5_000, 5_000]],
    [401, [60_000, 60_000]],
  ];
  for (const [status, waitsMs] of cases) {
    const waits = waitsMs.map((ms) => `${ms / 1_000} s`).join(" and ");
    test(`an upstream's ${status}: two more tries, after a Retry-After of ${waits}`, async () => {
      const customer = await world.createCustomer();
      const client = clientOf(customer);
      const before = fake.received.length;
      fake.scriptNext({ status }, { status }, {});
      const helped = await withoutWaiting(waitsMs, () => client.chat.completions.create(ask({ text: "at last" })));
      assert.equal(helped.result.choices[0]?.message.content, "at last");
      assert.deepEqual(helped.waitsMs, waitsMs);
      assert.equal(fake.received.length - before, 3);

      const failed = await withoutWaiting(waitsMs, async () => {
        await assert.rejects(client.chat.completions.create(ask({ status })), OpenAI.APIError);
      });
      assert.deepEqual(failed.waitsMs, waitsMs);
      assert.equal(fake.received.length - before, 6);
      const charged = (await world.untilSettled(customer.accountId, 6)).filter(({ amountNanos }) => amountNanos !== 0n);
      assert.equal(charged.length, 1, "only the call that was served is charged");
    });
  }

  test("API spec, Retry guidance: 3. A wrong model ID is returned as 503, so it is not retryable. One try, no wait", async () => {
    const customer = await world.createCustomer();
    const [before, received] = [await answeredWith(relayOpsUrl, 503), fake.received.length];
    const call = clientOf(customer).chat.completions.create(ask({}, "no-such-model"));
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof OpenAI.InternalServerError);
      assert.deepEqual([error.status, error.code], [503, "model_not_found"]);
      assert.equal(error.headers.get("retry-after"), null);
      return true;
    });
    assert.equal((await answeredWith(relayOpsUrl, 503)) - before, 1);
    assert.equal(fake.received.length, received);
  });

  test("400, 401 and 403 are not retried", async () => {
    const poor = await world.createCustomer({ creditNanos: 1n });
    for (const [status, client] of [
      [401, clientOf({ secret: "sk-wrong" })],
      [403, clientOf(poor)],
      [400, clientOf(await world.createCustomer())],
    ] as const) {
      const before = await answeredWith(relayOpsUrl, status);
      await assert.rejects(client.chat.completions.create(ask(status === 400 ? { status } : {})), OpenAI.APIError);
      assert.equal((await answeredWith(relayOpsUrl, status)) - before, 1);
    }
  });
});
