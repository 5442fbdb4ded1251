import assert from "node:assert/strict";
import { describe, test } from "node:test";
import Anthropic from "anthropic-sdk-0";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { countTries, failingCases, pixelBase64, warm, weather, weatherSchema } from "./clients-cases.ts";
import { sharedWorld } from "./shared-world.ts";

// The last line of the official client that sends x-api-key and anthropic-version: 2023-06-01.

const world = await sharedWorld();
const { relayUrl, fake } = world;

/** As anybody would set it up: another base URL and another key. */
const clientOf = (secret: string, baseUrl = relayUrl): Anthropic => new Anthropic({ baseURL: baseUrl, apiKey: secret });

const ask = (behaviour: Behaviour, model = "test-model") => ({
  model,
  max_tokens: 1_000,
  messages: [{ role: "user" as const, content: behaviourText(behaviour, "Say something.") }],
});

const textOf = ({ content }: Anthropic.Message): string =>
  content.map((block) => (block.type === "text" ? block.text : "")).join("");

describe("the official anthropic client 0.x, messages", () => {
  test("its key goes as x-api-key, and a whole message comes with its usage and its request id", async () => {
    const { secret, accountId } = await world.createCustomer();
    const usage = { inputTokens: 9, cacheReadTokens: 40, cacheWrite1hTokens: 20, outputTokens: 5 };
    const {
      data,
      response,
      request_id: rid,
    } = await clientOf(secret)
      .messages.create(ask({ text: "Hello there, you.", usage }))
      .withResponse();
    assert.deepEqual([textOf(data), data.stop_reason], ["Hello there, you.", "end_turn"]);
    assert.deepEqual([data.usage.input_tokens, data.usage.cache_read_input_tokens], [9, 40]);
    assert.equal(rid, response.headers.get("request-id"));
    const line = await world.untilBooked(accountId, String(rid));
    assert.deepEqual([line.usage.usage?.cacheWrite1hTokens, line.usage.usage?.outputTokens], [20n, 5n]);
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
    assert.equal(received?.headers["anthropic-version"], "2023-06-01");
    assert.ok(!JSON.stringify(received.headers).includes(secret));
  });

  test("a streamed message of thinking, text and a tool", async () => {
    const { secret, accountId } = await world.createCustomer();
    const behaviour = { thinking: "Let me think.", text: "I will look.", tools: [weather] };
    const tools = [{ name: weather.name, input_schema: weatherSchema }];
    const whole = await clientOf(secret)
      .messages.stream({ ...ask(behaviour), tools })
      .finalMessage();
    const [thinking, text, call] = whole.content;
    assert.equal(thinking?.type === "thinking" && thinking.thinking, "Let me think.");
    assert.equal(text?.type === "text" && text.text, "I will look.");
    assert.deepEqual(call?.type === "tool_use" && [call.name, call.input], [weather.name, weather.arguments]);
    assert.deepEqual([whole.stop_reason, whole.usage.output_tokens], ["tool_use", 3 + 3 + 1 + 3]);
    const [line] = await world.untilSettled(accountId, 1);
    assert.equal(line?.usage?.usage?.reasoningTokens, 3n);
  });

  test("a tool's result goes back, and the answer comes; so does a picture", async () => {
    const { secret } = await world.createCustomer();
    const tools = [{ name: weather.name, input_schema: weatherSchema }];
    const question = ask({ tools: [weather] });
    const said = await clientOf(secret).messages.create({ ...question, tools });
    const call = said.content.find((block) => block.type === "tool_use");
    assert.ok(call);
    const source = { type: "base64" as const, media_type: "image/png" as const, data: pixelBase64 };
    const content = [
      { type: "tool_result" as const, tool_use_id: call.id, content: warm },
      { type: "image" as const, source },
      { type: "text" as const, text: behaviourText({ text: "It is warm there." }) },
    ];
    const messages = [
      ...question.messages,
      { role: "assistant" as const, content: said.content },
      { role: "user" as const, content },
    ];
    const answer = await clientOf(secret).messages.create({ ...question, tools, messages });
    assert.equal(textOf(answer), "It is warm there.");
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === answer._request_id);
    assert.deepEqual(received?.body?.["messages"], messages);
  });

  test("models.list gives the models of the key in Format B", async () => {
    const { secret } = await world.createCustomer({ key: { models: ["test-model"] } });
    const found = [];
    for await (const { id, type } of clientOf(secret).models.list()) found.push([id, type]);
    assert.deepEqual(found, [["test-model", "model"]]);
  });

  test("an error within a stream: the answer ends partway, the client notices, what came before is charged", async () => {
    const { secret, accountId } = await world.createCustomer();
    const stream = clientOf(secret).messages.stream(ask({ fault: { kind: "error-event", afterChunks: 2 } }));
    let said = "";
    stream.on("text", (text) => (said += text));
    await assert.rejects(stream.finalMessage());
    assert.equal(said, "word1 word2");
    const [line] = await world.untilSettled(accountId, 1);
    assert.equal(line?.usage?.endCause, EndCause.UPSTREAM_ERROR);
    assert.ok(line.amountNanos < 0n);
  });
});

