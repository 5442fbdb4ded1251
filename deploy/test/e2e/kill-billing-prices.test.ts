import assert from "node:assert/strict";
import { join, dirname } from "node:path";
import { test } from "node:test";
import pg from "pg";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import type { Service } from "../../tools/local/service.ts";
import { assertBooksRight, killInMidLoad, readKillPlan, soundButBroken, startKillWorld } from "./kills.ts";
import { startLoad } from "./load.ts";
import { loadCatalogAt, pricesAt, type PriceVersion } from "./load-models.ts";
import { startSecondRelay } from "./second-relay.ts";
import type { World } from "./world.ts";

// Odd, so that no sum at one version is a sum at another.
const versionAt = (number: number): PriceVersion => ({ version: `v${number}`, times: BigInt(2 * number + 1) });

/** Applies the next version of the prices, and waits until the relay charges new calls by it. */
async function applyPrices({ authQuota, fake }: World, relay: Service, number: number): Promise<void> {
  const content = loadCatalogAt(fake.url, versionAt(number));
  const asked = { content, baseVersion: BigInt(number - 1), author: "ann@example.com", note: "" };
  const { version } = await authQuota.applyCatalog(asked);
  const { hash } = (await authQuota.getCatalog({ isApplied: true, version })).version ?? { hash: "none" };
  await until("the relay has taken the version", async () =>
    (await (await fetch(`${relay.opsUrl}/metrics`)).text()).includes(`relay_catalog_info{hash="${hash}"`),
  );
}

/** Lets no batch of billing end: each has written its price rows by then. */
async function holdBooking({ stack }: World) {
  const client = new pg.Client({ connectionString: stack.stores.urls.postgres });
  // Its server is killed.
  client.on("error", () => undefined);
  await client.connect();
  await client.query("BEGIN; LOCK TABLE billing.key_spending IN SHARE MODE");
  const waiting = "SELECT FROM pg_locks WHERE relation = 'billing.key_spending'::regclass AND NOT granted";
  return {
    untilHeld: () => until("a batch is held", async () => (await client.query(waiting)).rowCount === 1),
    [Symbol.asyncDispose]: () => client.end().catch(() => undefined),
  };
}

/** The price of a token of output in each version that billing knows, by model and version. */
async function readPriceRows({ stack }: World): Promise<Map<string, bigint>> {
  const { rows } = await query(
    stack.stores.urls.postgres,
    "SELECT model || '@' || version AS row, prices->>'output_tokens' AS price FROM billing.price_row",
  );
  return new Map(rows.map(({ row, price }) => [String(row), BigInt(String(price))]));
}

const name =
  "kill -9 of billing while prices are applied: each call is booked once at the version that it was admitted under";
test(name, async (t) => {
  const plan = readKillPlan(t);
  await using scenario = await startKillWorld();
  const { world, customers } = scenario;
  const { billing } = world.stack.services;
  const { postgres } = world.stack.stores.processes;
  assert.ok(postgres);
  await using relay = await startSecondRelay(world, join(dirname(world.stack.catalogFile), "prices-spool"), {
    CATALOG_SOURCE: "stored",
  });
  await applyPrices(world, relay, 1);
  await using load = startLoad({ url: relay.url, customers, callers: 16, seed: plan.seed });
  for (let kill = 1; kill <= plan.kills; kill += 1) {
    await killInMidLoad(t, billing, { ...plan, load });
    // Billing is away while the next version comes and is called, and begins with calls of both.
    await applyPrices(world, relay, kill + 1);
    await load.more(30);
    await billing.restart();
  }
  // The batch that names a version first is not committed, and billing, which has seen the version, lives on.
  const last = plan.kills + 2;
  await billing.kill();
  await applyPrices(world, relay, last);
  await load.more(30);
  await using booking = await holdBooking(world);
  await billing.restart();
  await booking.untilHeld();
  await postgres.kill();
  await postgres.restart();
  await load.more(30);
  await load.stop();

  const versions = Array.from({ length: last }, (_, index) => versionAt(index + 1));
  const versionPrices = Object.fromEntries(
    versions.flatMap((at) =>
      Object.entries(pricesAt(at)).map(([model, one]) => [`${model}@${at.version}`, one] as const),
    ),
  );
  const outcomes = { calls: load.calls, relays: [relay], versionPrices };
  const report = await assertBooksRight(t, scenario, outcomes);
  assert.ok(report.served > 0);
  assert.deepEqual(soundButBroken(load.calls), []);

  const known = await readPriceRows(world);
  const booked = new Set<string>();
  for (const { accountId } of customers) {
    for (const { usage } of await world.ledgerOf(accountId))
      booked.add(`${usage?.modelRequested}@${usage?.priceVersion}`);
  }
  for (const row of booked) assert.equal(known.get(row), versionPrices[row]?.outputTokens, `the price row of ${row}`);
  for (const { version } of versions)
    assert.ok(
      [...booked].some((row) => row.endsWith(`@${version}`)),
      version,
    );
});
