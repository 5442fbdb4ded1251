import type { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { querySums, usageSumColumns, type UsageSumRow } from "./lines.ts";
import { findDetachedDay } from "./partitions.ts";
import { inTransaction, type Pool, type Queryable } from "#shared/stores/postgres.ts";

/** Lines of an account with ids from the first up to the second, and the days on which such lines can be. */
export type StatementQuery = {
  accountId: string;
  lineIds: { from: string; until: string };
  days: { first: string; last: string };
};

export type KindSumRow = { kind: LineKind; lines: bigint; amountNanos: bigint };

export type StatementRows = {
  /** A day whose lines are needed and are detached from the ledger: without them the figures are wrong. */
  detachedDay: string | undefined;
  closingBalanceNanos: bigint;
  sums: KindSumRow[];
  models: UsageSumRow[];
};

/** Reads a statement's figures as of one moment. */
export async function readStatement(pool: Pool, query: StatementQuery): Promise<StatementRows> {
  return await inTransaction(pool, async (db) => {
    // One snapshot for all: a line booked meanwhile is in every figure or in none.
    await db.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY");
    return {
      detachedDay: await findDetachedDay(db, query.days.first, "9999-12-31"),
      closingBalanceNanos: await readClosingBalance(db, query),
      sums: await sumByKind(db, query),
      models: await sumByModel(db, query),
    };
  });
}

// Counted back from the balance of now: older lines need no reading, and their partitions may be detached.
async function readClosingBalance(db: Queryable, { accountId, lineIds, days }: StatementQuery): Promise<bigint> {
  const { rows } = await db.query<{ balance: string }>(
    `SELECT coalesce((SELECT balance_nanos FROM billing.account WHERE account_id = $1), 0)
       - coalesce(sum(amount_nanos), 0) AS balance
     FROM billing.ledger_line WHERE account_id = $1 AND line_id >= $2 AND day >= $3`,
    [accountId, lineIds.until, days.first],
  );
  return BigInt(rows[0]?.balance ?? 0);
}

const within = "account_id = $1 AND line_id >= $2 AND line_id < $3 AND day BETWEEN $4 AND $5";

function valuesOf({ accountId, lineIds, days }: StatementQuery): unknown[] {
  return [accountId, lineIds.from, lineIds.until, days.first, days.last];
}

async function sumByKind(db: Queryable, query: StatementQuery): Promise<KindSumRow[]> {
  const { rows } = await db.query<{ kind: LineKind; lines: bigint; amount: string }>(
    `SELECT kind, count(*) AS lines, sum(amount_nanos)::text AS amount
     FROM billing.ledger_line WHERE ${within} GROUP BY kind ORDER BY kind`,
    valuesOf(query),
  );
  return rows.map(({ kind, lines, amount }) => ({ kind, lines, amountNanos: BigInt(amount) }));
}

async function sumByModel(db: Queryable, query: StatementQuery): Promise<UsageSumRow[]> {
  // A final that comes after the statement's end must not change it.
  const columns = usageSumColumns("l.model_requested", "a.line_id < $3");
  return await querySums(
    db,
    `SELECT ${columns} FROM billing.ledger_line AS l WHERE ${within} AND kind <= 3 GROUP BY 1 ORDER BY 1`,
    valuesOf(query),
  );
}