const errorTypes: Record<number, new (...args: never[]) => Error> = {
  400: Anthropic.BadRequestError,
  401: Anthropic.AuthenticationError,
  403: Anthropic.PermissionDeniedError,
  404: Anthropic.NotFoundError,
  429: Anthropic.RateLimitError,
  500: Anthropic.InternalServerError,
  503: Anthropic.InternalServerError,
  529: Anthropic.InternalServerError,
};

describe("the official anthropic client 0.x reads errors as its own types, with their request ids", () => {
  for (const { what, status, type, model, behaviour, prepare } of failingCases("B")) {
    test(`${what} is a ${errorTypes[status]?.name} ${status}, ${type}`, async () => {
      const { secret, baseUrl } = await prepare(world);
      const call = clientOf(secret, baseUrl).messages.create(ask(behaviour, model), { maxRetries: 0 });
      await assert.rejects(call, (error) => {
        assert.ok(error instanceof (errorTypes[status] ?? Error) && error instanceof Anthropic.APIError);
        assert.equal(error.status, status);
        assert.match(String(error.requestID), /^[0-9a-f-]{36}$/);
        if (status !== 404) assert.equal((error.error as { error: { type: string } }).error.type, type);
        return true;
      });
    });
  }
});

describe("the official anthropic client 0.x retries 2 times", () => {
  for (const status of [503, 529]) {
    test(`API spec, Retry guidance: 2. When \`Retry-After\` is present, wait at least that many seconds. 5 for a ${status}`, async () => {
      const { secret } = await world.createCustomer();
      const call = () => clientOf(secret).messages.create(ask({ status }));
      const { calls, waitsMs } = await countTries(world, { status, calls: 3 }, call);
      assert.deepEqual([calls, waitsMs], [3, [5_000, 5_000]]);
    });
  }

  test("a 429 with its Retry-After of 60 s: two more tries", async () => {
    const { secret } = await world.createCustomer();
    const call = () => clientOf(secret).messages.create(ask({ status: 429 }));
    const { calls, waitsMs } = await countTries(world, { status: 429, calls: 3 }, call);
    assert.deepEqual([calls, waitsMs], [3, [60_000, 60_000]]);
  });

  test("API spec, Retry guidance: 3. A wrong model ID is returned as 503, so it is not retryable. One try", async () => {
    const { secret } = await world.createCustomer();
    const call = () => clientOf(secret).messages.create(ask({}, "no-such-model"));
    assert.deepEqual(await countTries(world, { status: 503, calls: 1 }, call), { calls: 1, waitsMs: [] });
  });

  test("400, 401 and 403 are not tried again", async () => {
    for (const { status, behaviour, prepare } of failingCases("B").slice(0, 3)) {
      const { secret } = await prepare(world);
      const call = () => clientOf(secret).messages.create(ask(behaviour));
      assert.deepEqual(await countTries(world, { status, calls: 1 }, call), { calls: 1, waitsMs: [] });
    }
  });
});
