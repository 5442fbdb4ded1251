import assert from "node:assert/strict";
import { describe, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { ask as askHttp, bodyOf, eventsOf, messages } from "./ask.ts";
import { pixelBase64, warm } from "./clients-cases.ts";
import { conversionCatalog, modelOf } from "./conversion.ts";
import { answeredWith, withoutWaiting } from "./retries.ts";
import { sharedWorld } from "./shared-world.ts";
import type { Customer } from "./world.ts";

const world = await sharedWorld(conversionCatalog);
const { relayUrl, fake } = world;
const relayOpsUrl = world.stack.addresses.opsUrls.relay;

/** The official client as anybody would set it up: another base URL and another key, nothing else. */
const clientOf = ({ secret }: Pick<Customer, "secret">): Anthropic =>
  new Anthropic({ baseURL: relayUrl, apiKey: secret });

const ask = (behaviour: Behaviour, model = "test-model") => ({
  model,
  max_tokens: 1_000,
  messages: [{ role: "user" as const, content: behaviourText(behaviour, "Say something.") }],
});

const weather = { name: "get_weather", arguments: { city: "New York City", days: 2 } };
const clock = { name: "get_time", arguments: {} };
const tools = [weather, clock].map(({ name }) => ({ name, input_schema: { type: "object" as const, properties: {} } }));

/** The blocks of a message, by what matters in each. */
function blocksOf({ content }: Anthropic.Message): unknown[] {
  return content.map((block) => {
    if (block.type === "text") return block.text;
    if (block.type === "thinking") return { thinking: block.thinking, isSigned: block.signature !== "" };
    return block.type === "tool_use" && { name: block.name, arguments: block.input };
  });
}

describe("the official anthropic client, messages", () => {
  test("API spec, Not supported or not checked: Client base-address rule: clients of Format B normally use `{base_url}`: a whole message with its usage by cache time and its request id", async () => {
    const customer = await world.createCustomer();
    const usage = {
      inputTokens: 9,
      cacheReadTokens: 40,
      cacheWrite5mTokens: 30,
      cacheWrite1hTokens: 20,
      outputTokens: 5,
    };
    const whole = await clientOf(customer).messages.create(ask({ text: "Hello there, you.", usage }));
    assert.deepEqual([blocksOf(whole), whole.stop_reason], [["Hello there, you."], "end_turn"]);
    assert.deepEqual(whole.usage.cache_creation, { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 20 });
    const line = await world.untilBooked(customer.accountId, String(whole._request_id));
    const booked = line.usage.usage;
    assert.deepEqual(
      [booked?.inputTokens, booked?.cacheReadTokens, booked?.cacheWrite5mTokens, booked?.cacheWrite1hTokens],
      [9n, 40n, 30n, 20n],
    );
  });

  test("API spec, Events: Messages (Format B): in that order; token counts are in `message_delta`; a final message", async () => {
    const customer = await world.createCustomer();
    const stream = clientOf(customer).messages.stream(ask({ text: "one two three", usage: { outputTokens: 33 } }));
    const types: string[] = [];
    stream.on("streamEvent", ({ type }) => void types.push(type));
    const whole = await stream.finalMessage();
    assert.deepEqual(
      [...new Set(types)],
      [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
      ],
    );
    assert.deepEqual(
      [blocksOf(whole), whole.stop_reason, whole.usage.output_tokens],
      [["one two three"], "end_turn", 33],
    );
    const [line] = await world.untilSettled(customer.accountId, 1);
    assert.equal(line?.usage?.usage?.outputTokens, 33n);
  });

  test("thinking blocks keep their signature, tools their input; whole and streamed", async () => {
    const customer = await world.createCustomer();
    const behaviour = { thinking: "Let me think.", text: "I will look.", tools: [weather, clock] };
    const thinking = { type: "enabled" as const, budget_tokens: 1_024 };
    const asked = { ...ask(behaviour), max_tokens: 2_048, tools, thinking };
    const whole = await clientOf(customer).messages.create(asked);
    const streamed = await clientOf(customer).messages.stream(asked).finalMessage();
    for (const message of [whole, streamed]) {
      const wanted = [{ thinking: "Let me think.", isSigned: true }, "I will look.", weather, clock];
      assert.deepEqual([blocksOf(message), message.stop_reason], [wanted, "tool_use"]);
    }
    const [first, second] = await world.untilSettled(customer.accountId, 2);
    assert.equal(first?.amountNanos, second?.amountNanos, "streamed or whole, the same answer costs the same");
    assert.equal(first?.usage?.usage?.reasoningTokens, 3n);
  });

  test("a tool's result goes back with a picture, and the answer comes; the key as authToken, too", async () => {
    const { secret } = await world.createCustomer();
    const client = new Anthropic({ baseURL: relayUrl, authToken: secret });
    const question = ask({ tools: [weather] });
    const said = await client.messages.create({ ...question, tools });
    const call = said.content.find((block) => block.type === "tool_use");
    assert.ok(call);
    const source = { type: "base64" as const, media_type: "image/png" as const, data: pixelBase64 };
    const content = [
      { type: "tool_result" as const, tool_use_id: call.id, content: warm },
      { type: "image" as const, source },
      { type: "text" as const, text: behaviourText({ text: "It is warm there." }) },
    ];
    const turns = [
      ...question.messages,
      { role: "assistant" as const, content: said.content },
      { role: "user" as const, content },
    ];
    const answer = await client.messages.create({ ...question, tools, messages: turns });
    assert.deepEqual(blocksOf(answer), ["It is warm there."]);
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === answer._request_id);
    assert.deepEqual(received?.body?.["messages"], turns);
  });

  test("the beta namespace, which adds a query and a header, is served alike", async () => {
    const customer = await world.createCustomer();
    const whole = await clientOf(customer).beta.messages.create({ ...ask({ text: "Hello." }), betas: ["beta-1"] });
    assert.deepEqual(
      whole.content.map((block) => block.type === "text" && block.text),
      ["Hello."],
    );
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === whole._request_id);
    assert.match(String(received?.headers["anthropic-beta"]), /beta-1/);
    await world.untilSettled(customer.accountId, 1);
  });

  for (const provider of ["messages", "chat"] as const) {
    test(`the tool runner cannot go on with a thread at the provider, and sends its whole history to ${provider}`, async () => {
      const customer = await world.createCustomer();
      const from = fake.received.length;
      fake.scriptNext({ tools: [weather] }, { text: "It is warm there." });
      const inputSchema = { type: "object", properties: { city: { type: "string" } } } as const;
      const tool = betaTool({ name: weather.name, description: "Weather.", inputSchema, run: () => warm });
      const question = { role: "user" as const, content: "What is the weather?" };
      const settings = { model: modelOf(provider), max_tokens: 1_000, messages: [question], tools: [tool] };
      const { content } = await clientOf(customer).beta.messages.toolRunner(settings);
      assert.deepEqual(
        content.map((block) => block.type === "text" && block.text),
        ["It is warm there."],
      );
      const bodies = fake.received.slice(from).map(({ body }) => body);
      assert.equal(bodies.length, 2, "a refusal never reaches the provider");
      for (const words of ["What is the weather?", weather.arguments.city, warm]) {
        assert.ok(JSON.stringify(bodies[1]?.["messages"]).includes(words), words);
      }
      for (const body of bodies) assert.equal(body?.["thread"], undefined);
      await world.untilSettled(customer.accountId, 2);
    });
  }

  test("models.list gives the models of the key in its own shape, and models.retrieve one of them", async () => {
    const customer = await world.createCustomer({ key: { models: ["test-model"] } });
    const client = clientOf(customer);
    const found = [];
    for await (const { id, type, max_tokens: most, created_at: created } of client.models.list())
      found.push([id, type, most, created]);
    assert.deepEqual(found, [["test-model", "model", 16_384, "2026-01-01T00:00:00Z"]]);
    const { id, type } = await client.models.retrieve("test-model");
    assert.deepEqual([id, type], ["test-model", "model"]);
  });

  test("a caller with x-api-key and provider-version, over plain fetch, whole and streamed", async () => {
    const customer = await world.createCustomer();
    for (const isStream of [false, true]) {
      const headers = { "x-api-key": customer.secret, "provider-version": "2023-06-01" };
      const body = bodyOf({ side: messages, isStream, behaviour: { text: "one two" } });
      const reply = await askHttp(`${relayUrl}/v1/messages`, { headers, body });
      assert.equal(reply.status, 200, reply.text);
      if (isStream) assert.match(eventsOf(reply.text).at(-1) ?? "", /"message_stop"/);
      else assert.deepEqual((reply.json()["content"] as { text: string }[])[0]?.text, "one two");
    }
    await world.untilSettled(customer.accountId, 2);
  });

  test("abort mid-stream: the upstream is cancelled, and what came before is charged", async () => {
    const customer = await world.createCustomer();
    const behaviour: Behaviour = { text: "one two three four", fault: { kind: "stall", afterChunks: 2 } };
    const stream = clientOf(customer).messages.stream(ask(behaviour));
    const gone = new Promise((resolve) => stream.on("abort", resolve));
    let said = "";
    stream.on("text", (text) => {
      said += text;
      if (said === "one two") stream.abort();
    });
    await gone;
    const rid = String(stream.request_id);
    const line = await world.untilBooked(customer.accountId, rid);
    assert.equal(line.usage.endCause, EndCause.CLIENT_GONE);
    assert.ok(line.amountNanos < 0n);
    await until("upstream cancelled", () => fake.truth.find((truth) => truth.rid === rid)?.ended === "client-gone");
  });
});

