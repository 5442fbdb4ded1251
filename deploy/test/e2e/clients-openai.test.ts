import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI, { toFile } from "openai";
import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { silentWav } from "#fake-provider/sound.ts";
import { countTries, failingCases, pixelBase64, warm, weather, weatherSchema } from "./clients-cases.ts";
import { endpointCatalog } from "./endpoints.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(endpointCatalog);
const { relayUrl, fake } = world;

/** The official client as anybody would set it up: another base URL and another key, nothing else. */
const clientOf = (secret: string, baseUrl = relayUrl): OpenAI =>
  new OpenAI({ baseURL: `${baseUrl}/v1`, apiKey: secret });

async function gather<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of stream) found.push(one);
  return found;
}

const respond = (behaviour: Behaviour) => ({ model: "test-model", input: behaviourText(behaviour, "Say something.") });

describe("the official openai client, responses", () => {
  test("a whole response and a streamed one say the same and cost the same", async () => {
    const { secret, accountId } = await world.createCustomer();
    const asked = respond({ text: "Hello there, you.", thinking: "Let me think." });
    const whole = await clientOf(secret).responses.create(asked);
    const streamed = await clientOf(secret).responses.stream(asked).finalResponse();
    for (const { output_text: text, status, usage } of [whole, streamed]) {
      assert.deepEqual([text, status, usage?.output_tokens], ["Hello there, you.", "completed", 6]);
      assert.equal(usage?.output_tokens_details.reasoning_tokens, 3);
    }
    const [first, second] = await world.untilSettled(accountId, 2);
    assert.deepEqual([first?.usage?.usage?.reasoningTokens, first?.amountNanos], [3n, second?.amountNanos]);
  });

  test("a tool is called, its result goes back, and the answer comes; whole and streamed", async () => {
    const { secret } = await world.createCustomer();
    const tools = [{ type: "function" as const, name: weather.name, parameters: weatherSchema, strict: false }];
    const asked = { ...respond({ tools: [weather] }), tools };
    const whole = await clientOf(secret).responses.create(asked);
    const streamed = await clientOf(secret).responses.stream(asked).finalResponse();
    for (const { output } of [whole, streamed]) {
      const [call] = output;
      assert.ok(call?.type === "function_call");
      assert.deepEqual([call.name, JSON.parse(call.arguments)], [weather.name, weather.arguments]);
      const next = await clientOf(secret).responses.create({
        model: "test-model",
        tools,
        input: [
          { role: "user", content: "What is the weather like?" },
          { type: "function_call", call_id: call.call_id, name: call.name, arguments: call.arguments },
          { type: "function_call_output", call_id: call.call_id, output: warm },
          { role: "user", content: behaviourText({ text: "It is warm there." }) },
        ],
      });
      assert.equal(next.output_text, "It is warm there.");
    }
  });

  test("a picture as input reaches the upstream; to compact works, too", async () => {
    const { secret } = await world.createCustomer();
    const image = { type: "input_image" as const, detail: "auto" as const };
    const picture = { ...image, image_url: `data:image/png;base64,${pixelBase64}` };
    const input = [{ role: "user" as const, content: [picture, { type: "input_text" as const, text: "What is it?" }] }];
    const { _request_id: rid } = await clientOf(secret).responses.create({ model: "test-model", input });
    const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
    assert.deepEqual(received?.body?.["input"], input);
    const compacted = await clientOf(secret).responses.compact({ model: "test-model", input: "one two three" });
    assert.equal(compacted.object, "response.compaction");
  });

  test("an error within a stream is thrown, after the text before it", async () => {
    const { secret, accountId } = await world.createCustomer();
    const stream = clientOf(secret).responses.stream(respond({ fault: { kind: "error-event", afterChunks: 2 } }));
    let said = "";
    stream.on("response.output_text.delta", ({ delta }) => (said += delta));
    await assert.rejects(stream.finalResponse(), OpenAI.APIError);
    assert.equal(said, "word1 word2");
    const [line] = await world.untilSettled(accountId, 1);
    assert.equal(line?.usage?.endCause, EndCause.UPSTREAM_ERROR);
  });
});

describe("the official openai client, chat completions with pictures and tools", () => {
  test("a picture as input reaches the upstream, by address and as bytes, and nobody here fetches it", async () => {
    const { secret } = await world.createCustomer();
    for (const url of [`data:image/png;base64,${pixelBase64}`, "http://192.0.2.1/picture.png"]) {
      const content = [
        { type: "image_url" as const, image_url: { url } },
        { type: "text" as const, text: "What is it?" },
      ];
      const messages = [{ role: "user" as const, content }];
      const { _request_id: rid } = await clientOf(secret).chat.completions.create({ model: "test-model", messages });
      const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
      assert.deepEqual(received?.body?.["messages"], messages);
    }
  });

  test("a tool is called, its result goes back, and the answer comes", async () => {
    const { secret } = await world.createCustomer();
    const tools = [{ type: "function" as const, function: { name: weather.name, parameters: weatherSchema } }];
    const question = { role: "user" as const, content: behaviourText({ tools: [weather] }) };
    const asked = { model: "test-model", tools, messages: [question] };
    const { choices } = await clientOf(secret).chat.completions.create(asked);
    const said = choices[0]?.message;
    assert.ok(said?.tool_calls?.[0]);
    const result = { role: "tool" as const, tool_call_id: said.tool_calls[0].id, content: warm };
    const last = { role: "user" as const, content: behaviourText({ text: "It is warm there." }) };
    const messages = [question, said, result, last];
    const next = await clientOf(secret).chat.completions.create({ ...asked, messages });
    assert.equal(next.choices[0]?.message.content, "It is warm there.");
  });
});

