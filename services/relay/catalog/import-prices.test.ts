import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import fc from "fast-check";
import { parseCatalog } from "./catalog.ts";
import { pricedFor, type Model } from "./models.ts";
import { upstreamDialectNames } from "../dialects/dialect.ts";
import { importPrices } from "./import-prices.ts";
import { nanosOf } from "./price-list.ts";

// In the form of the public list; models and prices are made up.
const list = `{
  "sample_spec": { "litellm_provider": "one of many", "input_cost_per_token": 0.0, "mode": "one of: chat" },
  "acme/talker-1": {
    "litellm_provider": "acme", "mode": "chat", "max_input_tokens": 1048576, "max_output_tokens": 65536,
    "max_tokens": 65536, "supports_vision": true, "source": "https://acme.example",
    "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 3.125e-07,
    "cache_creation_input_token_cost": 1.5625e-06, "cache_creation_input_token_cost_above_1hr": 2.5e-06,
    "output_cost_per_reasoning_token": 1.2e-05, "input_cost_per_audio_token": 0.000003, "input_cost_per_request": 0.005,
    "input_cost_per_token_above_200k_tokens": 2.5e-06, "output_cost_per_token_above_200k_tokens": 1.5e-05,
    "cache_read_input_token_cost_above_200k_tokens": 6.25e-07,
    "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 5e-06,
    "input_cost_per_token_priority": 2.25e-06, "output_cost_per_token_priority": 1.8e-05,
    "input_cost_per_token_flex": 6.25e-07, "input_cost_per_token_batches": 6.25e-07,
    "input_cost_per_token_above_200k_tokens_priority": 4.5e-06,
    "search_context_cost_per_query": { "search_context_size_low": 0.01, "search_context_size_high": 0.025 },
    "file_search_cost_per_1k_calls": 0.0025,
    "input_cost_per_image": 0.001, "input_cost_per_token_decisions": 9e-06, "output_cost_per_audio_token": 0.0,
    "input_cost_per_video_per_second": null
  },
  "talker-2": { "litellm_provider": "acme", "mode": "responses", "max_tokens": 4096,
    "input_cost_per_token": 5e-08, "output_cost_per_token": 4E-7, "input_cost_per_token_ultrafast": 2e-07,
    "cache_creation_input_token_cost_above_12hr": 1e-07 },
  "acme/talker-2": { "litellm_provider": "acme", "mode": "chat", "max_tokens": 1,
    "input_cost_per_token": 1, "output_cost_per_token": 1 },
  "vectors": { "litellm_provider": "acme", "mode": "embedding", "max_input_tokens": 8191,
    "input_cost_per_token": 2e-08, "output_cost_per_token": 0.0 },
  "painter": { "litellm_provider": "acme", "mode": "image_generation", "output_cost_per_image": 0.04 },
  "1024-x-1024/painter": { "litellm_provider": "acme", "mode": "image_generation", "output_cost_per_image": 0.08 },
  "speaker": { "litellm_provider": "acme", "mode": "audio_speech", "input_cost_per_character": 1.5e-05 },
  "listener": { "litellm_provider": "acme", "mode": "audio_transcription", "input_cost_per_second": 0.0001 },
  "gift": { "litellm_provider": "acme", "mode": "chat", "input_cost_per_token": 0, "output_cost_per_token": 0.0 },
  "half-gift": { "litellm_provider": "acme", "mode": "chat", "max_tokens": 9, "input_cost_per_token": 0,
    "output_cost_per_token": 1e-06 },
  "sorter": { "litellm_provider": "acme", "mode": "rerank", "input_cost_per_query": 0.002 },
  "elsewhere": { "litellm_provider": "other", "mode": "chat", "max_tokens": 9, "input_cost_per_token": 1e-06,
    "output_cost_per_token": 1.0000000000000001e-06 }
}`;

const wanted = { provider: "acme", version: "2026-11-01", models: [] as string[] };

/** The models of an import, as the catalog reads them. */
function readBack(yaml: string, provider = "acme"): Map<string, Model> {
  const dialects = upstreamDialectNames.join();
  const upstreams = `upstreams: { ${provider}: { base_url: "http://a", dialects: [${dialects}], credential: { env: K } } }\n`;
  return parseCatalog(upstreams + yaml, "imported.yaml", { K: "key" }).models;
}

