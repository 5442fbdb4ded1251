import assert from "node:assert/strict";
import { test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Variant } from "../catalog/models.ts";
import { dialects } from "../dialects/index.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { tallyReaderOf } from "../dialects/testing/reading.ts";
import { emptyTally } from "../dialects/dialect.ts";
import { liveCallOf, modelOf, settlingOf } from "../testing/fakes.ts";
import { heldRow } from "./held-row.ts";
import { settle } from "./settle.ts";

// An image for which the request leaves size and quality to the provider is charged by what was made, and held for as
// the dearest that it may be.

const cents = 10_000_000n;
const at = (images: bigint) => modelOf({ prices: { images: images * cents * 1_000_000n } });
const variant = (where: Record<string, string>, images: bigint): Variant => ({
  where,
  aboveInputTokens: -1,
  model: at(images),
});
const variants = [
  variant({ size: "1536x1024", quality: "high" }, 25n),
  variant({ quality: "high" }, 17n),
  variant({ quality: "low" }, 1n),
];
const offered = modelOf({ prices: at(4n).prices, variants });

function requestedBy(fields: object) {
  const body = readJsonBody(Buffer.from(JSON.stringify({ model: "m", prompt: "a fox", ...fields })));
  const envelope = dialects["openai-images"].readEnvelope(body, "m");
  return { envelope, requested: { inputTokens: 5, units: envelope.units, priceFields: envelope.priceFields } };
}

const held: [asked: object, cents: bigint][] = [
  [{}, 17n],
  [{ quality: "auto" }, 17n],
  [{ quality: "auto", size: "auto" }, 25n],
  [{ quality: "auto", size: "1024x1024" }, 17n],
  [{ quality: "high" }, 17n],
  [{ quality: "high", size: "auto" }, 25n],
  [{ quality: "high", size: "1024x1024" }, 17n],
  [{ quality: "low" }, 1n],
  [{ quality: "medium", size: "auto" }, 4n],
];
for (const [asked, expected] of held) {
  test(`an image with ${JSON.stringify(asked)} is held for at ${expected} cents`, () => {
    const { envelope, requested } = requestedBy(asked);
    assert.equal(heldRow(envelope, offered, requested).prices.images, expected * cents * 1_000_000n);
  });
}

const made: [asked: object, told: object, cents: bigint][] = [
  [{}, { quality: "high", size: "1024x1024" }, 17n],
  [{}, { quality: "high", size: "1536x1024" }, 25n],
  [{ quality: "auto" }, { quality: "low", size: "1024x1024" }, 1n],
  [{ quality: "auto" }, { quality: "auto" }, 4n],
  [{ quality: "high" }, { quality: "medium" }, 4n],
  [{ quality: "high", size: "1536x1024" }, {}, 25n],
  [{ quality: "low" }, { quality: 7, size: null }, 1n],
];
for (const [asked, told, expected] of made) {
  const what = `an image asked for with ${JSON.stringify(asked)} and made with ${JSON.stringify(told)}`;
  test(`${what} is charged at ${expected} cents, whole and streamed`, () => {
    const { envelope, requested } = requestedBy(asked);
    const streamed = emptyTally();
    const tap = dialects["openai-images"].createTap(envelope, (error) => error);
    const event = { type: "image_generation.completed", b64_json: "AAAA", ...told };
    tap.read({ data: JSON.stringify(event), json: event }, streamed);
    const whole = tallyReaderOf("openai-images")({ data: [{ b64_json: "AAAA" }], ...told });
    assert.ok(whole);
    for (const tally of [whole, streamed]) {
      const call = liveCallOf({ offered, model: offered, requested });
      call.tally = tally;
      settle(settlingOf(), call, EndCause.COMPLETE);
      assert.equal(call.chargedNanos, expected * cents);
    }
  });
}
