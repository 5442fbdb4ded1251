import type { Queryable } from "#shared/stores/postgres.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { businessColumns, businessRows, businessTables, sumsOfBusiness } from "./business-columns.ts";

const rowOf = (side: string): string => businessColumns.map((name) => `coalesce(${side}.${name}, 0)`).join(", ");

const amounts = businessColumns.filter((name) => name.endsWith("_nanos"));

const off = (name: string): string => `abs(coalesce(kept.${name}, 0) - coalesce(summed.${name}, 0))`;

const differences = ({ table, of }: (typeof businessTables)[number]): string => `
  SELECT concat_ws(' ', '${table}', $1::date, ${of}) AS what,
    CASE WHEN kept.calls IS NOT NULL THEN concat_ws(' ', ${rowOf("kept")}) END AS kept,
    CASE WHEN summed.calls IS NOT NULL THEN concat_ws(' ', ${rowOf("summed")}) END AS summed,
    ${amounts.map(off).join(" + ")} AS nanos
  FROM (SELECT * FROM billing.${table} WHERE day = $1) AS kept
  FULL JOIN (SELECT ${of}, ${sumsOfBusiness} FROM line GROUP BY ${of}) AS summed USING (${of})
  WHERE (${rowOf("kept")}) IS DISTINCT FROM (${rowOf("summed")})`;

const quoted = (atMs: bigint): string => `'${firstUuidAt(Number(atMs))}'`;

type Question = { text: string; values: unknown[] };

/** Which sums of a day by model, upstream and account are not those of its lines; undefined: none are kept. */
export async function questionOfBusiness(db: Queryable, day: string): Promise<Question | undefined> {
  const { rows } = await db.query<{ from: bigint; until: bigint; isUnsummed: boolean; isHere: boolean }>(
    `SELECT business_from_ms AS "from", business_until_ms AS until,
       EXISTS (SELECT FROM billing.business_unsummed_day WHERE day = $1) AS "isUnsummed",
       to_regclass('billing.ledger_line_' || to_char($1::date, 'YYYY_MM_DD')) IS NOT NULL AS "isHere"
     FROM billing.sum_state`,
    [day],
  );
  const [state] = rows;
  if (!state?.isHere) return undefined;
  const fromMs = state.isUnsummed ? state.from : 0n;
  const booked = `l.line_id >= ${quoted(fromMs)} AND l.line_id < ${quoted(state.until)}`;
  const lines = businessRows(`l.day = $1::date AND ${booked}`, "p.day = $1::date");
  return {
    text: `WITH line AS MATERIALIZED (${lines}), off AS (${businessTables.map(differences).join(" UNION ALL ")})
      SELECT what, coalesce(kept, '') AS kept, coalesce(summed, '') AS summed, count(*) OVER () AS rows,
        sum(nanos) OVER ()::text AS "offNanos"
      FROM off ORDER BY nanos DESC, what LIMIT 100`,
    values: [day],
  };
}
