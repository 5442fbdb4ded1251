import assert from "node:assert/strict";
import { after, afterEach, before, describe, it, test } from "node:test";
import pg from "pg";
import { v7 } from "uuid";
import { LimitPeriod, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { until } from "#shared/testing/until.ts";
import { hashOf, startAppWorld, type AppEnvironment, type Payer, type Replica } from "./testing/app-world.ts";
import type { RelayLine } from "./testing/relay-line.ts";

let world: AppEnvironment;
let second: Replica;
let line: RelayLine;
before(async () => {
  world = await startAppWorld();
  second = await world.startReplica();
  line = second.openLine("relay_budgets");
});
after(async () => {
  line[Symbol.dispose]();
  await second[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});
afterEach(() => (world.billing.isDown = false));

async function reserve({ keyHash }: Payer, estimateNanos: bigint): Promise<Verdict> {
  const [answer] = await line.send([
    { case: "reserve", value: { rid: v7(), keyHash, ip: "", model: "m", estimateNanos } },
  ]);
  return answer?.verdict ?? Verdict.UNSPECIFIED;
}

/** Makes a key whose limit is used up but for the rest. */
async function payerWith(limitNanos: bigint, limitPeriod: LimitPeriod): Promise<Payer> {
  const payer = await world.createPayer(1_000_000n, { limitNanos, limitPeriod });
  assert.equal(await reserve(payer, limitNanos), Verdict.OK);
  assert.equal(await reserve(payer, 1n), Verdict.KEY_LIMIT);
  return payer;
}

/** What billing has booked of the key, all of which has left Redis by then. */
async function book({ keyId }: Payer, spentNanos: bigint): Promise<void> {
  world.billing.spending.set(keyId, { nanos: spentNanos, version: 7n });
}

/** Lets the period be over, as the calendar does. */
async function endPeriod({ accountId, keyId }: Payer): Promise<void> {
  const client = new pg.Client({ connectionString: world.ownerUrl });
  await client.connect();
  for (const [table, id] of [
    ["key", keyId],
    ["account", accountId],
  ] as const) {
    const earlier = `update auth_quota.${table} set budget_from = budget_from - interval '1 second'`;
    await client.query(`${earlier} where ${table}_id = $1`, [id]);
  }
  await client.end();
}

const keyOf = async ({ keyId }: Payer) => (await world.first.admin.getKeys({ keyIds: [keyId] })).keys[0];

for (const name of ["DAY", "WEEK", "MONTH"] as const) {
  const limitPeriod = LimitPeriod[name];
  test(`a limit for each ${name} begins anew when that is over, once, and not before`, async () => {
    const payer = await payerWith(100n, limitPeriod);
    await book(payer, 30n);
    await endPeriod(payer);
    await until("the next period has begun", async () => (await keyOf(payer))?.spentBeforeNanos === 30n);
    await until("it is enforced", async () => (await reserve(payer, 30n)) === Verdict.OK);
    assert.equal(await reserve(payer, 1n), Verdict.KEY_LIMIT, "100 are held of 130 by the call before, 30 by this one");
    await book(payer, 60n);
    const { limitNanos, limitPeriod: kept, spentBeforeNanos } = (await keyOf(payer)) ?? {};
    assert.deepEqual([limitNanos, kept, spentBeforeNanos], [100n, limitPeriod, 30n]);
  });
}

test("while billing is away the old limit stays, and the period begins when it is back", async () => {
  const payer = await payerWith(100n, LimitPeriod.DAY);
  await book(payer, 100n);
  world.billing.isDown = true;
  await endPeriod(payer);
  const asked = world.billing.calls;
  await until("billing was asked", () => world.billing.calls > asked + 1);
  assert.equal(await reserve(payer, 1n), Verdict.KEY_LIMIT);
  world.billing.isDown = false;
  await until("the period has begun", async () => (await reserve(payer, 100n)) === Verdict.OK);
});

test("another amount counts what the period has spent already", async () => {
  const payer = await payerWith(100n, LimitPeriod.MONTH);
  await world.first.admin.updateKey({ keyId: payer.keyId, limitNanos: 150n });
  assert.equal(await reserve(payer, 50n), Verdict.OK);
  assert.equal(await reserve(payer, 1n), Verdict.KEY_LIMIT);
  const { key } = await world.first.admin.updateKey({ keyId: payer.keyId, limitNanos: 10n });
  assert.deepEqual([key?.limitNanos, key?.limitPeriod, key?.spentBeforeNanos], [10n, LimitPeriod.MONTH, 0n]);
  assert.equal(await reserve(payer, 1n), Verdict.KEY_LIMIT);
});

test("another period begins at once, above what was spent; without one all counts again", async () => {
  const payer = await payerWith(100n, LimitPeriod.NEVER);
  await book(payer, 100n);
  const update = async (fields: object) => (await world.first.admin.updateKey({ keyId: payer.keyId, ...fields })).key;
  const daily = await update({ limitNanos: 20n, limitPeriod: LimitPeriod.DAY });
  assert.deepEqual([daily?.limitNanos, daily?.limitPeriod, daily?.spentBeforeNanos], [20n, LimitPeriod.DAY, 100n]);
  assert.equal(await reserve(payer, 20n), Verdict.OK);
  assert.equal(await reserve(payer, 1n), Verdict.KEY_LIMIT);
  const renamed = await update({ name: "renamed" });
  assert.deepEqual(
    [renamed?.limitNanos, renamed?.limitPeriod, renamed?.spentBeforeNanos],
    [20n, LimitPeriod.DAY, 100n],
  );
  const total = await update({ limitNanos: 115n, limitPeriod: LimitPeriod.NEVER });
  assert.deepEqual([total?.limitNanos, total?.limitPeriod, total?.spentBeforeNanos], [115n, 0, 0n]);
  assert.equal(await reserve(payer, 1n), Verdict.KEY_LIMIT);
  const free = await update({ clearLimit: true });
  assert.deepEqual([free?.limitNanos, free?.limitPeriod], [undefined, 0]);
  assert.equal(await reserve(payer, 1_000n), Verdict.OK);
});

describe("a budget of an account", () => {
  const accountOf = async ({ accountId }: Payer) =>
    (await world.first.admin.getAccounts({ accountIds: [accountId] })).accounts[0];
  const update = async ({ accountId }: Payer, fields: object) => {
    const { account } = await world.first.admin.updateAccount({ accountId, ...fields });
    return [account?.limitNanos, account?.limitPeriod, account?.spentBeforeNanos];
  };
  /** What billing has booked of the account. */
  const bookAll = ({ accountId }: Payer, spentNanos: bigint, version: bigint): void =>
    void world.billing.balances.set(accountId, { nanos: 1_000_000n - spentNanos, spentNanos, version });

  for (const name of ["DAY", "WEEK", "MONTH"] as const) {
    it(`begins anew with each ${name}, for all keys together, once`, async () => {
      const payer = await world.createPayer(1_000_000n);
      const { secret } = await world.first.admin.createKey({ accountId: payer.accountId, name: "another" });
      const another = { ...payer, keyHash: hashOf(secret) };
      assert.deepEqual(await update(payer, { limitNanos: 100n, limitPeriod: LimitPeriod[name] }), [
        100n,
        LimitPeriod[name],
        0n,
      ]);
      assert.equal(await reserve(payer, 60n), Verdict.OK);
      assert.equal(await reserve(another, 41n), Verdict.BALANCE);
      assert.equal(await reserve(another, 40n), Verdict.OK);
      bookAll(payer, 30n, 7n);
      await endPeriod(payer);
      await until("the next period has begun", async () => (await accountOf(payer))?.spentBeforeNanos === 30n);
      await until("it is enforced", async () => (await reserve(another, 30n)) === Verdict.OK);
      assert.equal(await reserve(payer, 1n), Verdict.BALANCE, "130 are held of 130");
      bookAll(payer, 60n, 8n);
      assert.equal((await accountOf(payer))?.spentBeforeNanos, 30n);
    });
  }

  it("keeps its old limit while billing is away, or does not tell what was spent", async () => {
    const payer = await world.createPayer(1_000_000n);
    await update(payer, { limitNanos: 100n, limitPeriod: LimitPeriod.DAY });
    assert.equal(await reserve(payer, 100n), Verdict.OK);
    bookAll(payer, 100n, 7n);
    world.billing.isDown = true;
    await endPeriod(payer);
    const asked = world.billing.calls;
    await until("billing was asked", () => world.billing.calls > asked + 1);
    assert.equal(await reserve(payer, 1n), Verdict.BALANCE);
    world.billing.isDown = false;
    await until("the period has begun", async () => (await reserve(payer, 100n)) === Verdict.OK);
  });

  it("counts what the period has spent when its amount changes, begins at once with another period, and ends", async () => {
    const payer = await world.createPayer(1_000_000n);
    bookAll(payer, 500n, 2n);
    const month = LimitPeriod.MONTH;
    assert.deepEqual(await update(payer, { limitNanos: 100n, limitPeriod: month }), [100n, month, 500n]);
    assert.equal(await reserve(payer, 100n), Verdict.OK);
    assert.deepEqual(await update(payer, { limitNanos: 150n }), [150n, month, 500n]);
    assert.equal(await reserve(payer, 51n), Verdict.BALANCE);
    assert.deepEqual(await update(payer, { name: "renamed" }), [150n, month, 500n]);
    assert.deepEqual(await update(payer, { limitNanos: 700n, limitPeriod: LimitPeriod.NEVER }), [700n, 0, 0n]);
    assert.equal(await reserve(payer, 101n), Verdict.BALANCE, "200 are left of 700, 100 are held");
    assert.deepEqual(await update(payer, { clearLimit: true }), [undefined, 0, 0n]);
    assert.equal(await reserve(payer, 1_000n), Verdict.OK);
  });

  it("needs an amount", async () => {
    const { accountId } = await world.createPayer(1_000n);
    const invalid = { code: "invalid_argument", message: /^limit_period needs limit_nanos/ };
    await assert.rejects(world.first.admin.updateAccount({ accountId, limitPeriod: LimitPeriod.DAY }), invalid);
    const both = world.first.admin.updateAccount({ accountId, limitNanos: 1n, clearLimit: true });
    await assert.rejects(both, { code: "invalid_argument", message: /exclude each other/ });
  });
});

test("a period needs an amount", async () => {
  const payer = await world.createPayer(1_000n);
  const invalid = { code: "invalid_argument", message: /^limit_period needs limit_nanos/ };
  const { admin } = world.first;
  await assert.rejects(admin.updateKey({ keyId: payer.keyId, limitPeriod: LimitPeriod.DAY }), invalid);
  const { accountId } = payer;
  await assert.rejects(admin.createKey({ accountId, name: "k", limitPeriod: LimitPeriod.DAY }), invalid);
  const unknown = { keyId: payer.keyId, limitNanos: 1n, limitPeriod: 9 as LimitPeriod };
  await assert.rejects(admin.updateKey(unknown), { code: "invalid_argument", message: /^limit_period is unknown/ });
});
