import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { formatUsd, parseUsd } from "#shared/money/money.ts";
import { until } from "#shared/testing/until.ts";
import { pricedFor, type Model } from "./models.ts";
import { pricesFor } from "./prices.ts";
import { CatalogError } from "#shared/catalog/document.ts";
import { followCatalog, parseCatalog } from "./catalog.ts";
import { rememberPrices, type PriceVersions } from "./price-versions.ts";
import { listeningLog } from "../testing/fakes.ts";

const environment = { PROVIDER_KEY: "key" };

type Parts = { price?: string; cost?: string; version?: string; dialects?: string };

/** A catalog of one model; `price` and `cost` are what stands within the braces of the two. */
function catalogOf({ price = "", cost, version = "2026-11-01", dialects = "[openai-chat]" }: Parts): string {
  return `upstreams:
  near:
    base_url: https://near.example
    dialects: [openai-chat, openai-images]
    credential: { env: PROVIDER_KEY }
models:
  m-1:
    owned_by: somebody
    dialects: ${dialects}
    upstreams: [{ name: near${cost === undefined ? "" : `, cost: { ${cost} }`} }]
    context_tokens: 400000
    max_output_tokens: 2000
    price: { version: "${version}", input_tokens: "0.25", output_tokens: "2"${price} }
`;
}

function modelFrom(parts: Parts, known?: PriceVersions): Model {
  const model = parseCatalog(catalogOf(parts), "catalog.yaml", environment, known).models.get("m-1");
  return model ?? assert.fail("no model");
}

function refusalOf(parts: Parts, known?: PriceVersions): string {
  try {
    modelFrom(parts, known);
  } catch (error) {
    assert.ok(error instanceof CatalogError, String(error));
    return error.message;
  }
  return assert.fail("the catalog was taken");
}

test("every variant is a price row with a version of its own, told by what it is for", () => {
  const conditions = [
    "size: 1024x1024, quality: high",
    "service_tier: priority, above_input_tokens: 200000",
    "service_tier: priority",
    "above_input_tokens: 200000",
  ];
  const variants = conditions.map((condition) => `{ ${condition}, multiplier: "2" }`).join(", ");
  const { priceVersion, variants: rows } = modelFrom({ price: `, variants: [${variants}]` });
  assert.equal(priceVersion, "2026-11-01");
  assert.deepEqual(
    rows.map(({ model }) => model.priceVersion),
    ["2026-11-01+1024x1024-high", "2026-11-01+priority-above-200000", "2026-11-01+priority", "2026-11-01+above-200000"],
  );
  const long = pricedFor(modelFrom({ price: `, variants: [${variants}]` }), () => ({
    fields: {},
    inputTokens: 200_001,
  }));
  assert.equal(long.priceVersion, "2026-11-01+above-200000");
});

test("two rows of a model cannot have one version, and no version can look like that of a variant", () => {
  const twice = `, variants: [{ size: a, quality: b, multiplier: "2" }, { size: a-b, multiplier: "3" }]`;
  assert.match(refusalOf({ price: twice }), /^catalog\.yaml:13: m-1 has version 2026-11-01\+a-b twice/m);
  assert.match(refusalOf({ version: "2026+priority" }), /^catalog\.yaml:13: version must match pattern/m);
  assert.match(
    refusalOf({ price: ", variants: [{ multiplier: '2' }]" }),
    /a variant must say for which calls it holds/,
  );
});

test("a multiplier changes all prices that the variant does not name, cached input and reasoning with them", () => {
  const price = `, cache_read_tokens: "0.025", variants: [{ service_tier: flex, multiplier: "0.5", output_tokens: "1.5" }]`;
  const [flex] = modelFrom({ price }).variants;
  const { inputTokens, cacheReadTokens, cacheWrite5mTokens, outputTokens, reasoningTokens } = flex?.model.prices ?? {};
  assert.deepEqual([inputTokens, cacheReadTokens, cacheWrite5mTokens], [125_000_000n, 12_500_000n, 125_000_000n]);
  assert.deepEqual([outputTokens, reasoningTokens], [1_500_000_000n, 1_500_000_000n], "its own price, not half of it");
});

test("a multiplier leaves tools at their price, for a tier changes what tokens cost", () => {
  const price = `, web_searches: "10000", tool_calls: "5000", variants: [{ service_tier: flex, multiplier: "0.5" }]`;
  const [flex] = modelFrom({ price }).variants;
  const { inputTokens, webSearches, toolCalls } = flex?.model.prices ?? {};
  assert.deepEqual([inputTokens, webSearches, toolCalls], [125_000_000n, 10_000_000_000_000n, 5_000_000_000_000n]);
});

test("a product that is no whole number of nano-USD is refused: the charge is the only rounding", () => {
  const reasonOf = (multiplier: string, more = ""): string =>
    refusalOf({ price: `${more}, variants: [{ service_tier: flex, multiplier: "${multiplier}" }]` });
  const third =
    /^catalog\.yaml:13: input_tokens 0\.25 times 0\.333333333 is no whole number of nano-USD per 1,000,000/m;
  assert.match(reasonOf("0.333333333"), third);
  assert.match(reasonOf("0.5", ', requests: "0.000000001"'), /requests 0\.000000001 times 0\.5 is no whole number/);
  assert.match(reasonOf("999", ', requests: "999999999"'), /requests 999999999 times 999 is more than a price may be/);
  assert.match(reasonOf("0"), /input_tokens would be served for nothing/);
  for (const wrong of ["-1", "1e3", "half", "0.0000000001"]) assert.match(reasonOf(wrong), /multiplier must match/);
});

