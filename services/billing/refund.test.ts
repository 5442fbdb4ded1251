import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import pg from "pg";
import { Registry } from "prom-client";
import { create } from "@bufbuild/protobuf";
import { LineKind, RefundRequestSchema } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createLog } from "#shared/process/log.ts";
import { v7 } from "uuid";
import { createRid } from "#shared/money/rid.ts";
import { createPool } from "#shared/stores/postgres.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { refund } from "./handlers/book-by-hand.ts";
import { createMetrics } from "./metrics.ts";
import { readByHandSums } from "./store/lines.ts";
import { createBalancePusher } from "./intake/push-balances.ts";
import { serveApp, startApp as startAppOn } from "./testing/app.ts";
import { bookingOn } from "./testing/billing.ts";
import { findImbalance, readLedger, startLedger } from "./testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const startApp = () => startAppOn(server.postgres);

const asked = (rid: string, refundId = "ref_1") => ({ accountId: "acct_test", rid, refundId, reason: "broken answer" });

test("Refund gives a part of a charge back, then with 0 all that is left, and then nothing more", async () => {
  await using app = await startApp();
  const rid = createRid();
  await app.book({ rid }, {});
  const part = await app.billing.refund({ ...asked(rid), amountNanos: 150n });
  assert.deepEqual(
    [part.line?.kind, part.line?.amountNanos, part.line?.rid, part.line?.reference, part.line?.note, part.balanceNanos],
    [LineKind.REFUND, 150n, rid, "ref_1", "broken answer", -650n],
  );
  await assert.rejects(app.billing.refund({ ...asked(rid, "ref_2"), amountNanos: 251n }), {
    code: "failed_precondition",
    message: /^more than what is left to refund: the call was charged 0.000000400 USD, of which 0.000000150 USD/,
  });
  const rest = await app.billing.refund(asked(rid, "ref_2"));
  assert.deepEqual([rest.line?.amountNanos, rest.balanceNanos], [250n, -400n]);
  for (const amountNanos of [0n, 1n]) {
    await assert.rejects(app.billing.refund({ ...asked(rid, "ref_3"), amountNanos }), {
      code: "failed_precondition",
      message: /^nothing is left to refund/,
    });
  }
  const { creditedNanos, chargedNanos, version } = await app.billing.getBalance({ accountId: "acct_test" });
  assert.deepEqual([creditedNanos, chargedNanos, version], [0n, 800n, 3n]);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("what needs lines of a day that is detached is refused, and nothing is booked on that day again", async () => {
  await using app = await startApp();
  const { ownerUrl } = app.ledger;
  const calledMs = Date.now() - 50 * 86_400_000;
  const event = { rid: v7({ msecs: calledMs }) };
  await app.book(event);
  await app.billing.credit({ accountId: "acct_test", amountNanos: 5n, paymentId: "paid" });
  const [called, paid] = [calledMs, Date.now()].map((atMs) => new Date(atMs).toISOString().slice(0, 10));
  for (const day of [called, paid]) {
    await query(ownerUrl, `INSERT INTO billing.closed_day (day) VALUES ('${day}')`);
    const partition = `billing.ledger_line_${day?.replaceAll("-", "_")}`;
    await query(ownerUrl, `ALTER TABLE billing.ledger_line DETACH PARTITION ${partition}; DROP TABLE ${partition}`);
  }
  const refused = (day = "") => ({
    code: "failed_precondition",
    message: new RegExp(`the lines of ${day} are not in the ledger any more: .* restore-day ${day}`),
  });
  await assert.rejects(app.billing.refund(asked(event.rid)), refused(called));
  const again = { accountId: "acct_test", amountNanos: 5n, paymentId: "paid" };
  await assert.rejects(app.billing.credit(again), refused(paid));
  // The process that has booked it takes the partition for there; what it is given again finds out.
  await assert.rejects(app.book(event), /no partition of relation/);
  await app.book(event);
  const { balances, quarantine } = await readLedger(ownerUrl);
  assert.equal(balances["acct_test"]?.balance, "-395");
  assert.deepEqual(quarantine, [`day_out_of_range: the ledger takes no lines on ${called}`]);
});

test("a charge says when the key was charged last, a refund does not", async () => {
  await using app = await startApp();
  const rid = createRid();
  const chargedAtMs = async () => {
    const { keys } = await app.billing.getFunds({ keyIds: ["key_test", "key_none"] });
    return keys.map(({ chargedAt }) => chargedAt && timestampMs(chargedAt));
  };
  const startMs = Date.now();
  await app.book({ rid });
  const [first = 0, none] = await chargedAtMs();
  assert.ok(first >= startMs && first <= Date.now());
  assert.equal(none, undefined);
  await app.billing.refund(asked(rid));
  assert.deepEqual(await chargedAtMs(), [first, undefined]);
  await app.book({});
  const [second = 0] = await chargedAtMs();
  assert.ok(second > first);
});

test("Refund lowers what key and account have spent, with a version that grows, and tells auth-quota both sums", async () => {
  await using app = await startApp();
  const rid = createRid();
  await app.book({ rid });
  await app.billing.refund({ ...asked(rid), amountNanos: 100n });
  const { keys, accounts } = await app.billing.getFunds({ keyIds: ["key_test"], accountIds: ["acct_test", "none"] });
  assert.deepEqual(
    accounts.map(({ spentNanos }) => spentNanos),
    [300n, 0n],
  );
  assert.deepEqual([keys[0]?.spentNanos, keys[0]?.version], [300n, 2n]);
  const [posting] = app.told;
  assert.deepEqual(
    posting?.accounts.map((row) => [row.accountId, row.balanceNanos, row.spentNanos, row.version]),
    [["acct_test", -300n, 300n, 2n]],
  );
  assert.deepEqual(
    posting?.keys.map((row) => [row.keyId, row.spentNanos, row.version]),
    [["key_test", 300n, 2n]],
  );
});

test("a key whose refund auth-quota was not told of is told again until it was, though it makes no calls", async () => {
  await using app = await startApp();
  const rid = createRid();
  await app.book({ rid });
  await app.billing.refund({ ...asked(rid), amountNanos: 100n });
  let isAway = true;
  const keys: [string, bigint][] = [];
  const pusher = createBalancePusher({
    authQuota: {
      post: async (request) => {
        if (isAway) throw new Error("away");
        for (const { keyId = "", spentNanos = 0n } of request.keys ?? []) keys.push([keyId, spentNanos]);
        return { $typeName: "authquota.v1.PostResponse", newer: [] };
      },
    },
    metrics: createMetrics(new Registry()),
    log: createLog("test", "silent"),
  });
  await pusher.repair(app.ledger.pool);
  isAway = false;
  await pusher.repair(app.ledger.pool);
  await pusher.repair(app.ledger.pool);
  assert.deepEqual(keys, [["key_test", 300n]]);
});

test("stolen: video-task's certificate: it refunds charges of videos, each once, and nothing else", async () => {
  await using app = await startApp();
  const [call, video] = [createRid(), createRid()];
  await app.book({ rid: call }, { rid: video, endpoint: "/v1/videos" });
  const deps = {
    ...bookingOn(app.ledger.pool),
    pusher: { push: () => Promise.resolve(true), repair: () => Promise.resolve() },
  };
  const byTask = (rid: string, refundId: string, amountNanos = 0n) =>
    refund(deps, create(RefundRequestSchema, { ...asked(rid, refundId), amountNanos }), ["video-task"]);
  await assert.rejects(byTask(call, `video:${call}`), {
    code: "failed_precondition",
    message: "this call is no video",
  });
  await assert.rejects(byTask(createRid(), `video:${createRid()}`), { code: "invalid_argument" });
  await assert.rejects(byTask(video, "another", 100n), { code: "invalid_argument" });
  await assert.rejects(byTask(video, `video:${video}`, 401n), { code: "failed_precondition" });
  const first = await byTask(video, `video:${video}`, 100n);
  assert.equal(first.line?.amountNanos, 100n);
  await assert.rejects(byTask(video, `video:${video}`, 200n), { code: "already_exists" });
  const left = await byTask(video, `video-lost:${video}`);
  assert.equal(left.line?.amountNanos, 300n, "its task was lost");
  await app.billing.refund(asked(call));
  assert.equal((await readLedger(app.ledger.ownerUrl)).lines.length, 5);
});

test("Refund is idempotent by refund_id: the same gives the earlier line, other content is already_exists", async () => {
  await using app = await startApp();
  const [rid, other] = [createRid(), createRid()];
  await app.book({ rid }, { rid: other });
  const first = await app.billing.refund(asked(rid));
  assert.equal(first.line?.amountNanos, 400n);
  const second = await app.billing.refund(asked(rid));
  assert.deepEqual(second.line, first.line);
  assert.equal(second.balanceNanos, -400n);
  assert.equal(app.told.length, 2, "what auth-quota may have missed is told again");
  for (const change of [{ amountNanos: 400n }, { rid: other }, { reason: "else" }, { accountId: "acct_2" }]) {
    await assert.rejects(app.billing.refund({ ...asked(rid), ...change }), { code: "already_exists" });
  }
  assert.equal((await readLedger(app.ledger.ownerUrl)).lines.length, 3);
});

test("refunds at the same time never give back more than the charge, whatever their ids", async () => {
  await using app = await startApp();
  const rid = createRid();
  await app.book({ rid });
  const holder = new pg.Client({ connectionString: app.ledger.ownerUrl });
  await holder.connect();
  await holder.query("BEGIN");
  await holder.query("SELECT FROM billing.account FOR UPDATE");
  const refunds = Array.from({ length: 6 }, (_, index) =>
    app.billing.refund({ ...asked(rid, `ref_${index % 5}`), amountNanos: 150n }),
  );
  const results = Promise.allSettled(refunds);
  // All of them have come as far as they get before the first one books.
  const waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
  await until("six wait", async () => (await query(app.ledger.ownerUrl, waiting)).rows.length === 6);
  await holder.query("COMMIT");
  await holder.end();
  const booked = (await results).flatMap((result) =>
    result.status === "fulfilled" ? [result.value.line?.lineId] : [],
  );
  assert.equal(new Set(booked).size, 2);
  for (const result of await results) {
    if (result.status === "rejected") assert.equal(result.reason.code, "failed_precondition");
  }
  const { lines, balances, spent } = await readLedger(app.ledger.ownerUrl);
  assert.equal(lines.filter(({ kind }) => kind === LineKind.REFUND).length, 2);
  assert.deepEqual([balances["acct_test"]?.balance, spent["key_test"]], ["-100", "100"]);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("20 refunds of one call at once, on two instances, give it back once, under one id or under many", async () => {
  await using app = await startApp();
  await using pool = createPool(app.ledger.url, "second", () => undefined);
  const pusher = { push: () => Promise.resolve(true), repair: () => Promise.resolve() };
  await using second = await serveApp(pool, pusher);
  for (const idOf of [() => "ref_same", (at: number) => `ref_${at}`]) {
    const rid = createRid();
    await app.book({ rid });
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? app : second).billing.refund(asked(rid, idOf(at)))),
    );
    const lines = results.flatMap((result) => (result.status === "fulfilled" ? [result.value.line?.lineId] : []));
    assert.equal(lines.length, idOf(0) === idOf(1) ? 20 : 1);
    assert.equal(new Set(lines).size, 1);
  }
  const { lines, balances } = await readLedger(app.ledger.ownerUrl);
  assert.equal(lines.filter(({ kind }) => kind === LineKind.REFUND).length, 2);
  assert.equal(balances["acct_test"]?.balance, "0");
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("refunds beside the booking of the call's final: never more than was charged at that moment", async () => {
  await using app = await startApp();
  const rids = Array.from({ length: 20 }, () => createRid());
  await app.book(...rids.map((rid) => ({ rid, kind: RecordKind.PROVISIONAL, outputTokens: 1n })));
  const refunds = rids.map((rid, index) => app.billing.refund(asked(rid, `ref_${index}`)));
  const [lines] = await Promise.all([Promise.all(refunds), app.book(...rids.map((rid) => ({ rid })))]);
  for (const { line } of lines) assert.ok(line?.amountNanos === 210n || line?.amountNanos === 400n);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("a final after a refund of the provisional charge adds its difference, which can be refunded in turn", async () => {
  await using app = await startApp();
  const rid = createRid();
  await app.book({ rid, kind: RecordKind.PROVISIONAL, outputTokens: 1n });
  assert.equal((await app.billing.refund(asked(rid))).line?.amountNanos, 210n);
  await app.book({ rid });
  assert.equal((await app.billing.getBalance({ accountId: "acct_test" })).balanceNanos, -190n);
  assert.equal((await app.billing.refund(asked(rid, "ref_2"))).line?.amountNanos, 190n);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("what was never charged is not refunded: an unknown call, another account's, a call for nothing", async () => {
  await using app = await startApp();
  const [theirs, free] = [createRid(), createRid()];
  await app.book({ rid: theirs, accountId: "acct_2", keyId: "key_2" });
  await app.book({ rid: free, usage: {}, unitPriceNanos: {}, costNanos: 0n });
  const never = { code: "failed_precondition", message: /^this account was not charged for a call with this rid/ };
  await assert.rejects(app.billing.refund(asked(createRid())), never);
  await assert.rejects(app.billing.refund(asked(theirs)), never);
  const nothing = {
    code: "failed_precondition",
    message: /^nothing is left to refund: the call was charged 0.000000000/,
  };
  await assert.rejects(app.billing.refund(asked(free)), nothing);
  // A correction about a call is no charge of it.
  const rid = createRid();
  await app.billing.correct({ accountId: "acct_test", amountNanos: -5n, correctionId: "c", reason: "r", rid });
  await assert.rejects(app.billing.refund(asked(rid)), never);
  assert.equal((await readLedger(app.ledger.ownerUrl)).lines.filter(({ kind }) => kind === 6).length, 0);
});

test("a refund does not pass for the correction that settles a quarantined call", async () => {
  await using app = await startApp();
  const rid = createRid();
  await app.book({ rid });
  await app.billing.refund(asked(rid));
  assert.deepEqual(await readByHandSums(app.ledger.pool, [rid]), new Map());
});

test("refunds that make no sense are refused in words that name the field", async () => {
  await using app = await startApp();
  const refund = asked(createRid());
  const refused: [object, RegExp][] = [
    [{ accountId: "" }, /^account_id must be/],
    [{ amountNanos: -1n }, /^amount_nanos must not be negative/],
    [{ rid: "" }, /^rid must be a UUIDv7/],
    [{ refundId: "" }, /^refund_id must have 1 to 200/],
    [{ reason: "" }, /^reason must have 1 to 500/],
  ];
  for (const [change, message] of refused) {
    await assert.rejects(app.billing.refund({ ...refund, ...change }), { code: "invalid_argument", message });
  }
});
