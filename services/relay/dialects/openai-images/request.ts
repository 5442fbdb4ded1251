import type { Envelope } from "../dialect.ts";
import { readCount, readSwitch } from "../read-settings.ts";
import type { RequestBody } from "../json/request-body.ts";

const maxImages = 128;

// Output tokens of the largest image by quality, from the provider's price tables; "auto" may be any of them.
const tokensByQuality = new Map<unknown, number>([
  ["low", 408],
  ["medium", 1_584],
  ["high", 6_240],
]);
const dearestTokens = 6_240;

/** Reads a request for images; size and quality decide the price where the catalog says so. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  const images = Math.min(readCount(body, "n") ?? 1, maxImages);
  const quality = body.read("quality");
  const size = body.read("size");
  const tokens = tokensByQuality.get(quality) ?? dearestTokens;
  return {
    body,
    model,
    answer: readSwitch(body, "stream") ? "events" : "json",
    outputCap: undefined,
    choices: 0,
    units: { images: BigInt(images), imageOutputTokens: BigInt(images * tokens) },
    priceFields: {
      ...(typeof size === "string" && { size }),
      ...(typeof quality === "string" && { quality }),
    },
    wantsStreamUsage: true,
  };
}