test("what is imported passes the catalog's own parser, every price to its last digit", () => {
  const { yaml, problems } = importPrices(list, wanted);
  assert.deepEqual(problems, []);
  const models = readBack(yaml);
  assert.deepEqual([...models.keys()], ["talker-1", "talker-2", "vectors", "painter", "speaker", "listener"]);
  const talker = models.get("talker-1");
  assert.ok(talker);
  assert.deepEqual([talker.contextTokens, talker.maxOutputTokens], [1_048_576, 65_536]);
  assert.deepEqual([talker.priceVersion, talker.ownedBy], ["2026-11-01", "acme"]);
  const { prices } = talker;
  assert.deepEqual(
    [prices.inputTokens, prices.outputTokens, prices.cacheReadTokens, prices.cacheWrite5mTokens],
    [1_250_000_000n, 10_000_000_000n, 312_500_000n, 1_562_500_000n],
  );
  assert.deepEqual(
    [prices.cacheWrite1hTokens, prices.reasoningTokens, prices.audioInputTokens, prices.requests],
    [2_500_000_000n, 12_000_000_000n, 3_000_000_000n, 5_000_000_000_000n],
  );
  assert.deepEqual(models.get("talker-2")?.prices.outputTokens, 400_000_000n, "the first of two with one name");
  assert.equal(models.get("talker-2")?.prices.cacheWrite1hTokens, 100_000_000n, "what is kept for hours, here twelve");
  assert.deepEqual(
    models.get("talker-2")?.variants.map(({ where, model }) => [where, model.prices.inputTokens]),
    [[{ service_tier: "ultrafast" }, 200_000_000n]],
  );
  assert.deepEqual([...(models.get("vectors")?.dialects ?? [])], ["openai-embeddings"]);
  assert.equal(models.get("painter")?.prices.images, 40_000_000_000_000n);
  assert.equal(models.get("speaker")?.prices.characters, 15_000_000_000n);
  assert.equal(models.get("listener")?.prices.mediaMs, 100_000_000n, "0.0001 USD a second, by the millisecond");
});

test("thresholds and tiers become variants, in an order in which the first that fits is the right one", () => {
  const talker = readBack(importPrices(list, wanted).yaml).get("talker-1");
  assert.ok(talker);
  assert.deepEqual(
    talker.variants.map(({ model }) => model.priceVersion.split("+")[1]),
    ["priority-above-200000", "priority", "flex", "batch", "above-200000"],
  );
  const pricesAt = (tier: string, inputTokens: number) =>
    pricedFor(talker, () => ({ fields: { service_tier: tier }, inputTokens })).prices;
  assert.equal(pricesAt("default", 200_000).inputTokens, 1_250_000_000n);
  assert.equal(pricesAt("default", 200_000).fileSearches, 2_500_000_000n, "by the thousand in the list");
  assert.equal(pricesAt("default", 200_001).inputTokens, 2_500_000_000n);
  assert.equal(pricesAt("default", 200_001).cacheWrite1hTokens, 5_000_000_000n);
  assert.equal(pricesAt("default", 200_001).cacheWrite5mTokens, 1_562_500_000n, "not named: the model's own");
  const both = pricesAt("priority", 200_001);
  assert.equal(both.inputTokens, 4_500_000_000n);
  assert.deepEqual(
    [both.outputTokens, both.cacheReadTokens],
    [18_000_000_000n, 625_000_000n],
    "not named for both: the tier's, else the threshold's",
  );
  assert.equal(pricesAt("batch", 5).inputTokens, 625_000_000n);
});

test("Google's models come with the way in which its OpenAI-compatible endpoint counts", () => {
  const entry = (mode: string) => ({
    litellm_provider: "gemini",
    mode,
    max_tokens: 9,
    input_cost_per_token: 1e-6,
    output_cost_per_token: 2e-6,
  });
  const google = JSON.stringify({ "gemini/thinker": entry("chat"), "gemini/vectors": entry("embedding") });
  const { yaml } = importPrices(google, { provider: "gemini", version: "1", models: [] });
  assert.match(yaml, /thinker:\n(?: {4}.*\n)*? {4}quirks: \[reasoning-in-total\]\n/);
  assert.equal(yaml.match(/quirks/g)?.length, 1);
  assert.doesNotMatch(importPrices(list, wanted).yaml, /quirks/);
});

test("nothing about money is dropped in silence: what cannot be said, is 0 or is left out stands in a comment", () => {
  const { yaml } = importPrices(list, wanted);
  const comments = yaml.split("\n").filter((line) => line.startsWith("  #"));
  const isSaid = (pattern: RegExp): void =>
    assert.ok(
      comments.some((line) => pattern.test(line)),
      String(pattern),
    );
  isSaid(/talker-1 not said in this catalog: input_cost_per_image: "0\.001"/);
  isSaid(/talker-1 not said in this catalog: input_cost_per_token_decisions: "9e-06"/);
  isSaid(/talker-1 left out, because it is 0: output_cost_per_audio_token/);
  isSaid(/talker-1 the list does not say what flex above 200000 input tokens costs/);
  isSaid(/vectors left out, because it is 0: output_cost_per_token/);
  isSaid(/gift left out: all its prices are 0 \(input_cost_per_token, output_cost_per_token\)/);
  isSaid(/half-gift left out: input_tokens has no price/);
  isSaid(/sorter left out: there is no format for mode rerank/);
  isSaid(/"1024-x-1024\/painter" left out: a size of another model/);
  isSaid(/"acme\/talker-2" left out: talker-2 is there already/);
  assert.doesNotMatch(yaml, /elsewhere|supports_vision|video_per_second/);
});

