import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { usageBuckets } from "#shared/money/pricing.ts";
import { metricsText } from "#shared/metrics/text.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { until } from "#shared/testing/until.ts";
import { catalogNameOf } from "./schema.ts";
import { pricedFor } from "./models.ts";
import { CatalogError } from "#shared/catalog/document.ts";
import { followCatalog, parseCatalog, type Catalog } from "./catalog.ts";
import { watchCatalog } from "./gauges.ts";
import { listeningLog } from "../testing/fakes.ts";

const environment = { PROVIDER_KEY: "sk-value-of-the-key", EMPTY: "" };
const parse = (text: string): Catalog => parseCatalog(text, "catalog.yaml", environment);

const good = `upstreams:
  openai:
    base_url: https://api.openai.example
    dialects: [openai-chat]
    credential: { env: PROVIDER_KEY }
models:
  gpt-mini:
    owned_by: openai
    created: 1700000000
    upstreams: [{ name: openai }, { name: openai, model: gpt-other }]
    context_tokens: 400000
    max_output_tokens: 2000
    price: { version: "2026-11", input_tokens: "0.25", cache_read_tokens: 0.025, output_tokens: 2 }
`;

const pricedAt = (price: string) =>
  parse(good.replace(/price: .*/, `price: { version: v, ${price} }`)).models.get("gpt-mini");
/** The good catalog with one piece of it replaced. */
const changed = (from: string | RegExp, to: string): string => {
  const text = good.replace(from, to);
  assert.notEqual(text, good);
  return text;
};

/** The message with which a catalog is refused. */
function refusalOf(text: string): string {
  try {
    parse(text);
  } catch (error) {
    assert.ok(error instanceof CatalogError, `a CatalogError, not ${String(error)}`);
    return error.message;
  }
  return assert.fail("the catalog was taken");
}

const createdOf = (created: string, version: string): number | undefined =>
  parse(changed(/ +created: .*\n/, created).replace('"2026-11"', `"${version}"`)).models.get("gpt-mini")
    ?.createdAtSeconds;

test("a model without a day of its own is as old as its prices, alike in every process, and never of 1970", () => {
  assert.equal(createdOf("", "2025-08-07"), Date.UTC(2025, 7, 7) / 1_000);
  assert.equal(createdOf("", "2025-08-07 second"), Date.UTC(2025, 7, 7) / 1_000);
  assert.equal(createdOf("", "2026-11"), Date.UTC(2026, 10) / 1_000);
  assert.equal(createdOf("    created: 0\n", "2026-11-01"), Date.UTC(2026, 10) / 1_000);
});

test("a model of which no day is known at all is as old as its process", () => {
  const dayMs = 86_400_000;
  for (const version of ["v2", "2026-13-01", "20261101"]) {
    const createdMs = (createdOf("", version) ?? 0) * 1_000;
    assert.equal(createdMs % dayMs, 0, version);
    assert.ok(createdMs > Date.now() - 2 * dayMs && createdMs <= Date.now(), `${version}: ${createdMs}`);
  }
});

test("a good catalog is read whole, defaults filled in", () => {
  const model = parse(good).models.get("gpt-mini");
  assert.ok(model);
  assert.equal(model.ownedBy, "openai");
  assert.equal(model.createdAtSeconds, 1_700_000_000);
  assert.equal(model.contextTokens, 400_000);
  assert.equal(model.priceVersion, "2026-11");
  assert.equal(model.reserveOutputTokens, 2_000, "the default of 4,096 is not above what the model can put out");
  assert.deepEqual(
    model.routes.map(({ upstream, model: name }) => [upstream.name, name]),
    [
      ["openai", "gpt-mini"],
      ["openai", "gpt-other"],
    ],
  );
  const upstream = model.routes[0]?.upstream;
  assert.equal(upstream?.baseUrl.href, "https://api.openai.example/");
  assert.equal(upstream?.credential, "sk-value-of-the-key");
  assert.deepEqual(
    [upstream?.connectTimeoutMs, upstream?.firstByteTimeoutMs, upstream?.idleTimeoutMs],
    [5_000, 300_000, 60_000],
  );
});

