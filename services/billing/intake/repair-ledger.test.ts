import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { after, before, beforeEach, test } from "node:test";
import { promisify } from "node:util";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { createRid } from "#shared/money/rid.ts";
import { createPool, type Pool } from "#shared/stores/postgres.ts";
import { fundsStream, fundsSubject, usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { query } from "#shared/testing/postgres.ts";
import { type Databases, sharePostgres } from "#shared/testing/share.ts";
import { until } from "#shared/testing/until.ts";
import { serveApp, type ServedApp } from "../testing/app.ts";
import { serveAuthQuotaStub, type AuthQuotaStub } from "../testing/auth-quota-stub.ts";
import { startBilling, valueOf } from "../testing/billing.ts";
import { encodeBatch, encodeEvent, makeEvent, type EventFields } from "../testing/events.ts";
import { countLines, createLedger, findImbalance, readLedger, type TestLedger } from "../testing/ledger.ts";
import { startNats, type TestNats } from "../testing/nats.ts";
import { consumerName } from "./stream.ts";

const run = promisify(execFile);
const resources = new AsyncDisposableStack();
let postgres: Databases;
let nats: TestNats;
let stub: AuthQuotaStub;
let connection: NatsConnection;

const endSessions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()`;

before(async () => {
  postgres = resources.use(await sharePostgres());
  nats = resources.use(await startNats());
  stub = resources.use(await serveAuthQuotaStub());
  connection = await nats.connect();
  resources.defer(() => connection.close());
});
beforeEach(() => stub.forget());
after(() => resources.disposeAsync());

const billingOn = (pool: Pool) => startBilling({ pool, natsUrl: nats.url, authQuotaAddress: stub.address });

const publish = async (...events: EventFields[]): Promise<void> => {
  const payload = encodeBatch(events.map((event) => encodeEvent(makeEvent(event))));
  await until("the stream takes it", () => jetstream(connection).publish(usageSubject, payload), 20_000);
};

/** A ledger that has booked three calls, and three more behind a copy of it. */
async function startBehind(copy: (ledger: TestLedger) => Promise<string>): Promise<{ ownerUrl: string; pool: Pool }> {
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => false);
  stub.posts.length = 0;
  const ledger = await createLedger(postgres);
  const book = async (lines: number): Promise<void> => {
    await using _billing = billingOn(ledger.pool);
    await publish({}, {}, { accountId: "acct_other", keyId: "key_other" });
    await until(`${lines} lines`, async () => (await countLines(ledger.ownerUrl)) === lines);
    await until("all are acknowledged", async () => {
      const { ack_floor: floor, num_pending: pending } = await manager.consumers.info(usageStream, consumerName);
      return pending === 0 && floor.stream_seq === (await manager.streams.info(usageStream)).state.last_seq;
    });
  };
  await book(3);
  await query(ledger.ownerUrl, endSessions);
  const ownerUrl = await copy(ledger);
  await book(6);
  await ledger[Symbol.asyncDispose]();
  const url = new URL(ownerUrl);
  url.username = "billing_test";
  url.password = "billing_test";
  return { ownerUrl, pool: createPool(url.href, "test", () => undefined) };
}

/** As a disk that is put back: every identity is the one it was. */
async function copyDisk({ ownerUrl }: TestLedger): Promise<string> {
  const name = new URL(ownerUrl).pathname.slice(1);
  const copied = new URL(ownerUrl);
  copied.pathname = `/${name}_copy`;
  const maintenance = new URL(ownerUrl);
  maintenance.pathname = "/postgres";
  await until("nobody is connected", () =>
    query(maintenance.href, `CREATE DATABASE ${name}_copy TEMPLATE ${name}`).then(() => true),
  );
  return copied.href;
}

/** As a backup that pg_dump has made, loaded into an empty database. */
async function copyDump({ ownerUrl }: TestLedger): Promise<string> {
  const copied = await postgres.createDatabase();
  await run("sh", ["-c", 'pg_dump -Fc "$0" | pg_restore -d "$1"', ownerUrl, copied]);
  return copied;
}

const balanceOf = async (ownerUrl: string) => (await readLedger(ownerUrl)).balances["acct_test"]?.balance;
const lastVersion = (accountId: string): bigint =>
  stub.posts
    .flatMap(({ accounts }) => accounts)
    .reduce(
      (highest, account) => (account.accountId === accountId && account.version > highest ? account.version : highest),
      0n,
    );

for (const [what, copy] of [
  ["an older disk", copyDisk],
  ["a dump", copyDump],
] as const) {
  test(`a ledger restored from ${what} books again what it has lost, and auth-quota takes its balances`, async () => {
    const { ownerUrl, pool } = await startBehind(copy);
    await using _pool = { [Symbol.asyncDispose]: () => pool.end() };
    const before = lastVersion("acct_test");
    assert.equal(await countLines(ownerUrl), 3);
    await using billing = billingOn(pool);
    await until("it reads the stream", async () => {
      await billing.repairPass();
      return (await countLines(ownerUrl)) === 6;
    });
    assert.deepEqual(await findImbalance(ownerUrl), []);
    assert.equal(await balanceOf(ownerUrl), "-1600");
    assert.ok(lastVersion("acct_test") > before + 2n ** 32n - 10n, "of an epoch behind all that were given out");
    assert.equal(stub.balanceOf("acct_test"), -1_600n);
    assert.equal(await valueOf(billing.metrics.ledgerEpoch), 2);
    assert.equal(await valueOf(billing.metrics.ledgerRebooked), 3);
    const { rows } = await query(ownerUrl, "SELECT healed_at IS NOT NULL AS healed FROM billing.ledger_epoch");
    assert.deepEqual(rows, [{ healed: true }, { healed: true }]);
    await billing.repairPass();
    assert.equal(await valueOf(billing.metrics.ledgerEpoch), 2);
  });

  test(`${what}: the first batch that comes to it finds the loss, and is booked in the new epoch`, async () => {
    const { ownerUrl, pool } = await startBehind(copy);
    await using _pool = { [Symbol.asyncDispose]: () => pool.end() };
    await using billing = billingOn(pool);
    await publish({ accountId: "acct_new", keyId: "key_new" });
    await until("the batch is booked", async () => (await countLines(ownerUrl)) === 4);
    assert.ok(lastVersion("acct_new") > 2n ** 32n);
    await billing.repairPass();
    assert.equal(await countLines(ownerUrl), 7);
    assert.deepEqual(await findImbalance(ownerUrl), []);
  });
}

test("a disk that is put back with the stream's is found by a balance that auth-quota knows newer", async () => {
  const { ownerUrl, pool } = await startBehind(copyDisk);
  await using _pool = { [Symbol.asyncDispose]: () => pool.end() };
  // Nothing on the stream, and no process, tells that more was booked.
  await (await jetstreamManager(connection)).streams.delete(usageStream);
  await using billing = billingOn(pool);
  await publish({});
  await until("it is booked", async () => (await countLines(ownerUrl)) === 4);
  assert.equal(stub.balanceOf("acct_test"), -1_600n, "what nobody has any more, with a newer version");
  await until("a new epoch has told what the ledger has", async () => {
    await billing.repairPass();
    return stub.balanceOf("acct_test") === -1_200n;
  });
  assert.equal(stub.balanceOf("acct_other"), -400n);
  await billing.repairPass();
  assert.equal(await valueOf(billing.metrics.ledgerEpoch), 2);
  assert.deepEqual(await findImbalance(ownerUrl), []);
});

test("a ledger that has lost nothing keeps its epoch, also when its billing starts again", async () => {
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => false);
  await using ledger = await createLedger(postgres);
  for (const lines of [1, 2, 3]) {
    await using billing = billingOn(ledger.pool);
    await publish({});
    await until("it is booked", async () => (await countLines(ledger.ownerUrl)) === lines);
    await billing.repairPass();
    assert.equal(await valueOf(billing.metrics.ledgerEpoch), 1);
  }
});

test("an account of which the ledger has lost every line is known to it again, with nothing on it", async () => {
  const { ownerUrl, pool } = await startBehind(copyDisk);
  await using _pool = { [Symbol.asyncDispose]: () => pool.end() };
  stub.accounts.push("acct_credited_after_the_backup");
  await using billing = billingOn(pool);
  await until("it is healed", async () => {
    await billing.repairPass();
    return (await countLines(ownerUrl)) === 6;
  });
  await billing.pusher.repair(pool);
  assert.equal(stub.balanceOf("acct_credited_after_the_backup"), 0n);
});

test("credits, corrections, refunds and vouchers that a backup lacks are booked again, once", async () => {
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => false);
  await manager.streams.delete(fundsStream).catch(() => false);
  const lost = await createLedger(postgres);
  const codeHash = hash("sha256", "a code", "buffer");
  const rid = createRid();
  const book = async (pool: Pool, work: (served: ServedApp) => Promise<void>): Promise<void> => {
    await using billing = billingOn(pool);
    await using served = await serveApp(pool, billing.pusher);
    await work(served);
    await until("all is on the stream", async () => {
      await billing.publishFunds();
      const { rows } = await pool.query("SELECT FROM billing.funds_outbox");
      return rows.length === 0 && (await manager.streams.info(fundsStream).then(() => true));
    });
  };
  await book(lost.pool, async ({ billing }) => {
    const vouchers = { batchId: "gifts", amountNanos: 70n, note: "", codeHashes: [codeHash] };
    await billing.createVouchers(vouchers);
    await billing.credit({ accountId: "acct_test", amountNanos: 1_000n, paymentId: "before" });
  });
  await query(lost.ownerUrl, endSessions);
  const ownerUrl = await copyDump(lost);
  await book(lost.pool, async ({ billing }) => {
    await publish({ rid });
    await until("the call is booked", async () => (await countLines(lost.ownerUrl)) === 2);
    await billing.credit({ accountId: "acct_test", amountNanos: 5_000n, paymentId: "behind" });
    await billing.correct({ accountId: "acct_test", amountNanos: -30n, correctionId: "c", reason: "by hand" });
    await billing.refund({ accountId: "acct_test", amountNanos: 0n, refundId: "r", reason: "sorry", rid });
    await billing.redeemVoucher({ accountId: "acct_test", codeHash });
  });
  const kept = await readLedger(lost.ownerUrl);
  await lost[Symbol.asyncDispose]();

  const url = new URL(ownerUrl);
  url.username = "billing_test";
  url.password = "billing_test";
  await using pool = createPool(url.href, "test", () => undefined);
  await using billing = billingOn(pool);
  await until("it is healed", async () => {
    await billing.repairPass();
    return (await countLines(ownerUrl)) === kept.lines.length;
  });
  const healed = await readLedger(ownerUrl);
  const figures = ({ balance, credited, charged }: Record<string, string>) => [balance, credited, charged];
  assert.deepEqual(figures(healed.balances["acct_test"] ?? {}), figures(kept.balances["acct_test"] ?? {}));
  assert.deepEqual(healed.spent, kept.spent);
  assert.deepEqual(await findImbalance(ownerUrl), []);
  await using served = await serveApp(pool, billing.pusher);
  await assert.rejects(served.billing.redeemVoucher({ accountId: "acct_other", codeHash }), /used up/);
  await served.billing.credit({ accountId: "acct_test", amountNanos: 5_000n, paymentId: "behind" });
  assert.equal(await countLines(ownerUrl), kept.lines.length, "a payment that is told again is the one it was");
});

test("a ledger from an older disk that has lost nothing but a credit books it again", async () => {
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => false);
  await manager.streams.delete(fundsStream).catch(() => false);
  const lost = await createLedger(postgres);
  const credit = async (pool: Pool, paymentId: string): Promise<void> => {
    await using billing = billingOn(pool);
    await using served = await serveApp(pool, billing.pusher);
    await served.billing.credit({ accountId: "acct_test", amountNanos: 5_000n, paymentId });
    await until("it is on the stream, and noted to be", async () => {
      await billing.publishFunds();
      await billing.repairPass();
      const { rows } = await pool.query("SELECT FROM billing.stream_progress WHERE stream LIKE 'LEDGER%'");
      return rows.length === 1;
    });
  };
  await credit(lost.pool, "before");
  await query(lost.ownerUrl, endSessions);
  const ownerUrl = await copyDisk(lost);
  await credit(lost.pool, "behind");
  await lost[Symbol.asyncDispose]();

  const url = Object.assign(new URL(ownerUrl), { username: "billing_test", password: "billing_test" });
  await using pool = createPool(url.href, "test", () => undefined);
  await using first = billingOn(pool);
  await using second = billingOn(pool);
  await until("it is booked again", async () => {
    await Promise.all([first.repairPass(), second.repairPass()]);
    return (await readLedger(ownerUrl)).balances["acct_test"]?.balance === "10000";
  });
  await Promise.all([first.repairPass(), second.repairPass()]);
  assert.equal(await valueOf(second.metrics.ledgerEpoch), 2, "once for both processes");
  assert.deepEqual(await findImbalance(ownerUrl), []);
});

test("what cannot be read on the stream of lines by hand keeps no ledger from being healed", async () => {
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => false);
  await manager.streams.delete(fundsStream).catch(() => false);
  const lost = await createLedger(postgres);
  const credit = async (pool: Pool, paymentId: string, messages: number): Promise<void> => {
    await using billing = billingOn(pool);
    await using served = await serveApp(pool, billing.pusher);
    await served.billing.credit({ accountId: "acct_test", amountNanos: 5_000n, paymentId });
    await until("it is on the stream", async () => {
      await billing.publishFunds();
      return (await pool.query("SELECT FROM billing.funds_outbox")).rowCount === 0;
    });
    // Without it nobody answers.
    await until("usage has a stream", () =>
      manager.streams.info(usageStream).then(
        () => true,
        () => false,
      ),
    );
    // Whoever may publish usage has this put there, by the subject that the server shall answer on.
    connection.publish(usageSubject, new Uint8Array(), { reply: fundsSubject });
    await until("all of it is noted to be there", async () => {
      await billing.repairPass();
      const { rows } = await pool.query(
        "SELECT max(booked_sequence)::int AS booked FROM billing.stream_progress WHERE stream LIKE 'LEDGER%'",
      );
      return rows[0]?.booked === messages;
    });
  };
  await credit(lost.pool, "before", 2);
  await query(lost.ownerUrl, endSessions);
  const ownerUrl = await copyDisk(lost);
  await credit(lost.pool, "behind", 4);
  await lost[Symbol.asyncDispose]();
  const url = Object.assign(new URL(ownerUrl), { username: "billing_test", password: "billing_test" });
  await using pool = createPool(url.href, "test", () => undefined);
  await using billing = billingOn(pool);
  await until("it is booked again", async () => {
    await billing.repairPass();
    return (await readLedger(ownerUrl)).balances["acct_test"]?.balance === "10000";
  });
});

test("nothing is taken off the stream of lines by hand, also from one that was declared without this", async () => {
  const manager = await jetstreamManager(connection);
  await using ledger = await createLedger(postgres);
  for (const isOld of [false, true]) {
    await manager.streams.delete(fundsStream).catch(() => false);
    if (isOld) await manager.streams.add({ name: fundsStream, subjects: [fundsSubject] });
    await using billing = billingOn(ledger.pool);
    await until("the stream is declared", async () => {
      await billing.publishFunds();
      return (await manager.streams.info(fundsStream)).config.deny_purge;
    });
    await jetstream(connection).publish(fundsSubject, "a line");
    await assert.rejects(manager.streams.purge(fundsStream), /purge not permitted/);
    await assert.rejects(manager.streams.deleteMessage(fundsStream, 1), /delete not permitted/);
    assert.equal((await manager.streams.info(fundsStream)).state.messages, 1);
  }
});

test("a restored ledger that lacks today gets the day again, and nothing goes to quarantine", async () => {
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => false);
  await using ledger = await createLedger(postgres);
  await using billing = billingOn(ledger.pool);
  await publish({});
  await until("it is booked", async () => (await countLines(ledger.ownerUrl)) === 1);
  const { rows } = await query(
    ledger.ownerUrl,
    "SELECT inhrelid::regclass AS name FROM pg_inherits WHERE inhparent = 'billing.ledger_line'::regclass",
  );
  await query(ledger.ownerUrl, `DROP TABLE ${rows.map(({ name }) => name).join()}`);
  await publish({});
  await until("it is booked", async () => (await countLines(ledger.ownerUrl)) > 0);
  assert.equal((await query(ledger.ownerUrl, "SELECT FROM billing.usage_quarantine")).rowCount, 0);
  assert.deepEqual(billing.reasons(), []);
});

test("a line by hand waits for the stream when that is gone, and is on the next one", async () => {
  const manager = await jetstreamManager(connection);
  await using ledger = await createLedger(postgres);
  await using billing = billingOn(ledger.pool);
  await using served = await serveApp(ledger.pool, billing.pusher);
  await until("the stream is declared", async () => {
    await billing.publishFunds();
    return await manager.streams.info(fundsStream).then(() => true);
  });
  await manager.streams.delete(fundsStream);
  await served.billing.credit({ accountId: "acct_test", amountNanos: 1_000n, paymentId: "meanwhile" });
  await until("it is on a new stream", async () => {
    await billing.publishFunds();
    return (await manager.streams.info(fundsStream)).state.messages === 1;
  });
});

test("a repair that fails is tried again at once", async () => {
  const { ownerUrl, pool } = await startBehind(copyDisk);
  await using _pool = { [Symbol.asyncDispose]: () => pool.end() };
  await using billing = billingOn(pool);
  stub.onListAccounts = () => Promise.reject(new Error("away"));
  try {
    await until("it is tried", () =>
      billing.repairPass().then(
        () => false,
        () => true,
      ),
    );
  } finally {
    stub.onListAccounts = () => Promise.resolve();
  }
  const isHealed = async (): Promise<boolean> => {
    await billing.repairPass();
    return (await query(ownerUrl, "SELECT FROM billing.ledger_epoch WHERE healed_at IS NULL")).rowCount === 0;
  };
  // Far less than a dead process keeps it.
  await until("it is healed", isHealed, 20_000);
});