type ErrorType = new (...args: never[]) => InstanceType<typeof Anthropic.APIError>;
const upstreamErrors: [number, number, ErrorType, string][] = [
  [400, 400, Anthropic.BadRequestError, "invalid_request_error"],
  [413, 400, Anthropic.BadRequestError, "invalid_request_error"],
  [402, 503, Anthropic.InternalServerError, "api_error"],
  [429, 429, Anthropic.RateLimitError, "rate_limit_error"],
  [500, 500, Anthropic.InternalServerError, "api_error"],
  [529, 529, Anthropic.InternalServerError, "overloaded_error"],
];

describe("the official anthropic client reads errors as its own types, with their request ids", () => {
  async function failing(client: Anthropic, body: object): Promise<InstanceType<typeof Anthropic.APIError>> {
    const call = client.messages.create(body as never, { maxRetries: 0 });
    const error = await call.then(
      () => assert.fail("the call must fail"),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof Anthropic.APIError, String(error));
    assert.match(String(error.requestID), /^[0-9a-f-]{36}$/);
    return error;
  }

  test("NotFoundError 404 for a path with /v1 twice", async () => {
    const { secret } = await world.createCustomer();
    const error = await failing(new Anthropic({ baseURL: `${relayUrl}/v1`, apiKey: secret }), ask({}));
    assert.ok(error instanceof Anthropic.NotFoundError);
    assert.match(error.message, /Invalid URL \(POST \/v1\/v1\/messages\)/);
  });

  test("AuthenticationError 401, authentication_error", async () => {
    const error = await failing(clientOf({ secret: "sk-wrong" }), ask({}));
    assert.ok(error instanceof Anthropic.AuthenticationError);
    assert.equal(error.type, "authentication_error");
    assert.match(error.message, /Invalid API key/);
  });

  test("PermissionDeniedError 403, permission_error", async () => {
    const error = await failing(clientOf(await world.createCustomer({ creditNanos: 1_000n })), ask({}));
    assert.ok(error instanceof Anthropic.PermissionDeniedError);
    assert.equal(error.type, "permission_error");
  });

  test("BadRequestError 400, field max_tokens is required", async () => {
    const { max_tokens: _cap, ...body } = ask({});
    const error = await failing(clientOf(await world.createCustomer()), body);
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.match(error.message, /field max_tokens is required/);
  });

  for (const [status, seen, errorType, type] of upstreamErrors) {
    test(`an upstream's ${status} arrives as ${errorType.name} ${seen}, ${type}`, async () => {
      const customer = await world.createCustomer();
      const error = await failing(clientOf(customer), ask({ status }));
      assert.ok(error instanceof errorType);
      assert.deepEqual([error.status, error.type], [seen, type]);
    });
  }

  test("an error within a stream: no error arrives, the answer ends partway, and the client notices", async () => {
    const customer = await world.createCustomer();
    const stream = clientOf(customer).messages.stream(ask({ fault: { kind: "error-event", afterChunks: 2 } }));
    let said = "";
    stream.on("text", (text) => (said += text));
    await assert.rejects(stream.finalMessage(), (error) => {
      assert.ok(!(error instanceof Anthropic.APIError) || error.status === undefined, String(error));
      return true;
    });
    assert.equal(said, "word1 word2");
    await world.untilSettled(customer.accountId, 1);
  });
});

