import assert from "node:assert/strict";
import { formatUsd } from "#shared/money/money.ts";
import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import type { Truth } from "#fake-provider/truth.ts";
import { until } from "#shared/testing/until.ts";
import type { DialectName } from "../../../services/relay/dialects/dialect.ts";
import { catalogNameOf } from "../../../services/relay/catalog/schema.ts";
import { ask, chat, type Json, type Reply, ridOf, type Side } from "./ask.ts";
import { modelOn, priceVersion, testCatalog } from "./catalog.ts";
import type { World } from "./world.ts";

// Odd numbers, so that a unit in the wrong bucket and a price rounded early show in the amount.
const embedding = { inputTokens: 20_000_003n };
const completion = { inputTokens: 1_500_000_007n, outputTokens: 2_000_000_011n };
const image = { inputTokens: 5_000_000_013n, imageInputTokens: 10_000_000_017n, imageOutputTokens: 40_000_000_019n };
const picture = { images: 40_000_000_000_023n };
const largePicture = { images: 80_000_000_000_029n };
const voice = { characters: 15_000_000_031n };
const spoken = { inputTokens: 600_000_037n, audioOutputTokens: 12_000_000_041n };
const moderation = { requests: 10_000_000_043n };
const minutes = { mediaMs: 100_000_047n };
const listening = { inputTokens: 2_500_000_051n, audioInputTokens: 6_000_000_053n, outputTokens: 10_000_000_059n };

/** Prices of the models of `endpointCatalog`, in nano-USD per 1,000,000 units. */
export const endpointPrices = {
  embedding,
  completion,
  image,
  picture,
  largePicture,
  voice,
  spoken,
  moderation,
  minutes,
  listening,
} satisfies Record<string, Units>;

type Variant = { size: string; quality?: string; prices: Units };

/** Prices as the catalog writes them. */
export function priceRow(prices: Units, variants: Variant[] = []): object {
  const row = (units: Units): object =>
    Object.fromEntries(
      Object.entries(units).map(([bucket, price]) => [catalogNameOf(bucket as UsageBucket), formatUsd(price)]),
    );
  return {
    version: priceVersion,
    ...row(prices),
    ...(variants.length > 0 && {
      variants: variants.map(({ prices: own, ...where }) => ({ ...where, ...row(own) })),
    }),
  };
}

/** A model that can be called in one dialect only; it runs on the fake upstream under the name `model`. */
export function only(dialect: DialectName, model: string, price: object, upstream = "fake"): object {
  return modelOn(upstream, { dialects: [dialect], upstreams: [{ name: upstream, model }], price: price as never });
}

/** The test catalog with a model for every endpoint beside the conversations; the fake knows the upstream names. */
export function endpointCatalog(fakeUrl: string): string {
  const large = { size: "1792x1024", prices: largePicture };
  return testCatalog(fakeUrl, {
    models: {
      "embedding-model": only("openai-embeddings", "text-embedding-fake", priceRow(embedding)),
      "completion-model": only("openai-completions", "gpt-fake-instruct", priceRow(completion)),
      "gpt-image-model": only("openai-images", "gpt-image-fake", priceRow(image)),
      "picture-model": only("openai-images", "dall-e-3", priceRow(picture, [large])),
      "voice-model": only("openai-speech", "tts-1", priceRow(voice)),
      "spoken-model": only("openai-speech", "gpt-fake-tts", priceRow(spoken)),
      "moderation-model": only("openai-moderations", "omni-moderation-fake", priceRow(moderation)),
      "minutes-model": only("openai-transcriptions", "whisper-1", priceRow(minutes)),
      "translating-model": only("openai-translations", "whisper-1", priceRow(minutes)),
      "listening-model": only("openai-transcriptions", "gpt-fake-transcribe", priceRow(listening)),
    },
  });
}

/** An endpoint of Format A as a plain HTTP caller speaks it. */
export const sideOf = (path: string): Side => ({ ...chat, path, fields: {} });

/** Calls an endpoint of Format A with a JSON body. */
export function post(relayUrl: string, secret: string, { path, body }: { path: string; body: Json }): Promise<Reply> {
  return ask(`${relayUrl}${path}`, { headers: chat.headers(secret), body: JSON.stringify(body) });
}

/** Calls an endpoint of Format A with a form. */
export async function postForm(
  relayUrl: string,
  secret: string,
  { path, form }: { path: string; form: FormData },
): Promise<Reply> {
  const encoded = new Response(form);
  const headers = {
    authorization: `Bearer ${secret}`,
    "content-type": String(encoded.headers.get("content-type")),
  };
  return ask(`${relayUrl}${path}`, { headers, body: Buffer.from(await encoded.arrayBuffer()) });
}

/** Reads a stream until `mark` has come, then hangs up; gives the request id and what came. */
export async function readUntil(
  url: string,
  request: RequestInit,
  mark: string,
): Promise<{ rid: string; text: string }> {
  const leaving = new AbortController();
  const response = await fetch(url, { method: "POST", ...request, signal: leaving.signal });
  const decoder = new TextDecoder();
  let text = "";
  const reading = async (): Promise<void> => {
    for await (const piece of response.body ?? []) {
      text += decoder.decode(piece as Uint8Array, { stream: true });
      if (text.includes(mark)) leaving.abort();
    }
  };
  await assert.rejects(reading(), { name: "AbortError" });
  return { rid: ridOf(response), text };
}

/** What the fake upstream did for a call, once it is over. */
export function truthOf({ fake }: World, rid: string): Promise<Truth> {
  return until(`the fake upstream is done with ${rid}`, () =>
    fake.truth.find((truth) => truth.rid === rid && truth.ended !== "open"),
  ) as Promise<Truth>;
}

/** What the fake upstream told of its use, as units. */
export function claimOf(truth: Truth): Units {
  assert.ok(truth.claim, "the fake told its use");
  const told = Object.entries(truth.claim).filter(([, units]) => units > 0);
  return Object.fromEntries(told.map(([bucket, units]) => [bucket, BigInt(units)]));
}