test("a multiplied price is the exact product, or the catalog is refused", () => {
  const nanos = fc.bigInt({ min: 1n, max: 10n ** 15n });
  fc.assert(
    fc.property(nanos, fc.bigInt({ min: 1n, max: 10n ** 11n }), (price, factor) => {
      const multiplier = formatUsd(factor);
      const parts = {
        price: `, requests: "${formatUsd(price)}", variants: [{ size: s, multiplier: "${multiplier}" }]`,
      };
      const isExact = [price, parseUsd("0.25"), parseUsd("2")].every((base) => (base * factor) % 10n ** 9n === 0n);
      const product = (price * factor) / 10n ** 9n;
      if (!isExact) return assert.match(refusalOf(parts), /is no whole number/);
      if (product >= 10n ** 18n) return assert.match(refusalOf(parts), /more than a price may be/);
      assert.equal(modelFrom(parts).variants[0]?.model.prices.requests, product);
    }),
    { numRuns: 200, examples: [[2n, 500_000_000n]] },
  );
});

/** What is known after this catalog was in force. */
function knownAfter(...catalogs: Parts[]): PriceVersions {
  const known: PriceVersions = new Map();
  for (const parts of catalogs) rememberPrices([modelFrom(parts, known)], known);
  return known;
}

test("prices never change under a version, of the model or of a variant, also after others were in force", () => {
  const priority = (factor: string) => `, variants: [{ service_tier: priority, multiplier: "${factor}" }]`;
  const first = { price: priority("2") };
  const known = knownAfter(first, { version: "2026-12-01", price: priority("3") });
  assert.equal(modelFrom(first, known).priceVersion, "2026-11-01", "back to the old prices under their own version");
  const reason =
    /:13: m-1 has other prices than before in version 2026-11-01\+priority: give new prices a new version$/m;
  assert.match(refusalOf({ price: priority("2.5") }, known), reason);
  assert.match(
    refusalOf({ price: ', requests: "1"' }, known),
    /m-1 has other prices than before in version 2026-11-01:/,
  );
  assert.ok(modelFrom({ price: ', requests: "1"', version: "2026-12-24" }, known));
  assert.ok(
    modelFrom({ ...first, cost: 'input_tokens: "0.1"' }, known),
    "what it costs the operator is no price of it",
  );
});

test("a running relay refuses a changed price without a new version, by name, and stays with the old catalog", async () => {
  const folder = mkdtempSync(join(tmpdir(), "relay-catalog-"));
  try {
    const file = join(folder, "catalog.yaml");
    writeFileSync(file, catalogOf({}));
    const { log, lines } = listeningLog();
    using catalog = followCatalog(file, environment, log);
    writeFileSync(file, catalogOf({ price: ', requests: "1"' }));
    const refused = await until("the refusal is logged", () => lines.find(({ level }) => level === "error"));
    assert.match(String(refused?.["problems"]), /catalog\.yaml:13: m-1 has other prices than before .*new version/);
    assert.equal(catalog.current().models.get("m-1")?.prices.requests, undefined);
    assert.equal(catalog.isStale(), true);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a route may say what the operator pays there, by tier too; what is not named costs what it belongs to", () => {
  const cost = `input_tokens: "0.2", output_tokens: "0", variants: [{ service_tier: priority, multiplier: "2" }]`;
  const [route] = modelFrom({ cost }).routes;
  assert.ok(route?.cost);
  const costFor = (tier: string) =>
    pricesFor(route.cost ?? assert.fail(), () => ({ fields: { service_tier: tier }, inputTokens: 1 }));
  assert.deepEqual([costFor("default").inputTokens, costFor("default").cacheReadTokens], [200_000_000n, 200_000_000n]);
  assert.equal(costFor("priority").inputTokens, 400_000_000n);
  assert.equal(costFor("default").outputTokens, 0n, "the operator's own machine may cost nothing by the token");
  assert.equal(modelFrom({}).routes[0]?.cost, undefined);
  assert.match(refusalOf({ cost: 'version: "1", input_tokens: "1"' }), /version is not a known field/);
  assert.match(refusalOf({ cost: `input_tokens: "1", variants: [{ multiplier: "2" }]` }), /must say for which calls/);
});

test("what is remembered of prices is bounded: rows that no catalog has had for the longest are forgotten first", () => {
  const known: PriceVersions = new Map();
  const model = modelFrom({});
  rememberPrices([model], known);
  for (let index = 0; index < 20_000; index += 1) rememberPrices([{ ...model, priceVersion: `v${index}` }], known);
  assert.equal(known.size, 20_000);
  assert.ok(modelFrom({ price: ', requests: "1"' }, known), "the first is forgotten");
  rememberPrices(
    [
      { ...model, priceVersion: "v0" },
      { ...model, priceVersion: "one more" },
    ],
    known,
  );
  assert.match(refusalOf({ version: "v0", price: ', requests: "1"' }, known), /version v0: give new prices/);
  assert.ok(modelFrom({ version: "v1", price: ', requests: "1"' }, known));
});
