import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { costNanos, usageBuckets, type Units } from "#shared/money/pricing.ts";
import { query } from "#shared/testing/postgres.ts";
import { bookBatch, type BookingDeps } from "../intake/book.ts";
import { readMessage } from "../records/read-event.ts";
import { bookingOn, valueOf } from "../testing/billing.ts";
import { encodeBatch, encodeEvent, makeEvent, type EventFields } from "../testing/events.ts";
import { countLines, createLedger, startLedger } from "../testing/ledger.ts";
import { createPool, type Pool, type Queryable } from "#shared/stores/postgres.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const usage: Units = { inputTokens: 100n, outputTokens: 20n };
const usual: Units = { inputTokens: 2_000_000n, outputTokens: 10_000_000n };

/** An event of a model at a version, charged by these prices. */
const eventAt = (version: string, prices: Units = usual, more: EventFields = {}): EventFields => ({
  modelRequested: "m-1",
  priceVersion: version,
  unitPriceNanos: prices,
  usage,
  costNanos: costNanos(usage, prices),
  ...more,
});

const book = (booking: BookingDeps, ...given: EventFields[]) =>
  bookBatch(
    booking,
    readMessage(encodeBatch(given.map((event) => encodeEvent(makeEvent(event)))), undefined, Date.now()),
  );

async function readRows(ownerUrl: string): Promise<Record<string, unknown>> {
  const { rows } = await query(ownerUrl, "SELECT model, version, prices FROM billing.price_row");
  return Object.fromEntries(rows.map(({ model, version, prices }) => [`${model} ${version}`, prices]));
}

type Statement = { text: string; values: unknown[] };

/** The pool, with every statement of its transactions told. */
function watched(pool: Pool, statements: Statement[]): Pool {
  const connect = async (): Promise<Queryable> => {
    const client = await pool.connect();
    const run = client.query.bind(client) as (...given: unknown[]) => unknown;
    const heard = (text: string, values: unknown[] = []): unknown => {
      statements.push({ text, values });
      return run(text, values);
    };
    return Object.assign(Object.create(client) as typeof client, { query: heard });
  };
  return Object.assign(Object.create(pool) as Pool, { connect, query: pool.query.bind(pool) });
}

const ofPrices = (statements: Statement[]): number =>
  statements.filter(({ text }) => text.includes("price_row")).length;

test("a price row is written with the first line that names it, to the last unit, and asked for once", async () => {
  await using ledger = await createLedger(server.postgres);
  const statements: Statement[] = [];
  const booking = bookingOn(watched(ledger.pool, statements));
  const all = Object.fromEntries(usageBuckets.map((name, index) => [name, 10n ** 17n + BigInt(index)])) as Units;
  await book(booking, eventAt("v1"), eventAt("v1"), eventAt("v1+priority", all));
  const rows = await readRows(ledger.ownerUrl);
  assert.deepEqual(rows["m-1 v1"], { input_tokens: "2000000", output_tokens: "10000000" });
  assert.equal((rows["m-1 v1+priority"] as Record<string, string>)["requests"], "100000000000000014");
  assert.equal(ofPrices(statements), 2, "an insert and a look at what is there");
  await book(booking, eventAt("v1"), eventAt("v1+priority", all));
  assert.equal(ofPrices(statements), 2, "nothing is asked for rows that are known");
  assert.equal(await valueOf(booking.metrics.priceConflicts), 0);
});

const dearer: Units = { ...usual, outputTokens: 11_000_000n };

for (const [what, isSameProcess] of [
  ["the same process", true],
  ["a process that never saw it", false],
] as const) {
  test(`money invariant I14: a version that comes with other prices is booked as it says, and an alarm, in ${what}`, async () => {
    await using ledger = await createLedger(server.postgres);
    const lines: Record<string, unknown>[] = [];
    const log = createLog("test", "error", {
      write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>),
    });
    await book(bookingOn(ledger.pool), eventAt("v1"));
    await using other = createPool(ledger.url, "billing", () => undefined);
    const booking = { ...bookingOn(isSameProcess ? ledger.pool : other), log };
    const odd = makeEvent(eventAt("v1", dearer)).rid;
    await book(booking, eventAt("v1", dearer, { rid: odd }), eventAt("v1"), eventAt("v1", dearer));
    assert.equal(await countLines(ledger.ownerUrl), 4);
    assert.equal(await valueOf(booking.metrics.priceConflicts), 2);
    assert.equal(await valueOf(booking.metrics.quarantined), 0);
    assert.deepEqual(
      lines.map(({ level, model, version, rid, calls }) => [level, model, version, rid, calls]),
      [["error", "m-1", "v1", odd, 2]],
    );
    const rows = await readRows(ledger.ownerUrl);
    assert.deepEqual(rows["m-1 v1"], { input_tokens: "2000000", output_tokens: "10000000" }, "rows never change");
  });
}

test("new rows are written in one order everywhere, so that two processes never wait for each other in a circle", async () => {
  await using ledger = await createLedger(server.postgres);
  const statements: Statement[] = [];
  await book(bookingOn(watched(ledger.pool, statements)), ...["v2", "v1", "v3", "v1"].map((name) => eventAt(name)));
  const insert = statements.find(({ text }) => text.startsWith("INSERT INTO billing.price_row"));
  assert.equal(insert?.values[1], `{"v1","v2","v3"}`);
});

test("a row of a batch that was rolled back is not taken for known", async () => {
  await using ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  await query(
    ledger.ownerUrl,
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
     CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON billing.price_row DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION refuse()`,
  );
  await assert.rejects(book(booking, eventAt("v1")), /not now/);
  await query(ledger.ownerUrl, "DROP TRIGGER refuse ON billing.price_row");
  await book(booking, eventAt("v1"));
  assert.deepEqual(Object.keys(await readRows(ledger.ownerUrl)), ["m-1 v1"]);
});

test("two processes that see the same new rows at once both book, and one of other prices is told", async () => {
  await using ledger = await createLedger(server.postgres);
  await using other = createPool(ledger.url, "billing", () => undefined);
  const [one, two] = [bookingOn(ledger.pool), bookingOn(other)];
  const versions = Array.from({ length: 40 }, (_, index) => `v${index}`);
  const of = (accountId: string, prices?: Units) => (version: string) => eventAt(version, prices, { accountId });
  await Promise.all([
    book(one, ...versions.map(of("acct_1"))),
    book(two, ...versions.toReversed().map(of("acct_2", dearer))),
  ]);
  assert.equal(await countLines(ledger.ownerUrl), 80);
  const conflicts = await Promise.all([one, two].map(({ metrics }) => valueOf(metrics.priceConflicts)));
  assert.deepEqual(new Set(conflicts), new Set([0, 40]));
});