describe("API spec, Retry guidance: 4. Common client libraries retry 429 and 500-and-above errors 2 times by default. The anthropic client", () => {
  for (const [status, waitMs] of [
    [429, 60_000],
    [529, 5_000],
    [503, 5_000],
  ] as const) {
    test(`an upstream's ${status}: two more tries, each after Retry-After ${waitMs / 1_000} s`, async () => {
      const customer = await world.createCustomer();
      const before = fake.received.length;
      fake.scriptNext({ status }, { status }, {});
      const call = () => clientOf(customer).messages.create(ask({ text: "at last" }));
      const { result, waitsMs } = await withoutWaiting([waitMs], call);
      assert.deepEqual(blocksOf(result), ["at last"]);
      assert.deepEqual(waitsMs, [waitMs, waitMs]);
      assert.equal(fake.received.length - before, 3);
      const charged = (await world.untilSettled(customer.accountId, 3)).filter(({ amountNanos }) => amountNanos !== 0n);
      assert.equal(charged.length, 1, "only the call that was served is charged");
    });
  }

  test("API spec, Retry guidance: 3. A wrong model ID is returned as 503, so it is not retryable. One try, no wait", async () => {
    const customer = await world.createCustomer();
    const before = await answeredWith(relayOpsUrl, 503);
    await assert.rejects(clientOf(customer).messages.create(ask({}, "no-such-model")), Anthropic.InternalServerError);
    assert.equal((await answeredWith(relayOpsUrl, 503)) - before, 1);
  });
});
