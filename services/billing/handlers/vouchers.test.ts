import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { after, before, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { LineKind, RedeemVoucherRequestSchema, VoucherState } from "#proto/billing/v1/billing_pb.ts";
import type { ServiceError } from "#shared/process/errors.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { createPool, type Pool } from "#shared/stores/postgres.ts";
import { query } from "#shared/testing/postgres.ts";
import { redeemVoucher } from "./redeem-voucher.ts";
import { serveApp, startApp as startAppOn } from "../testing/app.ts";
import { bookingOn } from "../testing/billing.ts";
import { findImbalance, readLedger, startLedger } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const pusher = { push: () => Promise.resolve(true), repair: () => Promise.resolve() };
const codeHash = (code: string): Buffer => hash("sha256", code, "buffer");
const hashes = (prefix: string, count: number): Buffer[] =>
  Array.from({ length: count }, (_, index) => codeHash(`${prefix}${index + 1}`));

const usedUp = { code: "failed_precondition", message: "this voucher is used up" };
const expired = { code: "failed_precondition", message: "this voucher is expired" };
const unknown = { code: "not_found", message: "no voucher has this code" };

/** The calls with a clock that the test sets, and a batch of vouchers of 5,000 nano-USD each. */
async function startApp(vouchers = 1) {
  const time = { nowMs: Date.now() };
  const app = await startAppOn(server.postgres, { clock: { nowMs: () => time.nowMs } });
  const asked = { batchId: "spring", amountNanos: 5_000n, codeHashes: hashes("code", vouchers), note: "for the fair" };
  await app.billing.createVouchers(asked);
  const statesOf = async (batchId = "spring") =>
    (await app.billing.listVouchers({ batchId })).vouchers.map(({ state, accountId }) => [state, accountId] as const);
  return { ...app, time, asked, statesOf };
}

test("RedeemVoucher puts a voucher's money into an account that was not known, and tells auth-quota", async () => {
  await using app = await startApp(2);
  const request = { accountId: "acct_new", codeHash: codeHash("code2") };
  const { line, balanceNanos } = await app.billing.redeemVoucher(request);
  assert.deepEqual(
    [line?.kind, line?.amountNanos, line?.reference, line?.accountId, balanceNanos],
    [LineKind.CREDIT, 5_000n, "voucher:spring:2", "acct_new", 5_000n],
  );
  assert.deepEqual(
    app.told.flatMap(({ accounts }) => accounts.map((row) => [row.accountId, row.balanceNanos])),
    [["acct_new", 5_000n]],
  );
  const { OPEN, REDEEMED } = VoucherState;
  assert.deepEqual(await app.statesOf(), [
    [OPEN, ""],
    [REDEEMED, "acct_new"],
  ]);
  const { creditedNanos } = await app.billing.getBalance({ accountId: "acct_new" });
  assert.equal(creditedNanos, 5_000n);
});

test("a voucher is redeemed once: its account gets the same line again, at any time; others are refused", async () => {
  await using app = await startApp();
  const expiresAt = timestampFromMs(app.time.nowMs + 1_000);
  await app.billing.createVouchers({ batchId: "b", amountNanos: 7n, codeHashes: [codeHash("b")], expiresAt });
  const request = { accountId: "acct_test", codeHash: codeHash("b") };
  const first = await app.billing.redeemVoucher(request);
  app.time.nowMs += 1_000;
  assert.equal((await app.billing.redeemVoucher(request)).line?.lineId, first.line?.lineId);
  await app.billing.voidVouchers({ batchId: "b" });
  assert.equal((await app.billing.redeemVoucher(request)).line?.lineId, first.line?.lineId);
  await assert.rejects(app.billing.redeemVoucher({ ...request, accountId: "acct_2" }), usedUp);
  assert.equal((await readLedger(app.ledger.ownerUrl)).lines.length, 1);
});

test("a code that is unknown or void is not found, an expired one is refused; no account comes of it", async () => {
  await using app = await startApp();
  const { billing, time } = app;
  const expiresAt = timestampFromMs(time.nowMs + 1_000);
  await billing.createVouchers({ batchId: "b", amountNanos: 7n, codeHashes: hashes("b", 2), expiresAt });
  const redeem = (code: string) => billing.redeemVoucher({ accountId: "acct_test", codeHash: codeHash(code) });
  await assert.rejects(redeem("code7"), unknown);
  await billing.voidVouchers({ batchId: "spring" });
  await assert.rejects(redeem("code1"), unknown);
  time.nowMs += 1_000;
  await assert.rejects(redeem("b1"), expired);
  const { lines, balances } = await readLedger(app.ledger.ownerUrl);
  assert.deepEqual([lines, balances], [[], {}]);
  time.nowMs -= 1;
  assert.equal((await redeem("b1")).balanceNanos, 7n);
});

test("a voucher that an account has no room for stays open", async () => {
  await using app = await startApp();
  await app.billing.credit({ accountId: "full", amountNanos: maxAccountNanos, paymentId: "p" });
  const request = { accountId: "full", codeHash: codeHash("code1") };
  await assert.rejects(app.billing.redeemVoucher(request), { code: "failed_precondition", message: /leave the range/ });
  assert.deepEqual(await app.statesOf(), [[VoucherState.OPEN, ""]]);
  await app.billing.redeemVoucher({ ...request, accountId: "acct_test" });
});

test("of many redeemers from many accounts on two instances at once, one account wins, with one line", async () => {
  const vouchers = 5;
  await using app = await startApp(vouchers);
  await using pool = createPool(app.ledger.url, "second", () => undefined);
  await using second = await serveApp(pool, pusher);
  const accounts = Array.from({ length: 8 }, (_, index) => `acct_${index}`);
  for (const code of hashes("code", vouchers)) {
    const tries = [...accounts, ...accounts, ...accounts].map((accountId, index) => ({ accountId, index }));
    const results = await Promise.allSettled(
      tries.map(({ accountId, index }) =>
        (index % 2 === 0 ? app : second).billing.redeemVoucher({ accountId, codeHash: code }),
      ),
    );
    const lines = results.flatMap((result) => (result.status === "fulfilled" ? [result.value.line] : []));
    assert.equal(lines.length, 3, "each try of the winner");
    assert.equal(new Set(lines.map((line) => line?.lineId)).size, 1);
    for (const result of results) {
      if (result.status === "rejected") assert.equal((result.reason as ServiceError).message, usedUp.message);
    }
  }
  const { lines, balances } = await readLedger(app.ledger.ownerUrl);
  assert.equal(lines.length, vouchers);
  const total = Object.values(balances).reduce((sum, { balance }) => sum + BigInt(balance), 0n);
  assert.equal(total, BigInt(vouchers) * 5_000n);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
  const winners = lines.map(({ account }) => account).toSorted();
  assert.deepEqual((await app.statesOf()).map(([, account]) => account).toSorted(), winners);
});

test("what is redeemed and made void at once is one of the two, and its money is there or not", async () => {
  const vouchers = 12;
  await using app = await startApp(vouchers);
  const redeeming = hashes("code", vouchers).map((code, index) =>
    app.billing.redeemVoucher({ accountId: `acct_${index % 3}`, codeHash: code }),
  );
  const voiding = Promise.all([1, 2].map(() => app.billing.voidVouchers({ batchId: "spring" })));
  const results = await Promise.allSettled(redeeming);
  await voiding;
  const states = await app.statesOf();
  for (const [index, result] of results.entries()) {
    if (result.status === "rejected") assert.equal((result.reason as ServiceError).message, unknown.message);
    const expected = result.status === "fulfilled" ? VoucherState.REDEEMED : VoucherState.VOID;
    assert.equal(states[index]?.[0], expected);
  }
  const redeemed = results.filter(({ status }) => status === "fulfilled").length;
  assert.equal((await readLedger(app.ledger.ownerUrl)).lines.length, redeemed);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

/** A pool whose process dies before the statement of a transaction with this number, or right after its COMMIT. */
function dyingPool(pool: Pool, { statements, isAfterCommit = false }: { statements: number; isAfterCommit?: boolean }) {
  const connect = async () => {
    const client = await pool.connect();
    let left = statements;
    const run = async (text: string, values?: unknown[]) => {
      if (left === 0) throw new Error("killed");
      left -= 1;
      const result = await client.query(text, values);
      if (isAfterCommit && text === "COMMIT") throw new Error("killed");
      return result;
    };
    return { query: run, release: (failure: Error | boolean) => client.release(failure) };
  };
  return { query: pool.query.bind(pool), connect } as unknown as Pool;
}

test("killed before any statement of it, a redeeming leaves neither line nor used-up voucher", async () => {
  await using app = await startApp();
  const { pool, ownerUrl } = app.ledger;
  const request = create(RedeemVoucherRequestSchema, { accountId: "acct_test", codeHash: codeHash("code1") });
  const redeem = (dying: Pool) => redeemVoucher({ ...bookingOn(pool), pusher, pool: dying }, request);
  let statements = 0;
  for (; ; statements += 1) {
    const isDone = await redeem(dyingPool(pool, { statements })).then(
      () => true,
      () => false,
    );
    if (isDone) break;
    assert.equal((await readLedger(ownerUrl)).lines.length, 0, `killed before statement ${statements}`);
    assert.deepEqual(await app.statesOf(), [[VoucherState.OPEN, ""]]);
    assert.ok(statements < 30);
  }
  assert.ok(statements >= 9, "BEGIN, account and voucher locked, line, payment, balance, voucher, COMMIT");
  assert.equal((await readLedger(ownerUrl)).lines.length, 1);
  assert.deepEqual(await findImbalance(ownerUrl), []);
});

test("killed right after the commit, a redeeming is done: asked again, it tells the line", async () => {
  await using app = await startApp();
  const { pool, ownerUrl } = app.ledger;
  const request = create(RedeemVoucherRequestSchema, { accountId: "acct_test", codeHash: codeHash("code1") });
  const dying = dyingPool(pool, { statements: 30, isAfterCommit: true });
  await assert.rejects(redeemVoucher({ ...bookingOn(pool), pusher, pool: dying }, request), /killed/);
  const { balanceNanos } = await app.billing.redeemVoucher(request);
  assert.equal(balanceNanos, 5_000n);
  assert.equal((await readLedger(ownerUrl)).lines.length, 1);
});

test("CreateVouchers is idempotent by batch_id; other content, and a code of another batch, already exist", async () => {
  await using app = await startApp(3);
  const { billing, asked } = app;
  await billing.redeemVoucher({ accountId: "acct_test", codeHash: codeHash("code1") });
  const { batch } = await billing.createVouchers(asked);
  assert.deepEqual(
    [batch?.batchId, batch?.amountNanos, batch?.vouchers, batch?.redeemed, batch?.voided, batch?.note],
    ["spring", 5_000n, 3, 1, 0, "for the fair"],
  );
  const changes = [
    { amountNanos: 5_001n },
    { codeHashes: asked.codeHashes.slice(1) },
    { codeHashes: asked.codeHashes.toReversed() },
    { expiresAt: timestampFromMs(app.time.nowMs) },
    { note: "" },
  ];
  for (const change of changes) {
    const refused = { code: "already_exists", message: "the batch spring was made before with other content" };
    await assert.rejects(billing.createVouchers({ ...asked, ...change }), refused);
  }
  const codeHashes = [codeHash("new"), codeHash("code2")];
  const known = { code: "already_exists", message: "another batch has one of these codes" };
  await assert.rejects(billing.createVouchers({ ...asked, batchId: "autumn", codeHashes }), known);
  await assert.rejects(billing.listVouchers({ batchId: "autumn" }), { code: "not_found" });
  await assert.rejects(billing.redeemVoucher({ accountId: "a", codeHash: codeHash("new") }), unknown);
});

test("the same batch made many times at once is made once; batches with the same codes cannot both be made", async () => {
  await using app = await startApp();
  const codeHashes = hashes("many", 50);
  const same = { batchId: "same", amountNanos: 1n, codeHashes };
  const made = await Promise.all(Array.from({ length: 6 }, () => app.billing.createVouchers(same)));
  assert.ok(made.every(({ batch }) => batch?.vouchers === 50));
  const others = await Promise.allSettled(
    Array.from({ length: 6 }, (_, index) => {
      const ordered = index % 2 === 0 ? hashes("x", 50) : hashes("x", 50).toReversed();
      return app.billing.createVouchers({ batchId: `b${index}`, amountNanos: 1n, codeHashes: ordered });
    }),
  );
  assert.equal(others.filter(({ status }) => status === "fulfilled").length, 1);
  for (const result of others) {
    if (result.status === "rejected") assert.equal((result.reason as ServiceError).code, "already_exists");
  }
});

test("batches are listed newest first and by pages, with what has become of their vouchers", async () => {
  await using app = await startApp(3);
  const { billing, time } = app;
  const expiresAt = timestampFromMs(time.nowMs + 60_000);
  for (const batchId of ["z", "a", "m"]) {
    await billing.createVouchers({ batchId, amountNanos: 1n, codeHashes: hashes(batchId, 2), expiresAt });
  }
  await billing.redeemVoucher({ accountId: "acct_test", codeHash: codeHash("code3") });
  const { batch } = await billing.voidVouchers({ batchId: "spring" });
  assert.deepEqual([batch?.vouchers, batch?.redeemed, batch?.voided], [3, 1, 2]);
  assert.deepEqual((await billing.voidVouchers({ batchId: "spring" })).batch, batch);
  const page = await billing.listVoucherBatches({ limit: 2 });
  assert.deepEqual(
    page.batches.map(({ batchId, vouchers, expiresAt: until }) => [batchId, vouchers, until && timestampMs(until)]),
    [
      ["m", 2, time.nowMs + 60_000],
      ["a", 2, time.nowMs + 60_000],
    ],
  );
  const rest = await billing.listVoucherBatches({ limit: 2, beforeBatchId: "a" });
  assert.deepEqual(
    rest.batches.map(({ batchId, redeemed, voided, expiresAt: until }) => [batchId, redeemed, voided, until]),
    [
      ["z", 0, 0, expiresAt],
      ["spring", 1, 2, undefined],
    ],
  );
  assert.deepEqual((await billing.listVoucherBatches({ beforeBatchId: "spring" })).batches, []);
  const { vouchers } = await billing.listVouchers({ batchId: "spring" });
  assert.deepEqual(
    vouchers.map(({ number, state, accountId, changedAt }) => [number, state, accountId, changedAt !== undefined]),
    [
      [1, VoucherState.VOID, "", true],
      [2, VoucherState.VOID, "", true],
      [3, VoucherState.REDEEMED, "acct_test", true],
    ],
  );
});

test("a voucher that is used up or void stays so, and codes are nowhere, only their hashes", async () => {
  await using app = await startApp(2);
  await app.billing.redeemVoucher({ accountId: "acct_test", codeHash: codeHash("code1") });
  await app.billing.voidVouchers({ batchId: "spring" });
  const reopen =
    "UPDATE billing.voucher SET state = 1, account_id = NULL, line_id = NULL, day = NULL, changed_at = NULL";
  for (const number of [1, 2]) {
    await assert.rejects(query(app.ledger.url, `${reopen} WHERE number = ${number}`), /used up or void stays so/);
  }
});

test("requests about vouchers that make no sense are refused in words that name the field", async () => {
  await using app = await startApp();
  const { billing, asked } = app;
  const refused: [Promise<unknown>, RegExp][] = [
    [billing.createVouchers({ ...asked, batchId: "a b" }), /^batch_id must be 1 to 64/],
    [billing.createVouchers({ ...asked, amountNanos: 0n }), /^amount_nanos must be more than 0/],
    [billing.createVouchers({ ...asked, amountNanos: maxAccountNanos + 1n }), /^amount_nanos must be at most/],
    [billing.createVouchers({ ...asked, codeHashes: [] }), /^code_hashes must be 1 to 1000/],
    [billing.createVouchers({ ...asked, codeHashes: hashes("x", 1_001) }), /^code_hashes must be 1 to 1000/],
    [billing.createVouchers({ ...asked, codeHashes: [Buffer.alloc(31)] }), /^code_hashes must have 32 bytes/],
    [billing.createVouchers({ ...asked, codeHashes: [codeHash("a"), codeHash("a")] }), /^code_hashes: one comes twice/],
    [billing.createVouchers({ ...asked, note: "x".repeat(501) }), /^note must have 0 to 500/],
    [billing.redeemVoucher({ accountId: "", codeHash: codeHash("code1") }), /^account_id must be/],
    [billing.redeemVoucher({ accountId: "acct_test" }), /^code_hash must have 32 bytes/],
    [billing.listVoucherBatches({ limit: 1_001 }), /^limit must be/],
    [billing.listVoucherBatches({ beforeBatchId: "a b" }), /^before_batch_id must be/],
  ];
  for (const [call, message] of refused) await assert.rejects(call, { code: "invalid_argument", message });
  for (const call of [billing.listVouchers({ batchId: "none" }), billing.voidVouchers({ batchId: "none" })]) {
    await assert.rejects(call, { code: "not_found", message: "there is no batch none" });
  }
});
