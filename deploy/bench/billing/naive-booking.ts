import { createHash } from "node:crypto";
import type { PoolClient } from "pg";
import { v7 } from "uuid";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import type { UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { encodeEvent, makeEvent } from "../../../services/billing/testing/events.ts";
import type { TestLedger } from "../../../services/billing/testing/ledger.ts";

const connections = 4;

/** What was booked. */
export type NaiveRun = { events: number; chargedNanos: bigint };

/**
 * Books events for `durationMs` in the way that most people would write first: each in a transaction of its own that
 * inserts the line and updates the sums, on a few connections at once. Same tables, same indexes; no stream is read.
 */
export async function bookNaively(ledger: TestLedger, accounts: number, durationMs: number): Promise<NaiveRun> {
  const day = new Date().toISOString().slice(0, 10);
  await ledger.pool.query("SELECT billing.ensure_ledger_day($1::date)", [day]);
  await ledger.pool.query(
    `INSERT INTO billing.account (account_id) SELECT 'acct_' || n FROM generate_series(0, $1) AS n
     ON CONFLICT DO NOTHING`,
    [accounts - 1],
  );
  const run: NaiveRun = { events: 0, chargedNanos: 0n };
  const startedMs = performance.now();
  let next = 0;
  const bookUntilOver = async (): Promise<void> => {
    const client = await ledger.pool.connect();
    try {
      while (performance.now() - startedMs < durationMs) {
        const number = (next += 1) % accounts;
        const event = makeEvent({ accountId: `acct_${number}`, keyId: `key_${number}`, sequence: BigInt(next) });
        await bookOne(client, event, day);
        run.events += 1;
        run.chargedNanos += event.costNanos;
      }
    } finally {
      client.release();
    }
  };
  await Promise.all(Array.from({ length: connections }, bookUntilOver));
  return run;
}

const insertLine = `INSERT INTO billing.ledger_line (day, line_id, kind, account_id, key_id, amount_nanos, rid,
    price_version, model_requested, model_served, upstream, end_cause, usage_source, relay_session, relay_sequence,
    held_nanos, cost_nanos, event, payload_hash, input_tokens, output_tokens)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`;
const chargeAccount = `UPDATE billing.account SET balance_nanos = balance_nanos - $2,
    charged_nanos = charged_nanos + $2, version = version + 1 WHERE account_id = $1`;
const chargeKey = `INSERT INTO billing.key_spending AS k (key_id, account_id, spent_nanos, version)
  VALUES ($1, $2, $3, 1) ON CONFLICT (key_id) DO UPDATE
  SET spent_nanos = k.spent_nanos + excluded.spent_nanos, version = k.version + 1`;

// Prepared statements: even the naive way need not be parsed for each event.
async function bookOne(client: PoolClient, event: UsageRecorded, day: string): Promise<void> {
  const { accountId, keyId, costNanos } = event;
  await client.query("BEGIN");
  await client.query({ name: "line", text: insertLine, values: lineOf(event, day) });
  await client.query({ name: "account", text: chargeAccount, values: [accountId, costNanos] });
  await client.query({ name: "key", text: chargeKey, values: [keyId, accountId, costNanos] });
  await client.query("COMMIT");
}

function lineOf(event: UsageRecorded, day: string): unknown[] {
  const bytes = Buffer.from(encodeEvent(event));
  return [
    day,
    v7(),
    LineKind.CHARGE,
    event.accountId,
    event.keyId,
    -event.costNanos,
    event.rid,
    event.priceVersion,
    event.modelRequested,
    event.modelServed,
    event.upstream,
    event.endCause,
    event.usageSource,
    event.relaySession,
    event.sequence,
    event.heldNanos,
    event.costNanos,
    bytes,
    createHash("sha256").update(bytes).digest(),
    event.usage?.inputTokens ?? null,
    event.usage?.outputTokens ?? null,
  ];
}
