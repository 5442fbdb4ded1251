import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import {
  APICallError,
  embed,
  embedMany,
  generateImage,
  generateSpeech,
  generateText,
  isStepCount,
  jsonSchema,
  type LanguageModel,
  RetryError,
  streamText,
  tool,
  transcribe,
} from "ai";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { silentWav } from "#fake-provider/sound.ts";
import { countTries, failingCases, pixelBase64, warm, weather, weatherSchema } from "./clients-cases.ts";
import { endpointCatalog } from "./endpoints.ts";
import { sharedWorld } from "./shared-world.ts";

// It would warn about every model name that it does not know.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

const world = await sharedWorld(endpointCatalog);
const { relayUrl, fake } = world;

type ModelMaker = (secret: string, model?: string, baseUrl?: string) => LanguageModel;

/** Both providers as anybody would set them up: another base URL, with /v1 for either, and another key. */
const openaiOf = (secret: string, baseUrl = relayUrl) => createOpenAI({ baseURL: `${baseUrl}/v1`, apiKey: secret });
const anthropicOf = (secret: string, baseUrl = relayUrl) =>
  createAnthropic({ baseURL: `${baseUrl}/v1`, apiKey: secret });

const addressRule = "API spec, Not supported or not checked: Client base-address rule:";

const makers: { name: string; format: "A" | "B"; endpoint: string; rule: string; modelOf: ModelMaker }[] = [
  {
    name: "@ai-sdk/openai, chat",
    endpoint: "/v1/chat/completions",
    rule: `${addressRule} extra settings … to use the chat endpoint instead of responses: `,
    format: "A",
    modelOf: (secret, model = "test-model", baseUrl) => openaiOf(secret, baseUrl).chat(model),
  },
  {
    name: "@ai-sdk/openai, responses",
    endpoint: "/v1/responses",
    rule: "",
    format: "A",
    modelOf: (secret, model = "test-model", baseUrl) => openaiOf(secret, baseUrl).responses(model),
  },
  {
    name: "@ai-sdk/anthropic, messages",
    endpoint: "/v1/messages",
    rule: `${addressRule} A JS UI-toolkit client for Format B needs \`{base_url}/v1\`: `,
    format: "B",
    modelOf: (secret, model = "test-model", baseUrl) => anthropicOf(secret, baseUrl)(model),
  },
];

const ask = (behaviour: Behaviour) => behaviourText(behaviour, "Say something.");