test("a web search costs what the list says of the dearest, else what the provider is known to ask", () => {
  const searches = (provider: string): Record<string, bigint | undefined> => {
    const { yaml } = importPrices(list.replaceAll('"other"', `"${provider}"`).replace("1.0000000000000001", "1"), {
      ...wanted,
      provider,
    });
    return Object.fromEntries([...readBack(yaml, provider)].map(([id, { prices }]) => [id, prices.webSearches]));
  };
  const acme = searches("acme");
  assert.equal(acme["talker-1"], 25_000_000_000_000n, "0.025 USD each");
  assert.equal(acme["talker-2"], undefined);
  for (const provider of ["openai", "anthropic"]) {
    assert.deepEqual(searches(provider), { elsewhere: 10_000_000_000_000n }, "0.01 USD each");
    const { yaml } = importPrices(list.replaceAll('"acme"', `"${provider}"`), { ...wanted, provider });
    assert.match(yaml, new RegExp(`# talker-2 .*web_searches.*${provider}`));
    assert.equal(readBack(yaml, provider).get("vectors")?.prices.webSearches, undefined, "it makes no text");
  }
});

test("a price that is not exact in nano-USD per 1,000,000 units is a problem, never rounded", () => {
  const { yaml, problems } = importPrices(list, { ...wanted, provider: "other" });
  assert.deepEqual(problems, [
    "elsewhere: output_cost_per_token: 1.0000000000000001e-06 is no whole number of nano-USD per 1,000,000 units",
  ]);
  assert.deepEqual([...readBack(yaml, "other").keys()], []);
});

test("only what is asked for is imported, by either name; what the list does not have is a problem", () => {
  const { yaml, problems } = importPrices(list, { ...wanted, models: ["acme/talker-1", "vectors", "nobody"] });
  assert.deepEqual([...readBack(yaml).keys()], ["talker-1", "vectors"]);
  assert.deepEqual(problems, ["acme has no model nobody in the list"]);
  const { problems: none } = importPrices(list, { ...wanted, provider: "nobody" });
  assert.deepEqual(none, ["the list has no models of the provider nobody"]);
  assert.throws(() => importPrices("{", wanted), SyntaxError);
});

test("a version that the catalog refuses imports nothing, and the reason is told", () => {
  const { yaml } = importPrices(list, { ...wanted, version: "1+2" });
  assert.match(yaml, /talker-2 left out: version must match pattern/);
  assert.equal(readBack(yaml).size, 0);
});

test("numbers are read from their text: any way to write a price gives the same nano-USD, none passes through a float", () => {
  assert.equal(nanosOf("2.5e-06"), 2_500_000_000n);
  assert.equal(nanosOf("0.0000025"), 2_500_000_000n);
  assert.equal(nanosOf("1e-15"), 1n);
  assert.equal(nanosOf("1.1e-15"), undefined);
  assert.equal(nanosOf("0.1234567890123456789"), undefined);
  assert.equal(nanosOf("9007199254740993"), 9_007_199_254_740_993n * 10n ** 15n, "beyond what a float can say");
  for (const text of ["-1", "NaN", "", "1e", "0x1", "1e-100", "free"]) assert.equal(nanosOf(text), undefined, text);
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 18n }), fc.integer({ min: -14, max: 15 }), (nanos, exponent) => {
      const digits = nanos.toString().padStart(31, "0");
      const point = digits.length - 15 - exponent;
      assert.equal(nanosOf(`${digits.slice(0, point)}.${digits.slice(point) || "0"}e${exponent}`), nanos);
    }),
  );
});

test("the command prints the section, tells problems on the other output and ends with 1 where there are any", async () => {
  const folder = mkdtempSync(join(tmpdir(), "relay-prices-"));
  const run = (...given: string[]) =>
    promisify(execFile)(process.execPath, [join(import.meta.dirname, "check.ts"), ...given]).then(
      ({ stdout, stderr }) => ({ stdout, stderr, code: 0 }),
      ({ stdout, stderr, code }: { stdout: string; stderr: string; code: number }) => ({ stdout, stderr, code }),
    );
  try {
    const file = join(folder, "prices.json");
    writeFileSync(file, list);
    const good = await run("import", file, "--provider", "acme", "--version", "v7", "talker-2");
    assert.deepEqual([good.code, good.stderr], [0, ""]);
    assert.equal(readBack(good.stdout).get("talker-2")?.priceVersion, "v7");
    const bad = await run("import", file, "--provider", "other");
    assert.deepEqual([bad.code, bad.stderr.includes("no whole number")], [1, true]);
    assert.match(bad.stdout, /elsewhere left out/);
    assert.equal((await run("import", file)).code, 2);
    const catalog = join(folder, "catalog.yaml");
    writeFileSync(catalog, "upstreams: {}\nmodels: {}\n");
    assert.deepEqual(await run(catalog), { stdout: "USD per 1,000,000 units\n\n\n", stderr: "", code: 0 });
    assert.equal((await run(join(folder, "nothing.yaml"))).code, 1);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
