import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { videoDialectOf } from "#shared/catalog/video-dialects.ts";
import { parseCatalog } from "../../../services/relay/catalog/catalog.ts";
import { dialectNames } from "../../../services/relay/dialects/dialect.ts";
import { catalogFor, exampleModel, exampleVideoModel, hasProviderKey, writeCatalog } from "./demo-catalog.ts";

const demo = { url: "http://127.0.0.1:1234", videosUrl: "http://127.0.0.1:1235" };
const keys = { OPENAI_API_KEY: "sk-a", ANTHROPIC_API_KEY: "sk-b" };

test("without a provider key the catalog offers the demo upstream; with keys only those providers", () => {
  assert.equal(hasProviderKey({ OPENAI_API_KEY: "" }), false);
  assert.equal(hasProviderKey({ ANTHROPIC_API_KEY: "x" }), true);
  const upstreamsOf = (environment: Record<string, string>): string[] => {
    const catalog = parseCatalog(catalogFor(environment, demo), "catalog.yaml", environment);
    return [...catalog.models.values()].flatMap(({ routes }) => routes.map(({ upstream }) => upstream.name));
  };
  assert.deepEqual(new Set(upstreamsOf({ DEMO_API_KEY: "demo" })), new Set(["demo", "demo-gemini", "demo-videos"]));
  assert.deepEqual(new Set(upstreamsOf({ OPENAI_API_KEY: "sk-a" })), new Set(["openai"]));
  assert.deepEqual(new Set(upstreamsOf(keys)), new Set(["openai", "anthropic"]));
  assert.deepEqual(new Set(upstreamsOf({ GEMINI_API_KEY: "g" })), new Set(["gemini"]));
});

test("there is a model for every endpoint, with OpenAI's key for all but moderations", () => {
  const spoken = (environment: Record<string, string>): Set<string> => {
    const { models } = parseCatalog(catalogFor(environment, demo), "catalog.yaml", environment);
    return new Set([...models.values()].flatMap((model) => [...model.dialects]));
  };
  assert.deepEqual(spoken({ DEMO_API_KEY: "demo" }), new Set(dialectNames));
  const paid = new Set<string>(dialectNames);
  // Moderations are free there, and the catalog takes no price of 0.
  paid.delete("openai-moderations");
  assert.deepEqual(spoken(keys), paid);
});

test("the demo upstream has a model of videos; with providers' keys there are examples, and none is offered", () => {
  const DEMO_API_KEY = "demo";
  assert.equal(exampleVideoModel(catalogFor(keys, demo)), undefined);
  const { models } = parseCatalog(catalogFor({}, demo), "catalog.yaml", { DEMO_API_KEY });
  const model = models.get(exampleVideoModel(catalogFor({}, demo)) ?? "");
  assert.ok(model?.video && model.prices.mediaMs, "it is limited and priced");
  assert.equal(videoDialectOf(model.routes[0]?.upstream ?? { dialects: [] }), "openai-videos");
  const environment = { ...keys, GEMINI_API_KEY: "g" };
  const examples = catalogFor(environment, demo).replaceAll(/^ {2}# (?=(sora-2|veo|  ))/gm, "  ");
  const offered = parseCatalog(examples.replaceAll("THAT_UPSTREAM", "gemini"), "catalog.yaml", environment).models;
  assert.deepEqual(
    [...offered.values()].filter(({ video }) => video).map(({ id }) => id),
    ["sora-2", "veo-3.1-generate-preview"],
  );
});

test("models that agents call with a web search by default have a price for it", () => {
  const environment = { ...keys, DEMO_API_KEY: "demo" };
  for (const given of [keys, {}]) {
    const { models } = parseCatalog(catalogFor(given, demo), "catalog.yaml", environment);
    const searching = [...models.values()].filter(
      ({ routes, dialects }) =>
        (dialects.has("openai-responses") &&
          routes.some(({ upstream }) => upstream.dialects.includes("openai-responses"))) ||
        (dialects.has("anthropic-messages") &&
          routes.some(({ upstream }) => upstream.dialects.includes("anthropic-messages"))),
    );
    assert.ok(searching.length > 0);
    for (const { id, prices } of searching) assert.ok(prices.webSearches, id);
  }
});

test("Google's models count their reasoning in the total of its chat endpoint", () => {
  const environment = { GEMINI_API_KEY: "g" };
  const { models } = parseCatalog(catalogFor(environment, demo), "catalog.yaml", environment);
  for (const model of models.values()) assert.ok(model.quirks.has("reasoning-in-total"), model.id);
});

test("an example speaks chat when a model does, else messages", () => {
  assert.deepEqual(exampleModel(catalogFor({}, demo)), { model: "demo-chat", dialect: "openai-chat" });
  const { ANTHROPIC_API_KEY } = keys;
  const messagesOnly = exampleModel(catalogFor({ ANTHROPIC_API_KEY }, demo));
  assert.deepEqual(messagesOnly, { model: "claude-haiku-4-5", dialect: "anthropic-messages" });
  assert.equal(exampleModel(catalogFor(keys, demo))?.dialect, "openai-chat");
  const converted = exampleModel(catalogFor({ GEMINI_API_KEY: "g" }, demo));
  assert.deepEqual(converted, { model: "gemini-2.5-flash", dialect: "openai-chat" });
  assert.equal(exampleModel("models: {}"), undefined);
  const upstreams = "upstreams: { one: { dialects: [openai-chat, openai-embeddings] } }";
  const models = "models: { vector: { dialects: [openai-embeddings], upstreams: [{ name: one }] } }";
  assert.equal(exampleModel(`${upstreams}\n${models}`), undefined, "a model that only embeds has nothing to say");
});

test("a catalog that was edited by hand is kept; an untouched one follows the environment", async () => {
  const folder = await mkdtemp(join(tmpdir(), "relay-catalog-"));
  try {
    const file = join(folder, "catalog.yaml");
    const first = await writeCatalog(file, "one\n", undefined);
    assert.equal(first.isEdited, false);
    const second = await writeCatalog(file, "two\n", first.hash);
    assert.equal(await readFile(file, "utf8"), "two\n");
    await writeFile(file, "by hand\n");
    const third = await writeCatalog(file, "three\n", second.hash);
    assert.equal(third.isEdited, true);
    assert.equal(await readFile(file, "utf8"), "by hand\n");
  } finally {
    await rm(folder, { recursive: true });
  }
});
