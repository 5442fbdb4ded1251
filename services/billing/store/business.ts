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

const sources: Record<BusinessGroup, { table: string; group: string }> = {
  none: { table: "account_sum", group: "''::text" },
  day: { table: "account_sum", group: "day::text" },
  account: { table: "account_sum", group: "account_id" },
  model: { table: "route_sum", group: "model" },
  upstream: { table: "route_sum", group: "upstream" },
};

/** Sums of all accounts by what they are asked for; as of one moment. */
export async function readBusiness(pool: Pool, query: BusinessQuery): Promise<Business> {
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
    return { ...(await readSums(db, query)), untilMs: Number(state.until), missingDays: state.missing };
  });
}

type Row = { group: string; groups: bigint; accounts: bigint; newAccounts: bigint } & Record<Figure, string>;

async function readSums(db: Queryable, query: BusinessQuery): Promise<Pick<Business, "sums" | "groups">> {
  const { fromDay, untilDay, groupBy, accountId, limit } = query;
  const { table, group } = sources[groupBy];
  const isOfAccounts = groupBy === "none" || groupBy === "day";
  const starts = groupBy === "day" ? "s.day::text = found.group" : "s.day >= $1 AND s.day < $2";
  const sums = businessColumns.map((name) => `sum(${name})::text AS ${name}`);
  const { rows } = await db.query<Row>(
    `WITH found AS (
       SELECT ${group} AS "group", ${sums.join(", ")},
         ${isOfAccounts ? "count(DISTINCT account_id) FILTER (WHERE calls > 0)" : "0::bigint"} AS accounts
       FROM billing.${table} WHERE day >= $1 AND day < $2${accountId === undefined ? "" : " AND account_id = $4"}
       GROUP BY 1
     )
     SELECT *, count(*) OVER () AS groups, ${
       isOfAccounts && accountId === undefined
         ? `(SELECT count(*) FROM billing.account_start AS s WHERE ${starts})`
         : "0::bigint"
     } AS "newAccounts"
     FROM found ORDER BY ${groupBy === "day" ? '"group"' : 'charged_nanos::numeric DESC, "group"'} LIMIT $3`,
    [fromDay, untilDay, limit, ...(accountId === undefined ? [] : [accountId])],
  );
  return { sums: rows.map(toSum), groups: rows[0]?.groups ?? 0n };
}

const toSum = ({ group, accounts, newAccounts, ...row }: Row): BusinessSumRow => {
  const figures = businessColumns.map((name) => [name, BigInt(row[name])] as const);
  return { group, accounts, newAccounts, ...(Object.fromEntries(figures) as Record<Figure, bigint>) };
};