test("prices are exact to nine decimals, quoted or not, and never pass through a float", () => {
  const prices = pricedAt(
    "input_tokens: 0.123456789, output_tokens: '123456789.987654321', requests: 0.000000001",
  )?.prices;
  assert.equal(prices?.inputTokens, 123_456_789n);
  assert.equal(prices?.outputTokens, 123_456_789_987_654_321n);
  assert.equal(prices?.requests, 1n);
});

test("a bucket without a price costs as the bucket it belongs to, so that no token is ever free", () => {
  const prices = pricedAt("input_tokens: 1, output_tokens: 2")?.prices;
  for (const bucket of usageBuckets.filter((name) => name.endsWith("Tokens"))) {
    const belongsTo = ["outputTokens", "reasoningTokens", "audioOutputTokens", "imageOutputTokens"].includes(bucket);
    assert.equal(prices?.[bucket], belongsTo ? 2_000_000_000n : 1_000_000_000n, bucket);
  }
  for (const bucket of usageBuckets.filter((name) => !name.endsWith("Tokens")))
    assert.equal(prices?.[bucket], undefined);
  const cacheWrites = pricedAt("input_tokens: 1, output_tokens: 2, cache_write_5m_tokens: 1.25")?.prices;
  assert.equal(cacheWrites?.cacheWrite1hTokens, 1_250_000_000n, "an hour costs at least what five minutes cost");
});

test("every bucket has its name in the catalog", () => {
  const names = usageBuckets.map(catalogNameOf);
  assert.ok(names.includes("cache_write_5m_tokens") && names.includes("media_ms") && names.includes("tool_calls"));
  const units = names.map((name, index) => `${name}: ${index + 1}`).join(", ");
  assert.deepEqual(
    pricedAt(units)?.prices,
    Object.fromEntries(usageBuckets.map((name, index) => [name, BigInt(index + 1) * 1_000_000_000n])),
  );
});

