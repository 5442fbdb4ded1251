import pg from "pg";
import { dayMs } from "#shared/process/clock.ts";
import { encodeEvent, makeEvent } from "../../../services/billing/testing/events.ts";

/** How large a ledger is made: lines in all, a fifth of them of one account, over this many days up to now. */
export type LedgerSize = { lines: number; days: number; accounts: number };

/** The account with a fifth of all lines. */
export const largeAccount = "acct_0";

const dayAt = (nowMs: number, back: number): string => new Date(nowMs - back * dayMs).toISOString().slice(0, 10);

/**
 * Fills a ledger as its owner, past its triggers: charges, evenly over the days, four keys and five models an account,
 * booked a second after their call. Then the balances are made from the lines, and days older than 62 are closed.
 */
export async function fillLedger(
  ownerUrl: string,
  { lines, days, accounts }: LedgerSize,
  say: (text: string) => void,
): Promise<void> {
  const client = new pg.Client({ connectionString: ownerUrl });
  await client.connect();
  try {
    await client.query("SET session_replication_role = replica; SET synchronous_commit = off");
    const nowMs = Date.now();
    const perDay = Math.ceil(lines / days);
    const event = Buffer.from(encodeEvent(makeEvent()));
    for (let back = days - 1; back >= 0; back -= 1) {
      const day = dayAt(nowMs, back);
      await makePartition(client, day);
      const fromMs = Date.parse(`${day}T00:00:00Z`);
      const spanMs = Math.min(dayMs, nowMs - fromMs);
      await client.query(insertLines, [day, fromMs, spanMs, Math.ceil((perDay * spanMs) / dayMs), accounts, event]);
      // While its pages are in memory, and as what autovacuum does in the time in which a ledger grows.
      await client.query(`VACUUM ANALYZE ${partitionOf(day)}`);
      if (back % 60 === 0) say(`filled up to ${day}`);
    }
    await client.query(makeBalances);
    await client.query(
      "INSERT INTO billing.closed_day (day) SELECT d FROM generate_series($1::date, $2, '1 day') AS d",
      [dayAt(nowMs, days - 1), dayAt(nowMs, 63)],
    );
    await client.query("ANALYZE billing.ledger_line");
    for (const table of ["account", "key_spending", "closed_sum"])
      await client.query(`VACUUM ANALYZE billing.${table}`);
    say("made the balances");
  } finally {
    await client.end();
  }
}

const partitionOf = (day: string): string => `billing.ledger_line_${day.replaceAll("-", "_")}`;

// As billing.ensure_ledger_day, which makes none that is older than 60 days.
async function makePartition(client: pg.Client, day: string): Promise<void> {
  const name = partitionOf(day);
  await client.query(`CREATE TABLE IF NOT EXISTS ${name} (LIKE billing.ledger_line INCLUDING ALL)`);
  await client.query(`ALTER TABLE billing.ledger_line ATTACH PARTITION ${name}
    FOR VALUES FROM ('${day}') TO ('${day}'::date + 1)`);
}

// UUIDv7 of a time in milliseconds, the rest made from a number.
const uuidAt = (ms: string, number: string): string =>
  `(lpad(to_hex(${ms}), 12, '0') || '7' || lpad(to_hex(${number} % 4096), 3, '0') || '8'
    || lpad(to_hex(${number}), 15, '0'))::uuid`;

const insertLines = `
  INSERT INTO billing.ledger_line (day, line_id, kind, account_id, key_id, amount_nanos, rid, price_version,
    model_requested, model_served, held_nanos, cost_nanos, upstream, end_cause, usage_source, relay_session, event,
    payload_hash, input_tokens, output_tokens, booked_at)
  SELECT $1::date, ${uuidAt("ms + 1000", "n")}, 1, account, account || '_key_' || n % 4, -400, ${uuidAt("ms", "n")},
    'demo-1', 'demo-' || n % 5, 'demo-' || n % 5, 5000, 400, 'demo', 1, 1, '', $6::bytea, sha256($6::bytea), 100, 20,
    to_timestamp((ms + 1000) / 1000.0)
  FROM (
    SELECT n, $2::bigint + n * $3::bigint / $4::bigint AS ms,
      'acct_' || CASE WHEN n % 5 = 0 THEN 0 ELSE 1 + n * 7919 % ($5::bigint - 1) END AS account
    FROM generate_series(0, $4::bigint - 1) AS n
  ) AS call`;

const makeBalances = `
  WITH key AS (
    INSERT INTO billing.key_spending (key_id, account_id, spent_nanos, version)
    SELECT key_id, account_id, -sum(amount_nanos), 1 FROM billing.ledger_line GROUP BY 1, 2
    RETURNING account_id, spent_nanos
  ), closed AS (
    INSERT INTO billing.closed_sum (account_id, key_id, amount_nanos, credited_nanos, charged_nanos)
    SELECT account_id, key_id, sum(amount_nanos), 0, -sum(amount_nanos) FROM billing.ledger_line
    WHERE day < (now() AT TIME ZONE 'UTC')::date - 62 GROUP BY 1, 2
  )
  INSERT INTO billing.account (account_id, balance_nanos, charged_nanos, version, pushed_version)
  SELECT account_id, -sum(spent_nanos), sum(spent_nanos), 1, 1 FROM key GROUP BY 1`;