for (const { name, format, endpoint, rule, modelOf } of makers) {
  describe(`the AI SDK with ${name}`, () => {
    test(`${rule}a whole text with its usage, charged once`, async () => {
      const { secret, accountId } = await world.createCustomer();
      const usage = { inputTokens: 100, cacheReadTokens: 40, outputTokens: 12 };
      const whole = await generateText({ model: modelOf(secret), prompt: ask({ text: "Hello there, you.", usage }) });
      assert.deepEqual([whole.text, whole.finishReason], ["Hello there, you.", "stop"]);
      assert.deepEqual([whole.usage.inputTokens, whole.usage.outputTokens], [140, 12]);
      const [line] = await world.untilSettled(accountId, 1);
      const booked = line?.usage?.usage;
      assert.deepEqual([booked?.inputTokens, booked?.cacheReadTokens, booked?.outputTokens], [100n, 40n, 12n]);
      assert.equal(line?.usage?.endpoint, endpoint);
    });

    test("a streamed text with its usage", async () => {
      const { secret, accountId } = await world.createCustomer();
      const usage = { inputTokens: 11, outputTokens: 22 };
      const stream = streamText({ model: modelOf(secret), prompt: ask({ text: "one two three", usage }) });
      const pieces: string[] = [];
      for await (const piece of stream.textStream) pieces.push(piece);
      assert.equal(pieces.join(""), "one two three");
      assert.ok(pieces.length > 1, "piece by piece");
      const told = await stream.usage;
      assert.deepEqual([told.inputTokens, told.outputTokens], [11, 22]);
      const [line] = await world.untilSettled(accountId, 1);
      assert.equal(line?.usage?.usage?.outputTokens, 22n);
    });

    for (const isStream of [false, true]) {
      test(`a tool is called, its result goes back, and the answer comes, ${isStream ? "streamed" : "whole"}`, async () => {
        const { secret, accountId } = await world.createCustomer();
        const received = fake.received.length;
        fake.scriptNext({ tools: [weather] }, { text: "It is warm there." });
        const called: unknown[] = [];
        const tools = {
          [weather.name]: tool({
            inputSchema: jsonSchema<{ city: string }>(weatherSchema),
            execute: (input) => {
              called.push(input);
              return warm;
            },
          }),
        };
        const asked = { model: modelOf(secret), tools, prompt: "What is the weather?", stopWhen: isStepCount(2) };
        const text = isStream ? await streamText(asked).text : (await generateText(asked)).text;
        assert.equal(text, "It is warm there.");
        assert.deepEqual(called, [weather.arguments]);
        assert.match(JSON.stringify(fake.received[received + 1]?.body), new RegExp(warm));
        await world.untilSettled(accountId, 2);
      });
    }

    test("a picture as input reaches the upstream", async () => {
      const { secret } = await world.createCustomer();
      const received = fake.received.length;
      const content = [
        { type: "file" as const, data: pixelBase64, mediaType: "image/png" },
        { type: "text" as const, text: "What is it?" },
      ];
      await generateText({ model: modelOf(secret), messages: [{ role: "user", content }] });
      assert.ok(JSON.stringify(fake.received[received]?.body).includes(pixelBase64));
    });

    for (const { what, status, model, behaviour, prepare } of failingCases(format)) {
      test(`${what} is an APICallError of ${status}`, async () => {
        const { secret, baseUrl } = await prepare(world);
        const call = generateText({
          model: modelOf(secret, model, baseUrl),
          prompt: ask(behaviour),
          maxRetries: 0,
        });
        await assert.rejects(call, (error) => {
          assert.ok(APICallError.isInstance(error), String(error));
          assert.equal(error.statusCode, status);
          assert.equal(error.isRetryable, status === 429 || status >= 500);
          assert.match(String(error.responseHeaders?.["x-request-id"]), /^[0-9a-f-]{36}$/);
          return true;
        });
      });
    }

    test("API spec, Retry guidance: 2. When `Retry-After` is present, wait at least that many seconds. 5 for a 503, twice", async () => {
      const { secret } = await world.createCustomer();
      const call = async (): Promise<void> => {
        const failed = generateText({ model: modelOf(secret), prompt: ask({ status: 503 }) });
        await assert.rejects(failed, (error) => RetryError.isInstance(error) && error.errors.length === 3);
        await failed;
      };
      const { calls, waitsMs } = await countTries(world, { status: 503, calls: 3 }, call);
      assert.deepEqual([calls, waitsMs], [3, [5_000, 5_000]]);
    });

    test("a Retry-After of 60 s is above what this client believes: it waits 2 and 4 s of its own", async () => {
      const { secret } = await world.createCustomer();
      const call = () => generateText({ model: modelOf(secret), prompt: ask({ status: 429 }) });
      const { calls, waitsMs } = await countTries(world, { status: 429, calls: 3 }, call);
      assert.deepEqual([calls, waitsMs], [3, [2_000, 4_000]]);
    });

    test("a wrong model ID is tried again, because this client knows no x-should-retry; 400, 401 and 403 are not", async () => {
      const { secret } = await world.createCustomer();
      const wrong = () => generateText({ model: modelOf(secret, "no-such-model"), prompt: "x" });
      assert.equal((await countTries(world, { status: 503, calls: 3 }, wrong)).calls, 3);
      for (const { status, behaviour, prepare } of failingCases(format).slice(0, 3)) {
        const prepared = await prepare(world);
        const call = () => generateText({ model: modelOf(prepared.secret), prompt: ask(behaviour) });
        assert.deepEqual(await countTries(world, { status, calls: 1 }, call), { calls: 1, waitsMs: [] });
      }
    });
  });
}

describe("the AI SDK with @ai-sdk/openai, every other endpoint", () => {
  test("embeddings, one and many", async () => {
    const { secret, accountId } = await world.createCustomer();
    const model = openaiOf(secret).embedding("embedding-model");
    const { embedding, usage } = await embed({ model, value: "one two three" });
    assert.deepEqual([embedding.length, usage.tokens], [1_536, 3]);
    const { embeddings } = await embedMany({ model, values: ["one", "two"] });
    assert.equal(embeddings.length, 2);
    const [line] = await world.untilSettled(accountId, 2);
    assert.equal(line?.usage?.usage?.inputTokens, 3n);
  });

  test("images", async () => {
    const { secret, accountId } = await world.createCustomer({ creditNanos: 100_000_000_000n });
    const { image } = await generateImage({ model: openaiOf(secret).image("gpt-image-model"), prompt: "a red fox" });
    assert.equal(image.mediaType, "image/png");
    const [line] = await world.untilSettled(accountId, 1);
    assert.equal(line?.usage?.usage?.imageOutputTokens, 1_056n);
  });

  test("speech and transcription", async () => {
    const { secret, accountId } = await world.createCustomer();
    const { audio } = await generateSpeech({ model: openaiOf(secret).speech("voice-model"), text: "one two" });
    assert.equal(audio.uint8Array.length, 2 * 834);
    const model = openaiOf(secret).transcription("minutes-model");
    const { text, durationInSeconds } = await transcribe({ model, audio: silentWav(2_000) });
    assert.deepEqual([text, durationInSeconds], ["word1 word2", 2]);
    const [speech, transcript] = await world.untilSettled(accountId, 2);
    assert.deepEqual([speech?.usage?.usage?.characters, transcript?.usage?.usage?.mediaMs], [7n, 2_000n]);
  });

  test("completions", async () => {
    const { secret } = await world.createCustomer();
    const model = openaiOf(secret).completion("completion-model");
    const { text } = await generateText({ model, prompt: "Once upon" });
    assert.equal(text, "word1 word2 word3 word4 word5 word6 word7 word8");
  });
});
