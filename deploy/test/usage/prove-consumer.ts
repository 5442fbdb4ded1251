import assert from "node:assert/strict";
import { create, toBinary } from "@bufbuild/protobuf";
import { RecordKind, UsageBatchSchema } from "#proto/usage/v1/usage_pb.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { encodeGolden, goldenBatches } from "./golden-events.ts";
import { publishAll, renewConsumer, startBooks, startConsumer, startNatsWithUsers, untilConsumed } from "./stage.ts";

/** How an example is started; beside what is given it finds NATS and its database in the environment. */
export type Example = { command: string; args: string[]; environment?: NodeJS.ProcessEnv };

type Total = { calls: number; charged: bigint; provisional: number };

/** What the golden events come to, by the rule of the README: a call costs the higher one of its records. */
function goldenTotals(): Map<string, Total> {
  const calls = new Map<string, { account: string; charged: bigint; isFinal: boolean }>();
  for (const { rid, accountId, kind, costNanos } of goldenBatches.flatMap(({ events }) => events)) {
    const known = calls.get(rid) ?? { account: accountId, charged: 0n, isFinal: false };
    known.charged = costNanos > known.charged ? costNanos : known.charged;
    known.isFinal ||= kind === RecordKind.FINAL;
    calls.set(rid, known);
  }
  const totals = new Map<string, Total>();
  for (const { account, charged, isFinal } of calls.values()) {
    const total = totals.get(account) ?? { calls: 0, charged: 0n, provisional: 0 };
    totals.set(account, {
      calls: total.calls + 1,
      charged: total.charged + charged,
      provisional: total.provisional + (isFinal ? 0 : 1),
    });
  }
  return totals;
}

const linesOf = (totals: ReadonlyMap<string, Total>): string[] =>
  [...totals]
    .map(
      ([account, { calls, charged, provisional }]) =>
        `${account}: ${calls} calls, ${charged} nano-USD, ${provisional} provisional`,
    )
    .toSorted();

/** The lines that an example must print after all golden events, however often each came. */
export const goldenLines = (): string[] => linesOf(goldenTotals());

const [plain] = goldenBatches.flatMap(({ events }) => events);

/** An event whose cost is not what its units and prices give. */
function wrongCost(): Uint8Array {
  assert.ok(plain);
  const { rid, costNanos } = plain;
  const events = [{ ...plain, rid: rid.replace(/.$/, "f"), costNanos: costNanos + 1n }];
  return toBinary(UsageBatchSchema, create(UsageBatchSchema, { events }));
}

// Longer than an example waits for messages at a time.
const pauseMs = 3_000;

type Start = () => ReturnType<typeof startConsumer>;

async function killWithinTransaction(start: Start, pool: Pool): Promise<void> {
  const lock = await pool.connect();
  try {
    await lock.query("BEGIN; LOCK TABLE usage_event IN EXCLUSIVE MODE");
    await using consumer = await start();
    await until("it waits for the table", async () => {
      const { rowCount } = await pool.query("SELECT FROM pg_locks WHERE NOT granted");
      return rowCount !== 0;
    });
    await consumer.kill();
  } finally {
    // Ends the session and its lock with it.
    lock.release(true);
  }
}

/**
 * Runs an example against real servers: all messages but one twice, killed within its first transaction, and then all
 * of the stream once more, with a NATS server that stands still for a while, then with one that starts again. What it
 * counts must be right each time.
 */
export async function proveConsumer(example: Example): Promise<void> {
  await using nats = await startNatsWithUsers();
  await using books = await startBooks();
  const environment = { ...example.environment, NATS_URL: nats.teamUrl, DATABASE_URL: books.url };
  const start = () => startConsumer({ ...example, environment });
  const payloads = [...goldenBatches.map(encodeGolden), Buffer.from("no protobuf"), wrongCost()];
  await publishAll(nats.services, "first", payloads);
  // Not the one that is in hand at the kill: its copy would stand in for it.
  await publishAll(nats.services, "again", payloads.slice(1));
  await renewConsumer(nats.manager);

  await killWithinTransaction(start, books.pool);

  for (let time = 0; time < 2; time += 1) {
    await using consumer = await start();
    await untilConsumed(nats.manager);
    await (time === 0 ? nats.pause(pauseMs) : nats.restart());
    // A connection of the services, too, has to find the server again.
    const publish = () => publishAll(nats.services, `after-${time}`, payloads.slice(0, 1)).then(() => true);
    await until("the next message is taken", publish, 30_000);
    await untilConsumed(nats.manager);
    const { end, totals, lines } = await consumer.stop();
    assert.equal(end, "exit code 0", lines.join("\n"));
    assert.deepEqual(totals, goldenLines());
    const { rows } = await books.pool.query(
      `SELECT count(*)::int AS events, (SELECT array_agg(position ORDER BY stream_sequence) FROM dead_letter) AS dead
       FROM usage_event`,
    );
    assert.deepEqual(rows, [{ events: goldenBatches.flatMap(({ events }) => events).length, dead: [-1, 0, -1, 0] }]);
    await renewConsumer(nats.manager);
  }
  // The stream was lost and made anew: another message has the number of one that is buried.
  const buried = await books.pool.query(
    "INSERT INTO dead_letter SELECT stream_sequence, position, reason, 'other' FROM dead_letter ON CONFLICT DO NOTHING",
  );
  assert.equal(buried.rowCount, 4);
  const { rows: days } = await books.pool.query(
    "SELECT day::text, sum(calls)::int AS calls, sum(charged_nanos)::text AS charged FROM day_total GROUP BY day",
  );
  const totals = [...goldenTotals().values()];
  const charged = totals.reduce((sum, total) => sum + total.charged, 0n);
  const calls = totals.reduce((sum, total) => sum + total.calls, 0);
  assert.deepEqual(days, [{ day: "2026-03-02", calls, charged: String(charged) }]);
}
