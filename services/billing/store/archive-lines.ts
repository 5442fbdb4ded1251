import type { Pool, Queryable } from "#shared/stores/postgres.ts";
import { unitColumns } from "./columns.ts";
import { askLong } from "./reconcile-query.ts";

/** What a column of the ledger holds; `time` is in microseconds since 1970. */
export type ArchiveType = "date" | "uuid" | "smallint" | "bigint" | "text" | "bytea" | "time";

/** All columns of the ledger, in the order in which the archive has them; new ones come at the end. */
export const archiveColumns: readonly { name: string; type: ArchiveType }[] = [
  { name: "day", type: "date" },
  { name: "line_id", type: "uuid" },
  { name: "kind", type: "smallint" },
  { name: "account_id", type: "text" },
  { name: "key_id", type: "text" },
  { name: "amount_nanos", type: "bigint" },
  { name: "rid", type: "uuid" },
  { name: "reference", type: "text" },
  { name: "note", type: "text" },
  { name: "booked_at", type: "time" },
  { name: "price_version", type: "text" },
  { name: "model_requested", type: "text" },
  { name: "model_served", type: "text" },
  { name: "upstream", type: "text" },
  { name: "end_cause", type: "smallint" },
  { name: "usage_source", type: "smallint" },
  { name: "relay_session", type: "text" },
  { name: "relay_sequence", type: "bigint" },
  { name: "held_nanos", type: "bigint" },
  { name: "cost_nanos", type: "bigint" },
  { name: "upstream_cost_nanos", type: "bigint" },
  { name: "event", type: "bytea" },
  { name: "payload_hash", type: "bytea" },
  ...unitColumns.map((name) => ({ name, type: "bigint" as const })),
];

/** A line, its values in the order of `archiveColumns`. */
export type ArchiveRow = (string | number | bigint | Uint8Array | null)[];

const places = new Map(archiveColumns.map(({ name }, index) => [name, index]));

/** Where a column is within a row. */
export function placeOf(name: string): number {
  const place = places.get(name);
  if (place === undefined) throw new Error(`the archive has no column ${name}`);
  return place;
}

const [lineIdAt, accountAt] = [placeOf("line_id"), placeOf("account_id")];

const selected = archiveColumns
  .map(({ name, type }) => (type === "time" ? `(extract(epoch FROM ${name}) * 1000000)::bigint` : name))
  .join(", ");

/** Where the lines of a day are: in the ledger, or in a table of their own while they are read back. */
const tableOf = (day: string, place: "ledger" | "restoring"): string =>
  place === "ledger" ? "billing.ledger_line" : `billing.restoring_${day.replaceAll("-", "_")}`;

// A group of the file, which is encoded at one go: what else this process does waits for some 40 ms.
const linesPerPage = 2_000;

/**
 * Lines of a closed day in the order of account and line, page by page: each page is a statement of its own, so that no
 * transaction is as long as a day. Nothing is booked on a closed day, so that pages fit together.
 */
export async function* readArchiveLines(
  pool: Pool,
  day: string,
  place: "ledger" | "restoring",
): AsyncGenerator<ArchiveRow[]> {
  let after: ArchiveRow[number][] = ["", "00000000-0000-0000-0000-000000000000"];
  for (;;) {
    const { rows } = await pool.query<ArchiveRow>({
      rowMode: "array",
      text: `SELECT ${selected} FROM ${tableOf(day, place)} WHERE day = $1 AND (account_id, line_id) > ($2, $3)
        ORDER BY account_id, line_id LIMIT ${linesPerPage}`,
      values: [day, ...after],
    });
    const last = rows.at(-1);
    if (last) yield rows;
    if (!last || rows.length < linesPerPage) return;
    after = [last[accountAt] ?? null, last[lineIdAt] ?? null];
  }
}

/** SHA-256 of a text with a line `account,kind,lines,amount` for each account and kind, as PostgreSQL adds them up. */
export async function hashAccountSums(pool: Pool, day: string): Promise<string> {
  const [row] = await askLong<{ hash: string }>(
    pool,
    `SELECT encode(sha256(convert_to(coalesce(string_agg(
         concat_ws(',', account_id, kind, lines, amount) || E'\\n', '' ORDER BY account_id, kind), ''), 'UTF8')), 'hex')
       AS hash
     FROM (SELECT account_id, kind, count(*) AS lines, sum(amount_nanos) AS amount FROM billing.ledger_line
       WHERE day = $1 GROUP BY account_id, kind) AS sums`,
    [day],
  );
  return row?.hash ?? "";
}

/** Makes an empty table for the lines of a day that has left. */
export async function beginRestore(db: Queryable, day: string): Promise<void> {
  await db.query("SELECT billing.begin_restore($1)", [day]);
}

const given = archiveColumns.map(({ type }, index) => `$${index + 1}::${type === "time" ? "bigint" : type}[]`);
const taken = archiveColumns.map(({ name, type }) =>
  type === "time" ? `'epoch'::timestamptz + ${name} * interval '1 microsecond'` : name,
);
const names = archiveColumns.map(({ name }) => name).join(", ");

/** Adds lines that are read back to that table. */
export async function insertRestored(db: Queryable, day: string, rows: readonly ArchiveRow[]): Promise<void> {
  await db.query(
    `INSERT INTO ${tableOf(day, "restoring")} (${names})
     SELECT ${taken.join(", ")} FROM unnest(${given.join(", ")}) AS line (${names})`,
    archiveColumns.map((_, index) => rows.map((row) => asGiven(row[index] ?? null))),
  );
}

const asGiven = (value: ArchiveRow[number]): unknown => (value instanceof Uint8Array ? Buffer.from(value) : value);

/** Makes that table a part of the ledger. */
export async function endRestore(db: Queryable, day: string): Promise<void> {
  await db.query("SELECT billing.end_restore($1)", [day]);
}
