import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI from "openai";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { estimateTokens } from "../../../services/relay/dialects/dialect.ts";
import { ask, type Json, type Reply } from "./ask.ts";
import { upstreamAt } from "./catalog.ts";
import { type Charge, checkCharge } from "./charge.ts";
import { claimOf, endpointPrices, only, post, priceRow, sideOf, truthOf } from "./endpoints.ts";
import { checkUntouched } from "./refusal.ts";
import { sharedWorldWith } from "./shared-world.ts";

const { embedding, image, picture, spoken, voice } = endpointPrices;
// Google prices the words of a model that draws apart.
const writing = { ...image, outputTokens: 2_500_000_061n };
const images = "/v1/images/generations";
const embeddings = "/v1/embeddings";
const speech = "/v1/audio/speech";

// Models of an upstream that speaks gemini-generate and nothing else.
const world = await sharedWorldWith((fakeUrl) => ({
  upstreams: { "gemini-media": upstreamAt(fakeUrl, { dialects: ["gemini-generate"] }) },
  models: {
    "gemini-embedding-model": only("openai-embeddings", "gemini-embedding-fake", priceRow(embedding), "gemini-media"),
    "gemini-image-model": only("openai-images", "gemini-fake-image", priceRow(image), "gemini-media"),
    "gemini-writing-model": only("openai-images", "gemini-fake-image", priceRow(writing), "gemini-media"),
    "gemini-picture-model": only("openai-images", "gemini-fake-image", priceRow(picture), "gemini-media"),
    "gemini-spoken-model": only("openai-speech", "gemini-fake-tts", priceRow(spoken), "gemini-media"),
    "gemini-voice-model": only("openai-speech", "gemini-fake-tts", priceRow(voice), "gemini-media"),
  },
}));
const { relayUrl, fake } = world;

const { COMPLETE, UPSTREAM_CUT, UPSTREAM_ERROR } = EndCause;
const atOnce = { concurrency: 4 };

const clientOf = (secret: string): OpenAI => new OpenAI({ baseURL: `${relayUrl}/v1`, apiKey: secret, maxRetries: 0 });

const ridOf = (response: Response): string => response.headers.get("x-request-id") ?? "";

function receivedOf(rid: string): { path: string; body: unknown } {
  const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
  assert.ok(received, "the upstream got it");
  return received;
}

describe("API spec, Endpoints: `POST /v1/embeddings`, of a model that speaks gemini-generate", atOnce, () => {
  test("the official client gets one vector of length 1 for each text, in their order", async () => {
    const customer = await world.createCustomer();
    const input = ["one two three", "four five"];
    const body = { model: "gemini-embedding-model", input, dimensions: 8 };
    // It asks for base64 unless told otherwise, and decodes it.
    const { data, response } = await clientOf(customer.secret).embeddings.create(body).withResponse();
    assert.deepEqual([data.object, data.model], ["list", "gemini-embedding-model"]);
    assert.deepEqual(
      data.data.map(({ index, embedding: vector }) => [index, vector.length, Math.hypot(...vector).toFixed(4)]),
      [
        [0, 8, "1.0000"],
        [1, 8, "1.0000"],
      ],
    );
    assert.notDeepEqual(data.data[0]?.embedding, data.data[1]?.embedding);
    const { path, body: sent } = receivedOf(ridOf(response));
    assert.equal(path, "/v1beta/models/gemini-embedding-fake:batchEmbedContents");
    const requestOf = (text: string): Json => ({
      model: "models/gemini-embedding-fake",
      content: { parts: [{ text }] },
      outputDimensionality: 8,
    });
    assert.deepEqual(sent, { requests: input.map(requestOf) });
    // Nothing was told: what is charged is estimated, flagged as such, and the same as the caller reads.
    const inputTokens = BigInt(input.reduce((sum, text) => sum + Math.ceil(estimateTokens(text)), 0));
    assert.deepEqual(data.usage, { prompt_tokens: Number(inputTokens), total_tokens: Number(inputTokens) });
    const charge = { counted: { inputTokens } };
    await checkCharge(world, customer, { rid: ridOf(response), endCause: COMPLETE, charge, prices: embedding });
  });

  test("numbers or base64 exactly as asked; the provider's count where it tells one", async () => {
    const customer = await world.createCustomer();
    const input = behaviourText({ usage: { inputTokens: 77 } }, "one two");
    const asking = { model: "gemini-embedding-model", input, dimensions: 4 };
    const body = { ...asking, encoding_format: "float" };
    const floats = await post(relayUrl, customer.secret, { path: embeddings, body });
    const { data, usage } = floats.json() as { data: { embedding: number[] }[]; usage: Json };
    assert.deepEqual([data.length, data[0]?.embedding.length, usage["prompt_tokens"]], [1, 4, 77]);
    const charge = { provider: { inputTokens: 77n } };
    await checkCharge(world, customer, { rid: floats.rid, endCause: COMPLETE, charge, prices: embedding });
    const other = { ...asking, encoding_format: "base64" };
    const base64 = await post(relayUrl, customer.secret, { path: embeddings, body: other });
    const [item] = (base64.json() as { data: { embedding: string }[] }).data;
    const bytes = Buffer.from(String(item?.embedding), "base64");
    const decoded = Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(at * 4));
    assert.deepEqual(decoded, data[0]?.embedding.map(Math.fround));
  });
});