// What is wrong, the catalog, the refusal: file, line, reason.
const refusals: [string, string, RegExp][] = [
  [
    "a price of 0",
    changed("2 }", "0 }"),
    /^catalog\.yaml:13: output_tokens would be served for nothing: a price of 0 is refused/m,
  ],
  ["a price of 0.000", changed("0.025", "0.000"), /^catalog\.yaml:13: cache_read_tokens would be served for nothing/m],
  ["no price of input", changed('input_tokens: "0.25", ', ""), /^catalog\.yaml:13: input_tokens has no price$/m],
  ["no price of output", changed(", output_tokens: 2", ""), /^catalog\.yaml:13: output_tokens has no price$/m],
  [
    "no price at all",
    changed(/ {4}price: .*\n/, ""),
    /^catalog\.yaml:7: gpt-mini must have required property 'price'$/m,
  ],
  [
    "no price version",
    changed('version: "2026-11", ', ""),
    /^catalog\.yaml:13: price must have required property 'version'$/m,
  ],
  ["a negative price", changed("0.025", "-0.025"), /^catalog\.yaml:13: cache_read_tokens must match pattern/m],
  [
    "a price of ten decimals",
    changed("0.025", "0.0000000001"),
    /^catalog\.yaml:13: cache_read_tokens must match pattern/m,
  ],
  ["a price in exponents", changed("0.025", "1e3"), /^catalog\.yaml:13: cache_read_tokens must match pattern/m],
  ["a price that is no number", changed("0.025", "free"), /^catalog\.yaml:13: cache_read_tokens must match pattern/m],
  [
    "a bucket that does not exist",
    changed("cache_read_tokens", "cached_tokens"),
    /^catalog\.yaml:13: cached_tokens is not a known field$/m,
  ],
  ["a field that does not exist", changed("created:", "made:"), /^catalog\.yaml:9: made is not a known field$/m],
  [
    "an unknown upstream",
    changed("name: openai, model", "name: azure, model"),
    /^catalog\.yaml:10: there is no upstream azure$/m,
  ],
  [
    "an upstream by the name of what all objects have",
    changed("name: openai, model", "name: constructor, model"),
    /^catalog\.yaml:10: there is no upstream constructor$/m,
  ],
  [
    "no upstream",
    changed(/upstreams: \[.*\]/, "upstreams: []"),
    /^catalog\.yaml:10: upstreams must NOT have fewer than 1 items$/m,
  ],
  ["an unknown dialect", changed("openai-chat", "openai-talk"), /^catalog\.yaml:4: /m],
  ["no dialect", changed("[openai-chat]", "[]"), /^catalog\.yaml:4: dialects must NOT have fewer than 1 items$/m],
  ["a base_url without a scheme", changed("https://api", "api"), /^catalog\.yaml:3: base_url must match pattern/m],
  [
    "a base_url with a query",
    changed("openai.example", "openai.example/?a=b"),
    /^catalog\.yaml:3: base_url must match pattern/m,
  ],
  ["a base_url that is no URL", changed("https://api.openai.example", "https://[x"), /^catalog\.yaml:2: Invalid URL$/m],
  [
    "no credential",
    changed(/ {4}credential.*\n/, ""),
    /^catalog\.yaml:2: openai must have required property 'credential'$/m,
  ],
  ["a credential of neither kind", changed("env:", "vault:"), /^catalog\.yaml:5: vault is not a known field$/m],
  [
    "a credential whose variable is not set",
    changed("PROVIDER_KEY", "NOT_SET"),
    /^catalog\.yaml:2: the variable NOT_SET is not set$/m,
  ],
  [
    "a credential whose variable is empty",
    changed("PROVIDER_KEY", "EMPTY"),
    /^catalog\.yaml:2: the variable EMPTY is not set$/m,
  ],
  [
    "a credential file that is not there",
    changed("env: PROVIDER_KEY", "file: /nowhere/key"),
    /^catalog\.yaml:2: ENOENT: .*'\/nowhere\/key'$/m,
  ],
  [
    "context_tokens that are no number",
    changed("400000", "many"),
    /^catalog\.yaml:11: context_tokens must be integer$/m,
  ],
  ["context_tokens of 0", changed("400000", "0"), /^catalog\.yaml:11: context_tokens must be >= 1$/m],
  [
    "a field that stands twice",
    changed("    created:", "    owned_by: x\n    created:"),
    /^catalog\.yaml:9: Map keys must be unique/m,
  ],
  ["YAML that does not parse", changed("dialects: [openai-chat]", "dialects: [openai-chat"), /^catalog\.yaml:\d+: \S/m],
  ["an alias of nothing", changed("{ env: PROVIDER_KEY }", "*nothing"), /^catalog\.yaml:\d+: .*nothing/m],
  ["no models", changed(/models:[^]*/, ""), /^catalog\.yaml:1: the catalog must have required property 'models'$/m],
  ["a list", "- a\n", /^catalog\.yaml:1: the catalog must be object$/m],
  ["an empty file", "", /^catalog\.yaml:1: the catalog must be object$/m],
];

for (const [what, text, refusal] of refusals) {
  test(`refused with file, line and reason: ${what}`, () => {
    assert.match(refusalOf(text), refusal);
    assert.doesNotMatch(refusalOf(text), /anyOf/, "that no alternative fits says nothing: the alternatives do");
  });
}

test("all problems are told at once, each on a line of its own", () => {
  const text = changed("0.025", "0")
    .replace("PROVIDER_KEY", "NOT_SET")
    .replace("name: openai, model", "name: azure, model");
  const places = refusalOf(text)
    .split("\n")
    .map((line) => line.split(": ", 1)[0]);
  assert.deepEqual(new Set(places), new Set(["catalog.yaml:2", "catalog.yaml:10", "catalog.yaml:13"]));
  assert.equal(places.length, 3);
});

