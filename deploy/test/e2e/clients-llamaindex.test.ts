import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { OpenAI, OpenAIEmbedding, OpenAIResponses } from "@llamaindex/openai";
import { Document, Settings, VectorStoreIndex } from "llamaindex";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { countTries, failingCases, pixelBase64, warm, weather, weatherSchema } from "./clients-cases.ts";
import { endpointCatalog } from "./endpoints.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(endpointCatalog);
const { relayUrl, fake } = world;

type ClientOptions = { secret: string; model?: string; baseUrl?: string; maxRetries?: number };

/** As anybody would set it up: another base URL and another key. */
function settingsOf({ secret, model = "test-model", baseUrl = relayUrl, maxRetries = 2 }: ClientOptions) {
  // Its usual limit for a call is a minute, and so is a Retry-After: a test must be able to tell them apart.
  return { model, apiKey: secret, baseURL: `${baseUrl}/v1`, maxRetries, timeout: 90_000 };
}

type Messages = Parameters<OpenAI["chat"]>[0]["messages"];
type Tools = NonNullable<Parameters<OpenAI["chat"]>[0]["tools"]>;

const ask = (behaviour: Behaviour): Messages => [{ role: "user", content: behaviourText(behaviour, "Say something.") }];

const getWeather = { metadata: { name: weather.name, description: "The weather.", parameters: weatherSchema } };

const kinds = [
  {
    kind: "OpenAI, chat completions",
    whole: (wanted: ClientOptions, messages: Messages, tools: Tools = []) =>
      new OpenAI(settingsOf(wanted)).chat({ messages, tools }),
    stream: (wanted: ClientOptions, messages: Messages) =>
      new OpenAI(settingsOf(wanted)).chat({ messages, stream: true }),
  },
  {
    kind: "OpenAIResponses",
    whole: (wanted: ClientOptions, messages: Messages, tools: Tools = []) =>
      new OpenAIResponses(settingsOf(wanted)).chat({ messages, tools }),
    stream: (wanted: ClientOptions, messages: Messages) =>
      new OpenAIResponses(settingsOf(wanted)).chat({ messages, stream: true }),
  },
];

const names: Record<number, string> = {
  400: "BadRequestError",
  401: "AuthenticationError",
  403: "PermissionDeniedError",
  404: "NotFoundError",
  429: "RateLimitError",
  500: "InternalServerError",
  503: "InternalServerError",
};