describe("API spec, Endpoints: `POST /v1/images/generations`, of a model that speaks gemini-generate", atOnce, () => {
  test("the official client gets the picture and its tokens, which are charged", async () => {
    const customer = await world.createCustomer();
    const body = { model: "gemini-image-model", prompt: "a red fox", size: "1536x1024" } as const;
    const { data, response } = await clientOf(customer.secret).images.generate(body).withResponse();
    const [made] = data.data ?? [];
    assert.equal(Buffer.from(String(made?.b64_json), "base64").toString("latin1", 1, 4), "PNG");
    assert.equal(data.usage?.output_tokens, 1_290);
    assert.equal(response.headers.get("x-relay-dropped"), null);
    const { path, body: sent } = receivedOf(ridOf(response));
    assert.equal(path, "/v1beta/models/gemini-fake-image:generateContent");
    assert.deepEqual((sent as Json)["generationConfig"], {
      responseModalities: ["IMAGE"],
      imageConfig: { aspectRatio: "3:2" },
    });
    const provider = claimOf(await truthOf(world, ridOf(response)));
    assert.deepEqual(provider, { inputTokens: 3n, imageOutputTokens: 1_290n });
    await checkCharge(world, customer, {
      rid: ridOf(response),
      endCause: COMPLETE,
      charge: { provider },
      prices: image,
    });
  });

  test("a model priced by the image is charged for the image that came", async () => {
    const customer = await world.createCustomer();
    const body = { model: "gemini-picture-model", prompt: "a red fox" };
    const { status, rid } = await post(relayUrl, customer.secret, { path: images, body });
    assert.equal(status, 200);
    const charge = { counted: { images: 1n } };
    await checkCharge(world, customer, { rid, endCause: COMPLETE, charge, prices: picture });
  });

  // Google bills what it answers with status 200 (https://ai.google.dev/gemini-api/docs/billing).
  const words = { text: "I would rather tell you of a fox." };
  const withoutPictures: [what: string, behaviour: Behaviour, says: RegExp, byImages: Charge][] = [
    ["what the provider refuses for its content", { finish: "IMAGE_SAFETY" }, /IMAGE_SAFETY/, "nothing"],
    ["an answer in words alone", words, /in words, without what was asked for$/, { counted: {} }],
  ];
  for (const [what, behaviour, says, charge] of withoutPictures) {
    test(`${what} is a 400 that says so, charged by what the provider counted`, async () => {
      const customer = await world.createCustomer();
      const body = { model: "gemini-writing-model", prompt: behaviourText(behaviour) };
      const reply = await post(relayUrl, customer.secret, { path: images, body });
      assert.equal(reply.status, 400, reply.text);
      assert.match((reply.json() as { error: { message: string } }).error.message, says);
      const { rid } = reply;
      const provider = claimOf(await truthOf(world, rid));
      await checkCharge(world, customer, { rid, endCause: COMPLETE, charge: { provider }, prices: writing });
    });

    test(`${what} costs nothing where the model is priced by the image`, async () => {
      const customer = await world.createCustomer();
      const body = { model: "gemini-picture-model", prompt: behaviourText(behaviour) };
      const { status, rid } = await post(relayUrl, customer.secret, { path: images, body });
      assert.equal(status, 400);
      await checkCharge(world, customer, { rid, endCause: COMPLETE, charge, prices: picture });
    });
  }
});