describe("the official openai client, every other endpoint", () => {
  test("embeddings: the client asks for base64 by itself and gives numbers; floats when asked", async () => {
    const { secret, accountId } = await world.createCustomer();
    const asked = { model: "embedding-model", input: ["one two", "three"], dimensions: 4 };
    const own = await clientOf(secret).embeddings.create(asked);
    const floats = await clientOf(secret).embeddings.create({ ...asked, encoding_format: "float" });
    assert.deepEqual(own.data[0]?.embedding.map(Math.fround), floats.data[0]?.embedding);
    const [line] = await world.untilSettled(accountId, 2);
    assert.equal(line?.usage?.usage?.inputTokens, 3n);
  });

  test("completions, whole and streamed", async () => {
    const { secret, accountId } = await world.createCustomer();
    const asked = { model: "completion-model", prompt: behaviourText({ text: "and so on" }) };
    const whole = await clientOf(secret).completions.create(asked);
    const chunks = await gather(await clientOf(secret).completions.create({ ...asked, stream: true }));
    assert.equal(whole.choices[0]?.text, "and so on");
    assert.equal(chunks.map(({ choices }) => choices[0]?.text ?? "").join(""), "and so on");
    const [first, second] = await world.untilSettled(accountId, 2);
    assert.equal(first?.amountNanos, second?.amountNanos);
  });

  test("images, whole and streamed", async () => {
    const { secret, accountId } = await world.createCustomer({ creditNanos: 100_000_000_000n });
    const asked = { model: "gpt-image-model", prompt: "a red fox" };
    const whole = await clientOf(secret).images.generate(asked);
    const events = await gather(await clientOf(secret).images.generate({ ...asked, stream: true, partial_images: 1 }));
    assert.ok(whole.data?.[0]?.b64_json);
    assert.deepEqual(
      events.map(({ type }) => type),
      ["image_generation.partial_image", "image_generation.completed"],
    );
    const [first, second] = await world.untilSettled(accountId, 2);
    assert.deepEqual(
      [first, second].map((line) => line?.usage?.usage?.imageOutputTokens),
      [1_056n, 1_156n],
    );
  });

  test("speech and its transcription", async () => {
    const { secret, accountId } = await world.createCustomer();
    const spoken = await clientOf(secret).audio.speech.create({
      model: "voice-model",
      voice: "alloy",
      input: "one two",
    });
    assert.equal(spoken.headers.get("content-type"), "audio/mpeg");
    assert.equal((await spoken.arrayBuffer()).byteLength, 2 * 834);
    const file = await toFile(silentWav(2_000), "speech.wav", { type: "audio/wav" });
    const heard = await clientOf(secret).audio.transcriptions.create({ model: "listening-model", file });
    assert.equal(heard.text, "word1 word2");
    const events = await gather(
      await clientOf(secret).audio.transcriptions.create({ model: "listening-model", file, stream: true }),
    );
    assert.equal(events.at(-1)?.type, "transcript.text.done");
    const [speech, ...transcripts] = await world.untilSettled(accountId, 3);
    assert.deepEqual([speech?.usage?.usage?.characters, speech?.usage?.usageSource], [7n, UsageSource.ESTIMATED]);
    for (const { usage } of transcripts) assert.equal(usage?.usage?.audioInputTokens, 20n);
  });

  test("moderations", async () => {
    const { secret } = await world.createCustomer();
    const { results } = await clientOf(secret).moderations.create({ model: "moderation-model", input: "violence" });
    assert.deepEqual([results[0]?.flagged, results[0]?.categories.violence], [true, true]);
  });
});

const errorTypes: Record<number, new (...args: never[]) => Error> = {
  400: OpenAI.BadRequestError,
  401: OpenAI.AuthenticationError,
  403: OpenAI.PermissionDeniedError,
  404: OpenAI.NotFoundError,
  429: OpenAI.RateLimitError,
  500: OpenAI.InternalServerError,
  503: OpenAI.InternalServerError,
};

describe("the official openai client, responses: errors are its own types", () => {
  for (const { what, status, model, behaviour, prepare } of failingCases("A")) {
    test(`${what} is a ${errorTypes[status]?.name} ${status}`, async () => {
      const { secret, baseUrl } = await prepare(world);
      const call = clientOf(secret, baseUrl).responses.create({ ...respond(behaviour), model }, { maxRetries: 0 });
      await assert.rejects(call, (error) => {
        assert.ok(error instanceof (errorTypes[status] ?? Error) && error instanceof OpenAI.APIError);
        assert.equal(error.status, status);
        return true;
      });
    });
  }
});

describe("API spec, Retry guidance: 2. When `Retry-After` is present, wait at least that many seconds. The openai client", () => {
  for (const [behaviour, status, waitMs] of [
    [{ status: 429 }, 429, 60_000],
    [{ status: 503 }, 503, 5_000],
    [{ status: 401 }, 503, 60_000],
  ] as const) {
    test(`responses, an upstream's ${behaviour.status}: three tries, ${waitMs / 1_000} s apart`, async () => {
      const { secret } = await world.createCustomer();
      const call = () => clientOf(secret).responses.create(respond(behaviour));
      const { waitsMs, calls } = await countTries(world, { status, calls: 3 }, call);
      assert.deepEqual([waitsMs, calls], [[waitMs, waitMs], 3]);
    });
  }

  test("API spec, Retry guidance: 3. A wrong model ID is returned as 503, so it is not retryable. One try, by x-should-retry", async () => {
    const { secret } = await world.createCustomer();
    const call = () => clientOf(secret).responses.create({ model: "no-such-model", input: "x" });
    const { waitsMs, calls } = await countTries(world, { status: 503, calls: 1 }, call);
    assert.deepEqual([waitsMs, calls], [[], 1]);
  });
});
