import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { v7 } from "uuid";
import type { InvoiceDifference } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { startApp as startAppOn } from "../testing/app.ts";
import { startLedger } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const startApp = () => startAppOn(server.postgres);

const dayMs = 86_400_000;
const day = (days: number): string => new Date(Date.now() + days * dayMs).toISOString().slice(0, 10);
const ridOf = (days: number): string => v7({ msecs: Date.now() + days * dayMs });
const span = { upstream: "demo", fromDay: day(-5), untilDay: day(1) };

const figures = (row: InvoiceDifference) => [
  row.day,
  row.model,
  row.billedNanos,
  row.expectedNanos,
  row.chargedNanos,
  row.calls,
  row.unpricedCalls,
];

test("each day and model that either side knows has one row, with money, calls and units of both sides", async () => {
  await using app = await startApp();
  const served = { modelServed: "m-1", upstreamCostNanos: 300n };
  await app.book({ rid: ridOf(-2), ...served }, { rid: ridOf(-2), ...served }, { rid: ridOf(-1), ...served });
  await app.book({ rid: ridOf(-2), modelServed: "m-2" }, { rid: ridOf(-2), ...served, upstream: "another" });
  const rows = [
    { day: day(-2), model: "m-1", costNanos: 610n, usage: { inputTokens: 200n, cacheReadTokens: 4n } },
    { day: day(-2), model: "m-0", costNanos: -5n },
    { day: day(-6), model: "m-1", costNanos: 1n },
  ];
  assert.partialDeepStrictEqual(await app.billing.loadInvoice({ upstream: "demo", invoiceId: "i1", rows }), {
    added: 3,
    replaced: 0,
  });
  await app.billing.loadInvoice({ upstream: "another", invoiceId: "i1", rows });
  const compared = await app.billing.compareInvoice(span);
  assert.deepEqual(compared.rows.map(figures), [
    [day(-2), "m-0", -5n, 0n, 0n, 0n, 0n],
    [day(-2), "m-1", 610n, 600n, 800n, 2n, 0n],
    [day(-2), "m-2", 0n, 0n, 400n, 1n, 1n],
    [day(-1), "m-1", 0n, 300n, 400n, 1n, 0n],
  ]);
  const [, both] = compared.rows;
  assert.deepEqual(
    [both?.billedUsage?.inputTokens, both?.billedUsage?.cacheReadTokens, both?.bookedUsage?.outputTokens],
    [200n, 4n, 40n],
  );
});

test("a call with a provisional charge and its final counts once, by its final; one without a final as it is", async () => {
  await using app = await startApp();
  const rid = ridOf(0);
  const provisional = { kind: RecordKind.PROVISIONAL, outputTokens: 1n, upstreamCostNanos: 90n };
  await app.book({ rid, ...provisional }, { rid: ridOf(0), ...provisional });
  await app.book({ rid, upstreamCostNanos: 300n });
  const { rows } = await app.billing.compareInvoice(span);
  assert.deepEqual(rows.map(figures), [[day(0), "demo-chat-2026-01", 0n, 390n, 610n, 2n, 0n]]);
  assert.equal(rows[0]?.bookedUsage?.outputTokens, 21n);
});

test("a row of the same upstream, day and model is replaced, and nothing else", async () => {
  await using app = await startApp();
  const row = (model: string, costNanos: bigint) => ({ day: day(-1), model, costNanos });
  await app.billing.loadInvoice({ upstream: "demo", invoiceId: "i1", rows: [row("a", 1n), row("b", 2n)] });
  const again = { upstream: "demo", invoiceId: "i2", rows: [row("b", 3n), row("c", 4n)] };
  assert.partialDeepStrictEqual(await app.billing.loadInvoice(again), { added: 1, replaced: 1 });
  const { rows } = await app.billing.compareInvoice(span);
  assert.deepEqual(
    rows.map(({ model, billedNanos }) => [model, billedNanos]),
    [
      ["a", 1n],
      ["b", 3n],
      ["c", 4n],
    ],
  );
});

test("refunds and corrections do not change what a provider is expected to bill", async () => {
  await using app = await startApp();
  const rid = ridOf(0);
  await app.book({ rid, upstreamCostNanos: 300n });
  await app.billing.refund({ accountId: "acct_test", rid, refundId: "r", reason: "r" });
  const { rows } = await app.billing.compareInvoice(span);
  assert.deepEqual(rows.map(figures), [[day(0), "demo-chat-2026-01", 0n, 300n, 400n, 1n, 0n]]);
});

test("an invoice that makes no sense is refused whole, in words that name what is wrong", async () => {
  await using app = await startApp();
  const good = { day: day(-1), model: "m", costNanos: 1n };
  const load = (...rows: object[]) => app.billing.loadInvoice({ upstream: "demo", invoiceId: "i", rows });
  const refused: [Promise<unknown>, RegExp][] = [
    [load(), /^rows must be 1 to 10000/],
    [load(...Array.from({ length: 10_001 }, () => good)), /^rows must be/],
    [load(good, { ...good, day: "2027-02-30" }), /^rows: day must be a day like/],
    [load(good, { ...good, model: "" }), /^rows: model must have/],
    [load(good, good), /^rows: .* m comes twice/],
    [load({ ...good, usage: { images: -1n } }), /has negative units/],
    [app.billing.loadInvoice({ upstream: "", invoiceId: "i", rows: [good] }), /^upstream must have/],
    [app.billing.loadInvoice({ upstream: "demo", invoiceId: "", rows: [good] }), /^invoice_id must have/],
    [app.billing.compareInvoice({ ...span, upstream: "" }), /^upstream must have/],
    [app.billing.compareInvoice({ ...span, untilDay: span.fromDay }), /^until_day must be after/],
    [app.billing.compareInvoice({ ...span, fromDay: "2020-01-01" }), /at most 400 days/],
  ];
  for (const [call, message] of refused) await assert.rejects(call, { code: "invalid_argument", message });
  assert.deepEqual((await app.billing.compareInvoice(span)).rows, []);
});
