import type { Pool, Queryable } from "#shared/stores/postgres.ts";
import { businessColumns } from "./business-columns.ts";
import { inTransaction } from "#shared/stores/postgres.ts";

export type BusinessGroup = "none" | "day" | "model" | "upstream" | "account";

/** `fromDay` to the day before `untilDay`; `limit` groups, those charged most first, days in their order. */
export type BusinessQuery = {
  fromDay: string;
  untilDay: string;
  groupBy: BusinessGroup;
  accountId: string | undefined;
  limit: number;
};

type Figure = (typeof businessColumns)[number];

/** `accounts`: those that had calls, and `newAccounts`: those whose first call this was; of all and of days alone. */
export type BusinessSumRow = { group: string; accounts: bigint; newAccounts: bigint } & Record<Figure, bigint>;

export type Business = {
  sums: BusinessSumRow[];
  groups: bigint;
  /** Lines that were booked before are in the sums. */
  untilMs: number;
  /** Days of the span whose older lines are not. */
  missingDays: string[];
};

const groups: Record<Exclude<BusinessGroup, "account">, string> = {
  none: "''::text",
  day: "day::text",
  model: "model",
  upstream: "upstream",
};

/** Answers by what was asked and up to when there are sums. */
export type KnownBusiness = Map<string, Business>;

// Some pages of operators, of a megabyte each at most.
const mostKnown = 32;

/**
 * Sums of all accounts by what they are asked for; as of one moment. They change once an hour, when more is summed up:
 * until then the same question has the same answer, which is kept.
 */
export async function readBusiness(pool: Pool, query: BusinessQuery, known: KnownBusiness): Promise<Business> {
  return await inTransaction(pool, async (db) => {
    await db.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL jit = off");
    const { rows } = await db.query<{ until: bigint; missing: string[] }>(
      `SELECT business_until_ms AS until, ARRAY(
         SELECT day::text FROM billing.business_unsummed_day WHERE day >= $1 AND day < $2 ORDER BY day
       ) AS missing FROM billing.sum_state`,
      [query.fromDay, query.untilDay],
    );
    const [state] = rows;
    if (!state) throw new Error("billing.sum_state has no row");
    const name = JSON.stringify([query, `${state.until}`, state.missing]);
    const kept = known.get(name);
    if (kept) return kept;
    const found = { ...(await readSums(db, query)), untilMs: Number(state.until), missingDays: state.missing };
    known.set(name, found);
    const [oldest] = known.keys();
    if (known.size > mostKnown && oldest !== undefined) known.delete(oldest);
    return found;
  });
}

type Row = { group: string; groups: bigint; accounts: bigint; newAccounts: bigint } & Record<Figure, string>;

const figures = businessColumns.map((name) => `sum(${name})::text AS ${name}`).join(", ");

async function readSums(db: Queryable, query: BusinessQuery): Promise<Pick<Business, "sums" | "groups">> {
  const { fromDay, untilDay, groupBy, accountId, limit } = query;
  const isOfOne = accountId !== undefined;
  const where = `day >= $1 AND day < $2${isOfOne ? " AND account_id = $4" : ""}`;
  const { rows } = await db.query<Row>(groupBy === "account" ? byAccount(where) : byOther(groupBy, where, isOfOne), [
    fromDay,
    untilDay,
    limit,
    ...(isOfOne ? [accountId] : []),
  ]);
  return { sums: rows.map(toSum), groups: rows[0]?.groups ?? 0n };
}

// Ranked first: of all accounts one figure is added up, the others of those that are shown.
const byAccount = (where: string): string => `
  WITH ranked AS (
    SELECT account_id, count(*) OVER () AS groups FROM billing.account_sum WHERE ${where}
    GROUP BY 1 ORDER BY sum(charged_nanos) DESC, 1 LIMIT $3
  )
  SELECT account_id AS "group", groups, 0::bigint AS accounts, 0::bigint AS "newAccounts", ${figures}
  FROM ranked JOIN billing.account_sum USING (account_id) WHERE ${where}
  GROUP BY 1, 2 ORDER BY sum(charged_nanos) DESC, 1`;

// The same lines are in both tables; account_sum has a row for each account, of which there are many.
const byOther = (groupBy: keyof typeof groups, where: string, isOfOne: boolean): string => `
  WITH found AS (
    SELECT ${groups[groupBy]} AS "group", ${figures}
    FROM billing.${isOfOne ? "account_sum" : "route_sum"} WHERE ${where} GROUP BY 1
  )
  SELECT *, count(*) OVER () AS groups, ${isOfOne ? "(calls::numeric > 0)::int::bigint" : active[groupBy]} AS accounts,
    ${isOfOne ? "0::bigint" : started[groupBy]} AS "newAccounts"
  FROM found ORDER BY ${groupBy === "day" ? '"group"' : 'charged_nanos::numeric DESC, "group"'} LIMIT $3`;

// One look per account, however many days there are.
const active: typeof groups = {
  none: `(SELECT count(*) FROM billing.account_start AS a WHERE a.day < $2 AND (
    SELECT true FROM billing.account_sum AS s
    WHERE s.account_id = a.account_id AND s.day >= $1 AND s.day < $2 AND s.calls > 0 LIMIT 1
  ))`,
  day: `(SELECT count(*) FROM billing.account_sum AS s WHERE s.day = found."group"::date AND s.calls > 0)`,
  model: "0::bigint",
  upstream: "0::bigint",
};

const started: typeof groups = {
  none: "(SELECT count(*) FROM billing.account_start AS s WHERE s.day >= $1 AND s.day < $2)",
  day: `(SELECT count(*) FROM billing.account_start AS s WHERE s.day = found."group"::date)`,
  model: "0::bigint",
  upstream: "0::bigint",
};

const toSum = ({ group, accounts, newAccounts, ...row }: Row): BusinessSumRow => {
  const figures = businessColumns.map((name) => [name, BigInt(row[name])] as const);
  return { group, accounts, newAccounts, ...(Object.fromEntries(figures) as Record<Figure, bigint>) };
};
