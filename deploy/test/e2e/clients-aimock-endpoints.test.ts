import assert from "node:assert/strict";
import { after, test } from "node:test";
import { LLMock } from "@copilotkit/aimock";
import OpenAI, { toFile } from "openai";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { silentWav } from "#fake-provider/sound.ts";
import { pixelBase64 } from "./clients-cases.ts";
import { modelOn, upstreamAt } from "./catalog.ts";
import { costOf, unitsOf } from "./charge.ts";
import { endpointPrices, only, priceRow } from "./endpoints.ts";
import { sharedWorldWith } from "./shared-world.ts";
import type { BookedLine } from "./world.ts";

// An upstream that nobody here wrote, so that the relay and its fake cannot agree on a mistake.
const mock = new LLMock({ port: 0, host: "127.0.0.1", auth: { apiKeys: ["demo"] } });
const call = { name: "get_weather", arguments: { city: "New York City", days: 2 } };
const sound = Buffer.from("not really a sound");
mock.onMessage("talk", { content: "Hello from somebody else.", usage: { prompt_tokens: 21, completion_tokens: 34 } });
mock.onMessage("tool", { toolCalls: [call], usage: { prompt_tokens: 13, completion_tokens: 55 } });
mock.onEmbedding("number", { embedding: [0.5, -0.25, 0.125] });
mock.onImage("fox", { image: { b64Json: pixelBase64 } });
mock.onSpeech("say", { audio: sound.toString("base64"), format: "mp3" });
mock.onTranscription({ transcription: { text: "I heard you.", usage: { type: "duration", seconds: 7 } } });
mock.onModerate("bad", { flagged: true, categories: { violence: true } });
await mock.start();
after(() => mock.stop());

const { embedding, picture, voice, minutes, moderation } = endpointPrices;
const world = await sharedWorldWith(() => ({
  upstreams: { aimock: upstreamAt(mock.url) },
  models: {
    "aimock-model": modelOn("aimock"),
    "aimock-embedding": only("openai-embeddings", "text-embedding-fake", priceRow(embedding), "aimock"),
    "aimock-picture": only("openai-images", "dall-e-3", priceRow(picture), "aimock"),
    "aimock-voice": only("openai-speech", "tts-1", priceRow(voice), "aimock"),
    "aimock-minutes": only("openai-transcriptions", "whisper-1", priceRow(minutes), "aimock"),
    "aimock-moderation": only("openai-moderations", "omni-moderation-fake", priceRow(moderation), "aimock"),
  },
}));
const customer = await world.createCustomer({ creditNanos: 100_000_000_000n });
const openai = new OpenAI({ baseURL: `${world.relayUrl}/v1`, apiKey: customer.secret, maxRetries: 0 });

let booked = 0;

/** The newest ledger line, checked to cost what its units cost. */
async function nextLine(prices?: Units): Promise<BookedLine> {
  booked += 1;
  const line = (await world.untilSettled(customer.accountId, booked)).at(-1) as BookedLine;
  assert.equal(line.amountNanos, -costOf(unitsOf(line), prices));
  return line;
}

test("@copilotkit/aimock upstream: a whole response and a streamed one", async () => {
  const whole = await openai.responses.create({ model: "aimock-model", input: "talk" });
  const first = await nextLine();
  const streamed = await openai.responses.stream({ model: "aimock-model", input: "talk" }).finalResponse();
  const second = await nextLine();
  for (const { output_text: text } of [whole, streamed]) assert.equal(text, "Hello from somebody else.");
  for (const line of [first, second]) {
    assert.deepEqual(
      [unitsOf(line), line.usage.usageSource],
      [{ inputTokens: 21n, outputTokens: 34n }, UsageSource.PROVIDER],
    );
  }
});

test("@copilotkit/aimock upstream: a function call in a response, whole and streamed", async () => {
  const tools = [{ type: "function" as const, name: call.name, parameters: {}, strict: false }];
  const asked = { model: "aimock-model", input: "tool", tools };
  const whole = await openai.responses.create(asked);
  await nextLine();
  const streamed = await openai.responses.stream(asked).finalResponse();
  await nextLine();
  for (const { output } of [whole, streamed]) {
    const [made] = output;
    assert.ok(made?.type === "function_call");
    assert.deepEqual([made.name, JSON.parse(made.arguments)], [call.name, call.arguments]);
  }
});

test("@copilotkit/aimock upstream: embeddings, as numbers and as the base64 that the client asks for", async () => {
  const asked = { model: "aimock-embedding", input: "number" };
  const floats = await openai.embeddings.create({ ...asked, encoding_format: "float" });
  await nextLine(endpointPrices.embedding);
  const own = await openai.embeddings.create(asked);
  await nextLine(endpointPrices.embedding);
  for (const { data } of [floats, own]) assert.deepEqual(data[0]?.embedding, [0.5, -0.25, 0.125]);
});

test("@copilotkit/aimock upstream: an image, speech, a transcript and a judgement", async () => {
  const { data } = await openai.images.generate({ model: "aimock-picture", prompt: "a fox" });
  assert.equal(data?.[0]?.b64_json, pixelBase64);
  assert.deepEqual(unitsOf(await nextLine(endpointPrices.picture)), { images: 1n });

  const spoken = await openai.audio.speech.create({ model: "aimock-voice", voice: "alloy", input: "say it" });
  assert.ok(Buffer.from(await spoken.arrayBuffer()).equals(sound));
  assert.deepEqual(unitsOf(await nextLine(endpointPrices.voice)), { characters: 6n });

  const file = await toFile(silentWav(100), "speech.wav", { type: "audio/wav" });
  const heard = await openai.audio.transcriptions.create({ model: "aimock-minutes", file });
  assert.equal(heard.text, "I heard you.");
  assert.deepEqual(unitsOf(await nextLine(endpointPrices.minutes)), { mediaMs: 7_000n });

  const { results } = await openai.moderations.create({ model: "aimock-moderation", input: "bad" });
  assert.equal(results[0]?.flagged, true);
  assert.deepEqual(unitsOf(await nextLine(endpointPrices.moderation)), { requests: 1n });
});