for (const { kind, whole, stream } of kinds) {
  describe(`@llamaindex/openai ${kind}`, () => {
    test("a whole text, charged once", async () => {
      const { secret, accountId } = await world.createCustomer();
      const { message } = await whole({ secret }, ask({ text: "Hello there, you." }));
      assert.equal(message.content, "Hello there, you.");
      const [line] = await world.untilSettled(accountId, 1);
      assert.equal(line?.usage?.usage?.outputTokens, 3n);
    });

    test("a streamed text, the same as from the provider itself, charged once", async () => {
      const { secret, accountId } = await world.createCustomer();
      const read = async (baseUrl: string): Promise<string[]> => {
        const pieces: string[] = [];
        const chunks = await stream({ secret, baseUrl }, ask({ text: "one two three" }));
        for await (const { delta } of chunks) pieces.push(delta);
        return pieces;
      };
      const pieces = await read(relayUrl);
      assert.match(pieces.join(""), /^one two three/);
      // OpenAIResponses gives its last piece again for every event behind it, whoever sent them.
      assert.deepEqual(pieces, await read(fake.url));
      const [line] = await world.untilSettled(accountId, 1);
      assert.equal(line?.usage?.usage?.outputTokens, 3n);
    });

    test("a tool is called, its result goes back, and the answer comes", async () => {
      const { secret, accountId } = await world.createCustomer();
      const received = fake.received.length;
      fake.scriptNext({ tools: [weather] }, { text: "It is warm there." });
      const question: Messages = [{ role: "user", content: "What is the weather?" }];
      const { message } = await whole({ secret }, question, [getWeather]);
      const { toolCall } = message.options as { toolCall: { id: string; name: string; input: string }[] };
      const [call] = toolCall;
      assert.ok(call);
      assert.deepEqual([call.name, JSON.parse(call.input)], [weather.name, weather.arguments]);
      const answer = await whole(
        { secret },
        [
          ...question,
          { role: "assistant", content: "", options: { toolCall } },
          { role: "user", content: warm, options: { toolResult: { id: call.id, result: warm, isError: false } } },
        ],
        [getWeather],
      );
      assert.equal(answer.message.content, "It is warm there.");
      assert.match(JSON.stringify(fake.received[received + 1]?.body), new RegExp(warm));
      await world.untilSettled(accountId, 2);
    });

    test("a picture as input reaches the upstream", async () => {
      const { secret } = await world.createCustomer();
      const received = fake.received.length;
      const url = `data:image/png;base64,${pixelBase64}`;
      const content = [
        { type: "text" as const, text: "What is it?" },
        { type: "image_url" as const, image_url: { url } },
      ];
      await whole({ secret }, [{ role: "user", content }]);
      assert.ok(JSON.stringify(fake.received[received]?.body).includes(url));
    });

    for (const { what, status, model, behaviour, prepare } of failingCases("A")) {
      test(`${what} is a ${names[status]} ${status}`, async () => {
        const { secret, baseUrl } = await prepare(world);
        const call = whole({ secret, model, baseUrl, maxRetries: 0 }, ask(behaviour));
        await assert.rejects(call, (error: Error & { status?: number }) => {
          assert.deepEqual([error.constructor.name, error.status], [names[status], status]);
          return true;
        });
      });
    }

    test("API spec, Retry guidance: 2. When `Retry-After` is present, wait at least that many seconds. 5 for a 503, twice", async () => {
      const { secret } = await world.createCustomer();
      const call = () => whole({ secret }, ask({ status: 503 }));
      const { calls, waitsMs } = await countTries(world, { status: 503, calls: 3 }, call);
      assert.deepEqual([calls, waitsMs], [3, [5_000, 5_000]]);
    });

    test("a Retry-After of 60 s is above what the openai client in it believes: two more tries, after waits of its own", async () => {
      const { secret } = await world.createCustomer();
      const call = () => whole({ secret }, ask({ status: 429 }));
      const { calls, waitsMs } = await countTries(world, { status: 429, calls: 3 }, call);
      assert.equal(calls, 3);
      assert.ok(waitsMs.length === 2 && waitsMs.every((waitMs) => waitMs <= 1_000), String(waitsMs));
    });

    test("API spec, Retry guidance: 3. A wrong model ID is returned as 503, so it is not retryable. One try", async () => {
      const { secret } = await world.createCustomer();
      const call = () => whole({ secret, model: "no-such-model" }, ask({}));
      assert.deepEqual(await countTries(world, { status: 503, calls: 1 }, call), { calls: 1, waitsMs: [] });
    });
  });
}

describe("llamaindex", () => {
  test("OpenAIEmbedding gives numbers, of one text and of several", async () => {
    const { secret, accountId } = await world.createCustomer();
    const embedding = new OpenAIEmbedding({ ...settingsOf({ secret, model: "embedding-model" }), dimensions: 4 });
    const one = await embedding.getTextEmbedding("one two three");
    const [first, second] = await embedding.getTextEmbeddings(["one two three", "four"]);
    assert.equal(one.length, 4);
    assert.deepEqual(first, one);
    assert.notDeepEqual(second, one);
    const [line] = await world.untilSettled(accountId, 2);
    assert.equal(line?.usage?.usage?.inputTokens, 3n);
  });

  test("an index of documents is made and asked: embeddings and a chat answer", async () => {
    const { secret, accountId } = await world.createCustomer();
    const received = fake.received.length;
    Settings.llm = new OpenAI(settingsOf({ secret })) as never;
    Settings.embedModel = new OpenAIEmbedding(settingsOf({ secret, model: "embedding-model" })) as never;
    const document = new Document({ text: "The relay hums in the night." });
    const index = await VectorStoreIndex.fromDocuments([document]);
    const answer = await index.asQueryEngine().query({ query: "What does the relay do?" });
    assert.match(answer.toString(), /^word1 word2/);
    const paths = fake.received.slice(received).map(({ path }) => path);
    assert.deepEqual(paths, ["/v1/embeddings", "/v1/embeddings", "/v1/chat/completions"]);
    assert.match(JSON.stringify(fake.received.at(-1)?.body), /hums in the night/);
    await world.untilSettled(accountId, 3);
  });
});
