import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

const path = "/accounts/acme/activity";
const atMs = Date.now() - 3_600_000;

let world: World;
let reader: TestPerson;
let whole: string;
let failed: string;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  world.neighbours.addAccount("other");
  reader = await join(world, operator.browser, "acme", "viewer");
  const { usage } = world.neighbours;
  const website = world.neighbours.addKey("acme", "Website");
  whole = usage.bookCall("acme", atMs, { keyId: website });
  const cached = { inputTokens: 7n, cacheReadTokens: 5n, outputTokens: 300n, reasoningTokens: 100n };
  failed = usage.bookCall("acme", atMs + 1_000, { endCause: EndCause.UPSTREAM_CUT, httpStatus: 502, usage: cached });
  usage.bookCall("other", atMs);
  usage.book(atMs, { accountId: "acme", kind: LineKind.CREDIT, amountNanos: 1n, reference: "paid" });
});
after(() => world[Symbol.asyncDispose]());

const open = async (query = ""): Promise<string> => (await reader.browser.get(`${path}${query}`)).text;
const ridsOf = (text: string): string[] =>
  [...text.matchAll(/href="\/accounts\/acme\/calls\/([^"]+)"/g)].map((match) => match[1] ?? "");

describe("the activity of an account", () => {
  it("has its own calls alone, newest first, and comes by itself", async () => {
    const seen = await reader.browser.get(path);
    checkPage(seen, path);
    assert.deepEqual(ridsOf(seen.text), [failed, whole]);
    assert.match(seen.text, /hx-get="\/accounts\/acme\/activity\/newest\?[^"]*" hx-trigger="every 5s"/);
    const newest = await reader.browser.get(`${path}/newest`, { "hx-request": "true" });
    assert.deepEqual(ridsOf(newest.text), [failed, whole]);
    assert.doesNotMatch(newest.text, /<html/);
  });

  it("tells of a call its model, key, result, tokens, cost, latency and speed", async () => {
    const row = (await open()).split("<tr>").find((one) => one.includes(whole)) ?? "";
    assert.match(row, /chat-large<small>Website<\/small>/);
    assert.match(row, />200<\/span>/);
    assert.match(row, /title="0\.00037 USD"/);
    assert.match(row, /2\.0 s<small>first token 250 ms<\/small>/);
    // 34 tokens in the 1.75 s after the first byte.
    assert.match(row, />19 tok\/s</);
  });

  it("counts cached tokens with the input and reasoning with the output, and tells how a call ended", async () => {
    const row = (await open()).split("<tr>").find((one) => one.includes(failed)) ?? "";
    assert.match(row, />12<small>5 cached<\/small>/);
    assert.match(row, />400<small>100 reasoning<\/small>/);
    assert.match(row, /data-variant="danger">502<\/span><small>connection lost<\/small>/);
  });

  it("is filtered by key, model and result", async () => {
    const [key = ""] = world.neighbours.keys.keys();
    assert.deepEqual(ridsOf(await open(`?result=failed`)), [failed]);
    assert.deepEqual(ridsOf(await open(`?result=whole&key=${key}`)), [whole]);
    assert.deepEqual(ridsOf(await open("?model=another")), []);
    assert.match(await open("?model=another"), /No calls match.*Clear the filters/s);
    assert.deepEqual(ridsOf(await open("?key=no%20key")), [failed, whole], "no id of a key");
  });

  it("leads to a call by its request id, and says what an id looks like", async () => {
    assert.equal((await reader.browser.get(`${path}?rid=${whole}`)).location, `/accounts/acme/calls/${whole}`);
    const seen = await reader.browser.get(`${path}?rid=nonsense`);
    assert.equal(seen.status, 422);
    assert.match(seen.text, /Give a request id such as/);
  });

  it("is fifty calls a page, none of them twice and none left out", async () => {
    const { usage } = world.neighbours;
    for (let index = 0; index < 101; index += 1) usage.bookCall("acme", atMs + 2_000 + index);
    const found: string[] = [];
    const sizes: number[] = [];
    let next: string | undefined = path;
    while (next !== undefined) {
      const { text } = await reader.browser.get(next);
      sizes.push(ridsOf(text).length);
      found.push(...ridsOf(text));
      next = /<a rel="next" href="([^"]+)"/.exec(text)?.[1]?.replaceAll("&#38;", "&").replaceAll("&#61;", "=");
    }
    assert.deepEqual(sizes, [50, 50, 3]);
    assert.equal(new Set(found).size, 103);
    const second = /<a rel="next" href="([^"]+)"/.exec(await open("?result=whole"))?.[1]?.replaceAll("&#38;", "&");
    const { text } = await reader.browser.get((second ?? "").replaceAll("&#61;", "="));
    assert.deepEqual(ridsOf(text).length, 50, "a filtered page leads to the next");
  });
});