describe("API spec, Endpoints: `POST /v1/audio/speech`, of a model that speaks gemini-generate", atOnce, () => {
  for (const format of ["wav", "pcm"] as const) {
    test(`${format}: the official client gets the sound, charged by its tokens`, async () => {
      const customer = await world.createCustomer();
      const body = { model: "gemini-spoken-model", voice: "Kore", input: "one two three", response_format: format };
      const { data, response } = await clientOf(customer.secret).audio.speech.create(body).withResponse();
      const bytes = Buffer.from(await data.arrayBuffer());
      assert.equal(response.headers.get("content-type"), `audio/${format}`);
      assert.equal(bytes.toString("latin1", 0, 4) === "RIFF", format === "wav");
      // 50 milliseconds a word of 24,000 samples a second, in 16 bits.
      assert.equal(bytes.length, 3 * 2_400 + (format === "wav" ? 44 : 0));
      const provider = claimOf(await truthOf(world, ridOf(response)));
      assert.deepEqual(provider, { inputTokens: 3n, audioOutputTokens: 6n });
      const charge = { provider };
      await checkCharge(world, customer, { rid: ridOf(response), endCause: COMPLETE, charge, prices: spoken });
    });
  }

  test("a model priced by the character is charged for those of the input", async () => {
    const customer = await world.createCustomer();
    const body = { model: "gemini-voice-model", voice: "Kore", input: "one two", response_format: "wav" };
    const { data, response } = await clientOf(customer.secret)
      .audio.speech.create(body as never)
      .withResponse();
    await data.arrayBuffer();
    const charge = { counted: { characters: 7n } };
    await checkCharge(world, customer, { rid: ridOf(response), endCause: COMPLETE, charge, prices: voice });
  });
});

const bodies: Record<string, (text: string) => Json> = {
  [embeddings]: (input) => ({ model: "gemini-embedding-model", input }),
  [images]: (prompt) => ({ model: "gemini-image-model", prompt }),
  [speech]: (input) => ({ model: "gemini-spoken-model", input, voice: "Kore", response_format: "wav" }),
};

const send = (path: string, secret: string, more: Json, headers: Record<string, string> = {}): Promise<Reply> =>
  ask(`${relayUrl}${path}`, {
    headers: { ...sideOf(path).headers(secret), ...headers },
    body: JSON.stringify({ ...bodies[path]?.("one two"), ...more }),
  });

describe("a field that cannot be carried is named; what cannot be made is refused with its field, for nothing", () => {
  const lost: [string, Json, string][] = [
    [embeddings, { user: "u-1" }, "user"],
    [images, { quality: "high", background: "opaque" }, "quality, background"],
    [speech, { speed: 1.5 }, "speed"],
  ];
  for (const [path, more, names] of lost) {
    test(`${path}: ${names} is told in x-relay-dropped, or a 400 for who wants that`, async () => {
      const customer = await world.createCustomer();
      await checkUntouched(world, customer, async () => {
        const strict = await send(path, customer.secret, more, { "x-relay-strict": "true" });
        assert.equal(strict.status, 400);
        assert.ok(strict.text.includes(`field ${names.split(",")[0]} cannot be carried`), strict.text);
      });
      const reply = await send(path, customer.secret, more);
      assert.deepEqual([reply.status, reply.headers.get("x-relay-dropped")], [200, names]);
    });
  }

  const unmade: [string, Json, string][] = [
    [embeddings, { input: [1, 2] }, "input"],
    [images, { stream: true }, "stream"],
    [images, { n: 2 }, "n"],
    [images, { size: "100x1000" }, "size"],
    [speech, { response_format: "mp3" }, "response_format"],
    [speech, { response_format: null }, "response_format"],
    [speech, { stream_format: "sse" }, "stream_format"],
  ];
  for (const [path, more, field] of unmade) {
    test(`${path}: ${JSON.stringify(more)} is a 400 that names ${field}`, async () => {
      const customer = await world.createCustomer();
      await checkUntouched(world, customer, async () => {
        const reply = await send(path, customer.secret, more);
        assert.equal(reply.status, 400, reply.text);
        assert.match(reply.text, new RegExp(`"field ${field}\\b`));
      });
    });
  }
});

const failures: [Behaviour, number, EndCause][] = [
  [{ status: 400 }, 400, UPSTREAM_ERROR],
  [{ status: 429 }, 429, UPSTREAM_ERROR],
  [{ status: 500 }, 500, UPSTREAM_ERROR],
  [{ status: 403 }, 503, UPSTREAM_ERROR],
  [{ isHtml: true }, 502, UPSTREAM_ERROR],
  [{ fault: { kind: "cut" } }, 500, UPSTREAM_CUT],
];

describe("what fails at Gemini is told in Format A and costs nothing", atOnce, () => {
  for (const [path, bodyOf] of Object.entries(bodies)) {
    for (const [behaviour, status, endCause] of failures) {
      test(`${path}: ${JSON.stringify(behaviour)} is a ${status}`, async () => {
        const customer = await world.createCustomer();
        const reply = await post(relayUrl, customer.secret, { path, body: bodyOf(behaviourText(behaviour)) });
        assert.equal(reply.status, status, reply.text);
        assert.ok((reply.json() as { error: Json }).error["message"]);
        await checkCharge(world, customer, { rid: reply.rid, endCause, charge: "nothing" });
      });
    }
  }
});
