import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { formatUsd } from "#shared/money/money.ts";
import { until } from "#shared/testing/until.ts";
import { chat, makeCall } from "./ask.ts";
import { modelOn, prices, type CatalogSections } from "./catalog.ts";
import { costOf, unitsOf } from "./charge.ts";
import { startSecondRelay } from "./second-relay.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { authQuota, stack } = world;

const twice = { ...prices, inputTokens: prices.inputTokens * 2n, outputTokens: prices.outputTokens * 2n };

/** The file's catalog with `applied-model` at these prices. */
async function catalogAt(version: string, { inputTokens, outputTokens }: typeof prices | typeof twice) {
  const price = { version, input_tokens: formatUsd(inputTokens), output_tokens: formatUsd(outputTokens) };
  const { upstreams, models } = JSON.parse(await readFile(stack.catalogFile, "utf8")) as CatalogSections;
  return JSON.stringify({ upstreams, models: { ...models, "applied-model": modelOn("fake", { price }) } });
}

async function apply(content: string): Promise<bigint> {
  const baseVersion = (await authQuota.listCatalogs({})).applied[0]?.version ?? 0n;
  return (await authQuota.applyCatalog({ content, baseVersion, author: "e2e", note: "" })).version;
}

test("a call is charged by the version that it was admitted under, forward and back, streams under way too", async () => {
  const customer = await world.createCustomer();
  await using relay = await startSecondRelay(world, join(dirname(stack.catalogFile), "applied-spool"), {
    CATALOG_SOURCE: "stored",
  });
  const inForce = async (content: string): Promise<void> => {
    const version = await apply(content);
    const { hash } = (await authQuota.getCatalog({ isApplied: true, version })).version ?? { hash: "none" };
    await until("the relay has taken the version", async () =>
      (await (await fetch(`${relay.opsUrl}/metrics`)).text()).includes(`relay_catalog_info{hash="${hash}"`),
    );
  };
  const call = async (isStream = false, behaviour = {}) =>
    makeCall(relay.url, customer.secret, { side: chat, model: "applied-model", isStream, behaviour });
  const bookedAt = async (rid: string, version: string, at: typeof prices | typeof twice): Promise<void> => {
    const line = await world.untilBooked(customer.accountId, rid);
    assert.equal(line.usage.priceVersion, version);
    assert.equal(-line.amountNanos, costOf(unitsOf(line), at));
  };

  const before = await call();
  assert.match(before.text, /model_not_found/, `${before.text}: before any is applied the file's catalog is in force`);
  const [one, two] = [await catalogAt("one", prices), await catalogAt("two", twice)];
  await inForce(one);
  const first = await call();
  const slow = call(true, { gapMs: 700 });
  await until("the stream is under way", async () =>
    (await (await fetch(`${relay.opsUrl}/metrics`)).text()).includes('relay_live_calls{service="relay"} 1'),
  );
  await inForce(two);
  const second = await call();
  await inForce(one);
  const third = await call();

  // One that cannot be used here changes nothing, and is told.
  await apply(one.replace('"fake"', '"fake\\u0000"'));
  await until("it is refused", async () =>
    (await (await fetch(`${relay.opsUrl}/metrics`)).text()).includes('relay_catalog_refused{service="relay"} 1'),
  );
  const fourth = await call();

  for (const { status, text } of [first, second, third, fourth, await slow]) assert.equal(status, 200, text);
  await bookedAt(first.rid, "one", prices);
  await bookedAt((await slow).rid, "one", prices);
  await bookedAt(second.rid, "two", twice);
  await bookedAt(third.rid, "one", prices);
  await bookedAt(fourth.rid, "one", prices);
});