test("values of credentials are never in a message", () => {
  const folder = mkdtempSync(join(tmpdir(), "relay-catalog-"));
  const file = join(folder, "key");
  writeFileSync(file, "  sk-from-a-file\n");
  try {
    const withFile = changed("env: PROVIDER_KEY", `file: ${file}`);
    assert.equal(parse(withFile).models.get("gpt-mini")?.routes[0]?.upstream.credential, "sk-from-a-file");
    writeFileSync(file, " \n");
    assert.match(refusalOf(withFile), /is empty$/m);
    writeFileSync(file, "sk-from-a-file");
    for (const broken of [withFile, good].flatMap((text) => [
      text.replace("https://api.openai.example", "https://[x"),
      text.replace("credential: {", "credential: { x: 1,"),
      text.replace("2 }", "0 }"),
      text.replace(/credential: .*/, "credential: sk-written-into-the-catalog"),
    ])) {
      assert.doesNotMatch(refusalOf(broken), /sk-/);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** A mounted ConfigMap: the file is a link into a folder that is swapped as a whole. */
function createMount() {
  const folder = mkdtempSync(join(tmpdir(), "relay-catalog-"));
  let version = 0;
  const put = (text: string): void => {
    version += 1;
    mkdirSync(join(folder, `v${version}`));
    writeFileSync(join(folder, `v${version}`, "catalog.yaml"), text);
    symlinkSync(`v${version}`, join(folder, "next"));
    renameSync(join(folder, "next"), join(folder, "data"));
  };
  put(good);
  return {
    file: join(folder, "data", "catalog.yaml"),
    put,
    [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
  };
}

test("a running relay takes a new catalog, keeps the last good one over a bad one, and takes the next good one", async () => {
  using mount = createMount();
  const { log, lines } = listeningLog();
  using catalog = followCatalog(mount.file, environment, log);
  const price = (): bigint | undefined => catalog.current().models.get("gpt-mini")?.prices.outputTokens;
  assert.equal(price(), 2_000_000_000n);
  const first = catalog.file();
  assert.deepEqual([first.contentHash, first.problem], [hash("sha256", good), ""]);

  mount.put(good.replace("2 }", "0 }"));
  const refused = await until("the refusal is logged", () => lines.find(({ level }) => level === "error"));
  assert.match(String(refused?.["problems"]), /catalog\.yaml:13: output_tokens would be served for nothing/);
  assert.equal(price(), 2_000_000_000n);
  assert.equal(catalog.isStale(), true);
  const kept = catalog.file();
  assert.deepEqual([kept.contentHash, kept.loadedAt], [first.contentHash, first.loadedAt]);
  assert.match(kept.problem, /catalog\.yaml:13: output_tokens would be served for nothing/);

  const next = good.replace("2 }", "3 }").replace("2026-11", "2026-12");
  mount.put(next);
  await until("the next good one is in force", () => price() === 3_000_000_000n);
  assert.equal(catalog.isStale(), false);
  assert.deepEqual([catalog.file().contentHash, catalog.file().problem], [hash("sha256", next), ""]);
});

test("metrics tell the hash of the catalog in use, and whether a newer file is refused", async () => {
  using mount = createMount();
  using catalog = followCatalog(mount.file, environment, listeningLog().log);
  const registry = createRegistry("relay");
  watchCatalog(registry, catalog);
  const told = async (): Promise<string[]> => {
    const text = await metricsText(registry, { service: "relay", isOpenMetrics: false });
    return text.split("\n").filter((line) => line.startsWith("relay_catalog_"));
  };
  const lines = (text: string, refused: number): string[] => [
    `relay_catalog_info{hash="${hash("sha256", text)}",service="relay"} 1`,
    `relay_catalog_refused{service="relay"} ${refused}`,
  ];
  assert.deepEqual(await told(), lines(good, 0));

  mount.put(good.replace("2 }", "0 }"));
  await until("the bad one is refused", catalog.isStale);
  assert.deepEqual(await told(), lines(good, 1), "the one in use stays in the metric");

  const next = good.replace("2 }", "3 }").replace("2026-11", "2026-12");
  mount.put(next);
  await until("the next good one is in use", () => !catalog.isStale());
  assert.deepEqual(await told(), lines(next, 0), "no series of the one before is left");

  rmSync(mount.file);
  await until("that the file is gone is noticed", catalog.isStale);
  assert.deepEqual(await told(), lines(next, 1));
});

test("a first catalog that cannot be used is not started with", () => {
  using mount = createMount();
  mount.put("models: {}\n");
  assert.throws(() => followCatalog(mount.file, environment, listeningLog().log), CatalogError);
});

const modelWith = (fields: string, price: string): string =>
  good
    .replace("dialects: [openai-chat]", "dialects: [openai-chat, openai-images, openai-speech, openai-embeddings]")
    .replace(/ {4}context_tokens[^]*/, `    ${fields}\n    price: { version: v, ${price} }\n`);

test("a model may be called in the conversation formats that reach its upstreams, or in those that it names", () => {
  const dialectsOf = (text: string) => [...(parse(text).models.get("gpt-mini")?.dialects ?? [])];
  assert.deepEqual(dialectsOf(good), ["openai-chat", "openai-responses", "anthropic-messages"], "by conversion too");
  const compact = good.replace("[openai-chat]", "[openai-responses, openai-compact]");
  assert.ok(dialectsOf(compact).includes("openai-compact"), "compaction only where the upstream has it");
  assert.deepEqual(dialectsOf(modelWith("dialects: [openai-images]", "images: 40000")), ["openai-images"]);
});

test("a model needs the prices of one measure of each of its dialects, and no other", () => {
  const priced = (name: string, price: string) => parse(modelWith(`dialects: [${name}]`, price)).models.get("gpt-mini");
  assert.equal(priced("openai-images", "images: 40000")?.prices.images, 40_000_000_000_000n);
  assert.ok(priced("openai-images", "input_tokens: 5, image_output_tokens: 40"));
  assert.ok(priced("openai-speech", "characters: 15"));
  assert.ok(priced("openai-embeddings", "input_tokens: 0.02"));
  assert.match(refusalOf(modelWith("dialects: [openai-images]", "input_tokens: 5")), /images has no price/);
  assert.match(refusalOf(modelWith("dialects: [openai-speech]", "images: 5")), /characters has no price/);
  assert.match(
    refusalOf(modelWith("dialects: [openai-embeddings, openai-speech]", "input_tokens: 1")),
    /audio_output_tokens has no price|characters has no price/,
  );
});

test("a model that makes text needs its limits", () => {
  const problems = refusalOf(modelWith("dialects: [openai-chat]", "input_tokens: 1, output_tokens: 1"));
  assert.match(problems, /context_tokens must be set/);
  assert.match(problems, /max_output_tokens must be set/);
});

test("images by size and quality: the first variant that fits the request counts, else the model's own prices", () => {
  const variants = "variants: [{ size: large, quality: hd, images: 120000 }, { size: large, images: 80000 }]";
  const text = modelWith("dialects: [openai-images]", `images: 40000, ${variants}`);
  const model = parse(text).models.get("gpt-mini");
  assert.ok(model);
  const priceOf = (fields: Record<string, string>): bigint | undefined =>
    pricedFor(model, () => ({ fields, inputTokens: 0 })).prices.images;
  assert.equal(priceOf({ size: "large", quality: "hd" }), 120_000_000_000_000n);
  assert.equal(priceOf({ size: "large" }), 80_000_000_000_000n);
  assert.equal(priceOf({ size: "small", quality: "hd" }), 40_000_000_000_000n);
  assert.equal(priceOf({}), 40_000_000_000_000n);
  assert.match(refusalOf(text.replace("80000", "0")), /images would be served for nothing/);
});

test("trap 32 (price by the service tier and by whole-request context tier; mind > against >=): both are variants", () => {
  const tiers = [
    "{ service_tier: priority, input_tokens: 2, output_tokens: 8 }",
    "{ above_input_tokens: 200000, input_tokens: 4, output_tokens: 16 }",
  ];
  const text = good.replace(
    /price: .*/,
    `price: { version: v, input_tokens: 1, output_tokens: 4, variants: [${tiers.join()}] }`,
  );
  const model = parse(text).models.get("gpt-mini");
  assert.ok(model);
  const priceOf = (tier: string, inputTokens: number): bigint | undefined =>
    pricedFor(model, () => ({ fields: { service_tier: tier }, inputTokens })).prices.inputTokens;
  assert.equal(priceOf("default", 200_000), 1_000_000_000n, "at the threshold, not above it");
  assert.equal(priceOf("default", 200_001), 4_000_000_000n);
  assert.equal(priceOf("priority", 5), 2_000_000_000n);
});
