import assert from "node:assert/strict";
import { after, before, beforeEach, it } from "node:test";
import { ServiceError } from "#shared/process/errors.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";
import { readyState } from "../../testing/relay-neighbour.ts";
import { render } from "../../html/html.ts";
import { bucketNames } from "../../html/units.ts";
import { readLoadedModels } from "../../loaded-models.ts";
import { capabilitiesOf, statusOf } from "./models.ts";

let world: World;
let reader: TestPerson;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  reader = await join(world, operator.browser, "acme", "viewer");
});
after(() => world[Symbol.asyncDispose]());
beforeEach(() => {
  world.neighbours.relays.state = readyState();
  // What the relays told is kept for two seconds.
  world.clock.moveMs += 2_000;
});

const path = "/accounts/acme/models";

it("shows name, endpoints and every price row with its condition, in USD per 1,000,000 units", async () => {
  const seen = await reader.browser.get(path);
  assert.equal(seen.status, 200);
  checkPage(seen, path);
  assert.match(seen.text, /<h2>chat-large<\/h2>/);
  assert.match(seen.text, /<code>\/v1\/chat\/completions<\/code>.*<code>\/v1\/messages<\/code>/);
  assert.match(
    seen.text,
    /<dt>Input tokens<\/dt><dd><data[^>]* title="2\.50 USD">\$2\.50<\/data>.*<dt>Output tokens<\/dt><dd>.*\$10\.00</,
  );
  assert.match(seen.text, /more than 200,000 input tokens:<\/p>.*<dt>Input tokens<\/dt><dd>.*\$5\.00</);
  assert.match(seen.text, /<h2>embed-small<\/h2>.*<dt>Input tokens<\/dt><dd>.*\$0\.02</);
});

it("tells how long calls and answers may be, where that is known", async () => {
  const known = { name: "long", contextTokens: 200_000n, maxOutputTokens: 8_192n };
  world.neighbours.relays.state = readyState([known, { name: "other" }]);
  const { text } = await reader.browser.get(path);
  assert.match(text, /<h2>long<\/h2>.*Context of 200,000 tokens\.\s*Answers of up to 8,192 tokens\..*<h2>other<\/h2>/);
  assert.equal(text.match(/Context of/g)?.length, 1);
});

it("never shows routes, upstreams or what a call costs the operator", async () => {
  const { text } = await reader.browser.get(path);
  assert.doesNotMatch(text, /first-upstream|second-upstream|hidden-|1\.111|4\.444/);
});

it("shows the models that have a text in their name, in any case", async () => {
  const seen = await reader.browser.get(`${path}?name=EMBED`);
  assert.match(seen.text, /embed-small/);
  assert.doesNotMatch(seen.text, /chat-large/);
  assert.match(seen.text, /name="name"[^>]* value="EMBED"/);
  assert.match((await reader.browser.get(`${path}?name=nothing`)).text, /No model here has this in its name/);
});

it("lists a hundred at a time, with the filter on the way to the next page", async () => {
  const models = Array.from({ length: 101 }, (_, index) => ({ name: `model-${index}.` }));
  world.neighbours.relays.state = readyState(models);
  const first = await reader.browser.get(`${path}?name=model`);
  assert.doesNotMatch(first.text, /model-100\./);
  assert.match(first.text, /href="\/accounts\/acme\/models\?name&#61;model&#38;page&#61;1"/);
  const second = await reader.browser.get(`${path}?name=model&page=1`);
  assert.match(second.text, /model-100\./);
  assert.doesNotMatch(second.text, /model-99\.|Next page/);
});

it("says so with 503 when no relay answers", async () => {
  world.neighbours.failure = new ServiceError("unavailable", "gone");
  try {
    const seen = await reader.browser.get(path);
    assert.equal(seen.status, 503);
    checkPage(seen, path);
    assert.match(seen.text, /models and their prices are not available right now/);
  } finally {
    world.neighbours.failure = undefined;
  }
});

it("asks the relays once for pages that are opened at once or within two seconds, and then again", async () => {
  const { relays } = world.neighbours;
  const asked = relays.requests;
  await Promise.all([reader.browser.get(path), reader.browser.get(path), reader.browser.get(path)]);
  await reader.browser.get(path);
  assert.equal(relays.requests, asked + 1);
  world.clock.moveMs += 2_000;
  await reader.browser.get(path);
  assert.equal(relays.requests, asked + 2);
});

it("tells how a model's calls fared in the last hour on all relays, and what it can do", async () => {
  const modelWith = (recentServed: bigint, recentFailed: bigint) => ({
    name: "words",
    endpoints: [],
    prices: [],
    recentServed,
    recentFailed,
  });
  const relay = (...calls: [bigint, bigint]) => ({
    state: { catalog: { contentHash: "a", models: [modelWith(...calls)] } },
  });
  const states = async () => [relay(90n, 1n), { problem: "away" }, relay(8n, 1n)].map(asState);
  const asState = (one: object) => one as never;
  const loaded = await readLoadedModels({ recentStates: states });
  assert.deepEqual([loaded?.models[0]?.served, loaded?.models[0]?.failed], [98n, 2n]);
  const statusWords = (served: bigint, failed: bigint) =>
    render(statusOf({ served, failed })).replaceAll(/<[^>]*>/g, "");
  assert.equal(statusWords(98n, 2n), "98.0 % served");
  assert.equal(statusWords(0n, 4n), "no recent calls");
  assert.match(render(statusOf({ served: 98n, failed: 2n })), /success/);
  assert.match(render(statusOf({ served: 90n, failed: 10n })), /warning/);
  assert.match(render(statusOf({ served: 5n, failed: 5n })), /danger/);
  const prices = [{ condition: "", prices: [{ bucket: bucketNames.cacheReadTokens, nanos: 1n }] }];
  assert.deepEqual(capabilitiesOf({ endpoints: ["/v1/chat/completions", "/v1/messages"], prices }), [
    "Text",
    "Prompt caching",
  ]);
});

it("says that a change is being rolled out while relays differ", async () => {
  const relay = (contentHash: string) => ({ catalog: { contentHash, models: [] } });
  const relays = (...states: object[]) => ({ recentStates: async () => states as never });
  const same = relays({ problem: "away" }, { state: relay("a") }, { state: relay("a") });
  assert.equal((await readLoadedModels(same))?.isChanging, false);
  assert.equal((await readLoadedModels(relays({ state: relay("a") }, { state: relay("b") })))?.isChanging, true);
  assert.equal(await readLoadedModels(relays({ problem: "away" })), undefined);
});

it("names, endpoints and conditions with markup in them are shown as they are written", async () => {
  const wrong = `"><script>alert(1)</script>&amp;'`;
  const models = [{ name: wrong, endpoints: [wrong], prices: [{ condition: wrong, unitPriceNanos: { images: 1n } }] }];
  world.neighbours.relays.state = readyState(models);
  const { text } = await reader.browser.get(`${path}?name=${encodeURIComponent("<script")}`);
  assert.doesNotMatch(text, /<script>|&amp;/);
  assert.equal(text.match(/&#60;script&#62;alert\(1\)&#60;\/script&#62;&#38;amp;/g)?.length, 3);
});
