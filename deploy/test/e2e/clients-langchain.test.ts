import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { countTries, failingCases, pixelBase64, warm, weather, weatherSchema } from "./clients-cases.ts";
import { endpointCatalog } from "./endpoints.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(endpointCatalog);
const { relayUrl, fake } = world;

type Settings = { secret: string; model?: string; baseUrl?: string; maxRetries?: number };

/** As anybody would set it up: another base URL and another key. */
function fieldsOf({ secret, model = "test-model", baseUrl = relayUrl, maxRetries }: Settings) {
  const retries = maxRetries === undefined ? {} : { maxRetries };
  return { model, apiKey: secret, configuration: { baseURL: `${baseUrl}/v1` }, ...retries };
}

type Counts = { input_tokens: number; output_tokens: number } | undefined;

const ask = (behaviour: Behaviour) => behaviourText(behaviour, "Say something.");

for (const useResponsesApi of [false, true]) {
  const modelOf = (settings: Settings): ChatOpenAI => new ChatOpenAI({ ...fieldsOf(settings), useResponsesApi });

  describe(`@langchain/openai ChatOpenAI, ${useResponsesApi ? "responses" : "chat completions"}`, () => {
    test("a whole text with its usage, charged once", async () => {
      const { secret, accountId } = await world.createCustomer();
      const usage = { inputTokens: 100, cacheReadTokens: 40, outputTokens: 12 };
      const whole = await modelOf({ secret }).invoke(ask({ text: "Hello there, you.", usage }));
      assert.equal(whole.text, "Hello there, you.");
      const told = whole.usage_metadata as Counts;
      assert.deepEqual([told?.input_tokens, told?.output_tokens], [140, 12]);
      const [line] = await world.untilSettled(accountId, 1);
      assert.equal(line?.usage?.usage?.cacheReadTokens, 40n);
    });

    test("a streamed text with its usage", async () => {
      const { secret, accountId } = await world.createCustomer();
      const usage = { inputTokens: 11, outputTokens: 22 };
      const pieces: string[] = [];
      let outputTokens = 0;
      for await (const chunk of await modelOf({ secret }).stream(ask({ text: "one two three", usage }))) {
        if (chunk.text !== "") pieces.push(chunk.text);
        outputTokens += (chunk.usage_metadata as Counts)?.output_tokens ?? 0;
      }
      assert.deepEqual([pieces.length > 1, pieces.join(""), outputTokens], [true, "one two three", 22]);
      const [line] = await world.untilSettled(accountId, 1);
      assert.equal(line?.usage?.usage?.outputTokens, 22n);
    });

    test("a tool is called, its result goes back, and the answer comes", async () => {
      const { secret, accountId } = await world.createCustomer();
      const received = fake.received.length;
      fake.scriptNext({ tools: [weather] }, { text: "It is warm there." });
      const getWeather = tool(() => warm, { name: weather.name, description: "The weather.", schema: weatherSchema });
      const model = modelOf({ secret }).bindTools([getWeather]);
      const question = new HumanMessage("What is the weather?");
      const said = await model.invoke([question]);
      const [call] = said.tool_calls ?? [];
      assert.deepEqual([call?.name, call?.args], [weather.name, weather.arguments]);
      const result = new ToolMessage({ content: warm, tool_call_id: String(call?.id) });
      const answer = await model.invoke([question, said, result]);
      assert.equal(answer.text, "It is warm there.");
      assert.match(JSON.stringify(fake.received[received + 1]?.body), new RegExp(warm));
      await world.untilSettled(accountId, 2);
    });

    test("a picture as input reaches the upstream", async () => {
      const { secret } = await world.createCustomer();
      const received = fake.received.length;
      const url = `data:image/png;base64,${pixelBase64}`;
      const content = [
        { type: "image_url" as const, image_url: { url } },
        { type: "text" as const, text: "What is it?" },
      ];
      await modelOf({ secret }).invoke([new HumanMessage({ content })]);
      assert.ok(JSON.stringify(fake.received[received]?.body).includes(url));
    });

    const names: Record<number, string> = {
      // By the upstream's code, context_length_exceeded; the error of the client below is its cause.
      400: "ContextOverflowError",
      401: "AuthenticationError",
      403: "PermissionDeniedError|InsufficientQuotaError",
      404: "NotFoundError",
      429: "RateLimitError",
      500: "InternalServerError",
      503: "InternalServerError",
    };
    for (const { what, status, model, behaviour, prepare } of failingCases("A")) {
      test(`${what} is an error of status ${status}`, async () => {
        const { secret, baseUrl } = await prepare(world);
        const call = modelOf({ secret, model, baseUrl, maxRetries: 0 }).invoke(ask(behaviour));
        await assert.rejects(call, (error: Error & { status?: number; cause?: { status?: number } }) => {
          assert.equal(error.status ?? error.cause?.status, status, String(error));
          assert.match(`${error.constructor.name} ${error.name}`, new RegExp(names[status] ?? "none"));
          return true;
        });
      });
    }

    test("API spec, Retry guidance: 2. When `Retry-After` is present, wait at least that many seconds. 60 for a 429, twice", async () => {
      const { secret } = await world.createCustomer();
      const call = () => modelOf({ secret, maxRetries: 2 }).invoke(ask({ status: 429 }));
      const { calls, waitsMs } = await countTries(world, { status: 429, calls: 3 }, call);
      assert.deepEqual([calls, waitsMs], [3, [60_000, 60_000]]);
    });

    test("a 503 is tried again after growing waits of this client's own; so is a wrong model ID", async () => {
      const { secret } = await world.createCustomer();
      for (const [model, behaviour] of [
        ["test-model", { status: 503 }],
        ["no-such-model", {}],
      ] as const) {
        const call = () => modelOf({ secret, model, maxRetries: 2 }).invoke(ask(behaviour));
        const { calls, waitsMs } = await countTries(world, { status: 503, calls: 3 }, call);
        assert.equal(calls, 3);
        const [first = 0, second = 0] = waitsMs;
        assert.ok(waitsMs.length === 2 && first >= 1_000 && second >= 2_000 && second <= 4_000, String(waitsMs));
      }
    });

    test("400, 401 and 403 are not tried again", async () => {
      for (const { status, behaviour, prepare } of failingCases("A").slice(0, 3)) {
        const { secret } = await prepare(world);
        const call = () => modelOf({ secret, maxRetries: 2 }).invoke(ask(behaviour));
        assert.deepEqual(await countTries(world, { status, calls: 1 }, call), { calls: 1, waitsMs: [] });
      }
    });
  });
}

describe("@langchain/openai, embeddings and completions", () => {
  test("OpenAIEmbeddings: one and many, as numbers", async () => {
    const { secret, accountId } = await world.createCustomer();
    const embeddings = new OpenAIEmbeddings({ ...fieldsOf({ secret, model: "embedding-model" }), dimensions: 4 });
    const one = await embeddings.embedQuery("one two three");
    const [first, second] = await embeddings.embedDocuments(["one two three", "four"]);
    assert.equal(one.length, 4);
    assert.deepEqual(first, one);
    assert.notDeepEqual(second, one);
    const [line] = await world.untilSettled(accountId, 2);
    assert.equal(line?.usage?.usage?.inputTokens, 3n);
  });

  test("OpenAI, the older completions", async () => {
    const { secret } = await world.createCustomer();
    const model = new OpenAI(fieldsOf({ secret, model: "completion-model" }));
    const said = await model.invoke(behaviourText({ text: "and so on" }));
    assert.equal(said, "and so on");
  });
});
