import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { usageBuckets } from "#shared/money/pricing.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { bookBatch } from "../intake/book.ts";
import { dayOfMs } from "../records/check.ts";
import { readMessage, type ReadMessage } from "../records/read-event.ts";
import { bookingOn } from "../testing/billing.ts";
import { encodeBatch, encodeEvent, makeEvent, type EventFields } from "../testing/events.ts";
import { createLedger, findImbalance, readLedger, startLedger, type TestLedger } from "../testing/ledger.ts";
import { unitColumns } from "./columns.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const batchOf = (events: EventFields[]): ReadMessage =>
  readMessage(encodeBatch(events.map((given) => encodeEvent(makeEvent(given)))), 1, Date.now());

const dayMs = 86_400_000;

function ridOf(atMs: number): string {
  const hex = atMs.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}${createRid().slice(13)}`;
}

async function readRows({ ownerUrl }: TestLedger): Promise<Map<string, object>> {
  const { rows } = await query(
    ownerUrl,
    `SELECT rid, day::text, kind, account_id, key_id, amount_nanos::text, price_version, model_requested, model_served,
       held_nanos::text, cost_nanos::text, upstream_cost_nanos::text, upstream, end_cause, usage_source, relay_session,
       relay_sequence::text, encode(event, 'hex') AS event, encode(payload_hash, 'hex') AS hash,
       ARRAY[${unitColumns.join(", ")}]::text[] AS units
     FROM billing.ledger_line`,
  );
  return new Map(rows.map(({ rid, ...row }) => [rid, row]));
}

/** The row that a first, final record is to have. */
const rowOf = ({ events }: ReadMessage) =>
  events.map(({ event, bytes, hash, day }) => ({
    day,
    kind: 1,
    account_id: event.accountId,
    key_id: event.keyId,
    amount_nanos: String(-event.costNanos),
    price_version: event.priceVersion,
    model_requested: event.modelRequested,
    model_served: event.modelServed,
    held_nanos: String(event.heldNanos),
    cost_nanos: String(event.costNanos),
    upstream_cost_nanos: event.upstreamCostNanos === undefined ? null : String(event.upstreamCostNanos),
    upstream: event.upstream,
    end_cause: event.endCause,
    usage_source: event.usageSource,
    relay_session: event.relaySession,
    relay_sequence: String(event.sequence),
    event: Buffer.from(bytes).toString("hex"),
    hash,
    units: usageBuckets.map((bucket) => (event.usage?.[bucket] ? String(event.usage[bucket]) : null)),
  }));

const texts = [
  "",
  " ",
  "NULL",
  "null",
  "{}",
  "{a,b}",
  'say "so"',
  "back\\slash\\",
  "it's",
  "$1",
  "a,b",
  "ünï 😀",
  "\ufeff",
];
const free = { usage: {}, unitPriceNanos: {}, costNanos: 0n };
const batches: [string, EventFields[]][] = [
  ["one event", [{}]],
  ["events that have all in common", [{}, {}, {}]],
  ["one that says as little as it can", [{ ...free, upstream: "", relaySession: "", priceVersion: "" }]],
  ...texts.map((text): [string, EventFields[]] => [
    `the text ${JSON.stringify(text)}, alone and beside others`,
    [
      { upstream: text, modelServed: text },
      { upstream: text, modelRequested: text },
    ],
  ]),
  ["all texts", texts.map((text) => ({ upstream: text, modelServed: text }))],
  ["costs of the provider that some have", [{}, { upstreamCostNanos: 0n }, { upstreamCostNanos: 7n }, {}]],
  ["a cost of the provider that the first has", [{ upstreamCostNanos: 7n }, {}, { upstreamCostNanos: 7n }]],
  [
    "buckets that only some use",
    [{ outputTokens: 0n }, {}, free, { usage: { images: 3n }, unitPriceNanos: { images: 5_000_000n }, costNanos: 15n }],
  ],
  ["amounts that are large", [{ heldNanos: 2n ** 63n - 1n, sequence: 2n ** 60n }, { heldNanos: -(2n ** 63n) }]],
  ["days that differ", [0, -1, -30, 1].map((days) => ({ rid: ridOf(Date.now() + days * dayMs) }))],
];

test("the columns of a line say what its event says, whatever it has in common with its batch", async (t) => {
  await using ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  for (const [name, events] of batches) {
    await t.test(name, async () => {
      const batch = batchOf(events);
      assert.deepEqual(batch.rejects, []);
      await bookBatch(booking, batch);
      const rows = await readRows(ledger);
      assert.deepEqual(
        batch.events.map(({ event }) => rows.get(event.rid)),
        rowOf(batch),
      );
    });
  }
  assert.deepEqual(await findImbalance(ledger.ownerUrl), []);
});

test("a call that another process books meanwhile for another account is found when the ledger is read again", async () => {
  await using ledger = await createLedger(server.postgres);
  const booking = bookingOn(ledger.pool);
  const rid = createRid();
  await bookBatch(booking, batchOf([{ accountId: "acct_other" }]));
  const other = await ledger.pool.connect();
  await other.query("BEGIN");
  await other.query(
    `INSERT INTO billing.ledger_line (day, line_id, kind, account_id, key_id, amount_nanos, rid, event, payload_hash)
     VALUES ($1, gen_random_uuid(), 1, 'acct_other', 'key_other', 0, $2, '', '')`,
    [dayOfMs(Date.now()), rid],
  );
  const batch = batchOf([{}, { rid }, {}]);
  const booked = bookBatch(booking, batch);
  const waiting = `SELECT FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO billing.ledger_line%'`;
  await until("the insert waits", async () => (await query(ledger.ownerUrl, waiting)).rows.length > 0);
  await other.query("COMMIT");
  other.release();
  await booked;
  const afterwards = await readLedger(ledger.ownerUrl);
  assert.equal(afterwards.lines.length, 4);
  assert.deepEqual(afterwards.quarantine, ["content_conflict: other content is booked for this rid and kind"]);
});
