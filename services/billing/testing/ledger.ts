import { createServiceDatabase, type ServiceDatabase } from "#shared/testing/service-database.ts";
import pg from "pg";
import { type Databases, sharePostgres } from "#shared/testing/share.ts";
import { startStores, type PostgresStore } from "#shared/testing/stores.ts";
import { query } from "#shared/testing/postgres.ts";
import { dayMs } from "#shared/process/clock.ts";
import { sumStep } from "../store/make-sums.ts";
import { migrate } from "../store/migrate.ts";

/** A ledger in a database of its own. */
export type TestLedger = ServiceDatabase;

/** Makes a database, its schema and a login for the service. */
export const createLedger = (postgres: Databases): Promise<TestLedger> =>
  createServiceDatabase(postgres, "billing", migrate);

/** A ledger on the PostgreSQL server that the test files of this process share, for more databases beside it. */
export async function startLedger(): Promise<TestLedger & { postgres: Databases }> {
  await using resources = new AsyncDisposableStack();
  const postgres = resources.use(await sharePostgres());
  const ledger = resources.use(await createLedger(postgres));
  const owned = resources.move();
  return { ...ledger, postgres, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** A PostgreSQL server of the test's own, which it may kill, with one ledger. */
export async function startLedgerAlone(): Promise<TestLedger & { postgres: PostgresStore }> {
  await using resources = new AsyncDisposableStack();
  const { postgres } = resources.use(await startStores({ postgres: true }));
  const ledger = resources.use(await createLedger(postgres));
  const owned = resources.move();
  return { ...ledger, postgres, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

export type LedgerState = {
  lines: { rid: string | null; kind: number; amount: string; account: string; key: string | null }[];
  balances: Record<string, { balance: string; credited: string; charged: string; version: string }>;
  spent: Record<string, string>;
  quarantine: string[];
};

/** All of a ledger, as the owner sees it; amounts as decimal strings. */
export async function readLedger(ownerUrl: string): Promise<LedgerState> {
  const client = new pg.Client({ connectionString: ownerUrl });
  client.on("error", () => undefined);
  await client.connect();
  try {
    const lines = await client.query(
      `SELECT rid, kind, amount_nanos AS amount, account_id AS account, key_id AS key FROM billing.ledger_line
       ORDER BY line_id`,
    );
    const accounts = await client.query(
      `SELECT account_id AS id, balance_nanos AS balance, credited_nanos AS credited, charged_nanos AS charged, version
       FROM billing.account`,
    );
    const keys = await client.query("SELECT key_id AS id, spent_nanos AS spent FROM billing.key_spending");
    const kept = await client.query("SELECT reason FROM billing.usage_quarantine ORDER BY quarantine_id");
    return {
      lines: lines.rows,
      balances: Object.fromEntries(accounts.rows.map(({ id, ...funds }) => [id, funds])),
      spent: Object.fromEntries(keys.rows.map(({ id, spent }) => [id, spent])),
      quarantine: kept.rows.map(({ reason }) => reason),
    };
  } finally {
    await client.end();
  }
}

/** How many lines a ledger has. */
export async function countLines(ownerUrl: string): Promise<number> {
  const { rows } = await query(ownerUrl, "SELECT count(*)::int AS lines FROM billing.ledger_line");
  return rows[0].lines;
}

/** Rows that break a rule of the books: balance against lines, key spending against lines. Must be empty. */
export async function findImbalance(ownerUrl: string): Promise<unknown[]> {
  const found = await query(
    ownerUrl,
    `SELECT 'account ' || account_id AS what FROM billing.account AS a
     LEFT JOIN (
       SELECT account_id, sum(amount_nanos) AS total,
         sum(amount_nanos) FILTER (WHERE kind = 4) AS credited, -sum(amount_nanos) FILTER (WHERE kind <= 3) AS charged
       FROM billing.ledger_line GROUP BY account_id
     ) AS l USING (account_id)
     WHERE a.balance_nanos <> coalesce(l.total, 0) OR a.credited_nanos <> coalesce(l.credited, 0)
       OR a.charged_nanos <> coalesce(l.charged, 0)
     UNION ALL
     SELECT 'key ' || k.key_id FROM billing.key_spending AS k
     JOIN (SELECT key_id, -sum(amount_nanos) AS spent FROM billing.ledger_line GROUP BY key_id) AS l
       USING (key_id)
     WHERE k.spent_nanos <> l.spent
     UNION ALL
     SELECT 'call ' || rid FROM billing.ledger_line WHERE kind IN (1, 2) GROUP BY rid HAVING count(*) > 1
     UNION ALL
     SELECT 'refunds of call ' || rid FROM billing.ledger_line WHERE kind IN (1, 2, 3, 6)
     GROUP BY rid HAVING sum(amount_nanos) > 0`,
  );
  return found.rows;
}

/** Sums up all lines of the last three days; what is booked later gets ids of the day after. */
export async function sumUpAll({ ownerUrl, pool }: Pick<TestLedger, "ownerUrl" | "pool">): Promise<void> {
  await query(
    ownerUrl,
    `UPDATE billing.sum_state SET fence_ms = ${startOfTomorrow()},
       day_until_ms = greatest(day_until_ms, ${startOfTomorrow() - 3 * dayMs})`,
  );
  while ((await sumStep(pool)) !== "idle");
}

const startOfTomorrow = (): number => (Math.floor(Date.now() / dayMs) + 1) * dayMs;
