import { UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { usageBuckets, type Units } from "#shared/money/pricing.ts";
import type { NewLine } from "../records/plan.ts";
import { textArray } from "./arrays.ts";
import type { Pool, Queryable } from "#shared/stores/postgres.ts";

/** Calls of a batch that were charged by other prices than are booked for their (model, version), with one of them. */
export type PriceConflict = { model: string; version: string; rid: string; calls: number };

type PriceRow = { model: string; version: string; prices: Units };

/** What a batch showed of prices. `rows` may be remembered once it is committed. */
export type CheckedPrices = { conflicts: PriceConflict[]; rows: Map<string, PriceRow> };

// Some hundred models with their variants, many versions long.
const keptRows = 20_000;

// By pool, because what one database holds says nothing of another.
const knownRows = new WeakMap<Pool, Map<string, PriceRow>>();

function knownIn(pool: Pool): Map<string, PriceRow> {
  let rows = knownRows.get(pool);
  if (!rows) knownRows.set(pool, (rows = new Map()));
  return rows;
}

/** Forgets what rows a database has: one that is restored may lack some of them. */
export const forgetPrices = (pool: Pool): boolean => knownRows.delete(pool);

const keyOf = (model: string, version: string): string => `${model}\0${version}`;

const isSame = (one: Units, other: Units): boolean =>
  usageBuckets.every((bucket) => (one[bucket] ?? 0n) === (other[bucket] ?? 0n));

/**
 * Writes the price rows that these lines are the first to name, and finds those whose version came with other prices
 * (money invariant I14). Nothing is asked of the database while all rows are known to this process and alike.
 */
export async function checkPrices(pool: Pool, db: Queryable, lines: readonly NewLine[]): Promise<CheckedPrices> {
  const known = knownIn(pool);
  const unlike: PriceRow[] = [];
  const rids: string[] = [];
  for (const { read } of lines) {
    const { modelRequested: model, priceVersion: version, unitPriceNanos: prices, rid } = read.event;
    // A record from before versions names nothing that could be compared.
    if (version === "" || !prices) continue;
    const row = known.get(keyOf(model, version));
    if (row && isSame(row.prices, prices)) continue;
    unlike.push({ model, version, prices });
    rids.push(rid);
  }
  const rows = await writeRows(
    db,
    unlike.filter(({ model, version }) => !known.has(keyOf(model, version))),
  );
  const bookedOf = (key: string): PriceRow | undefined => known.get(key) ?? rows.get(key);
  return { conflicts: conflictsOf(unlike, rids, bookedOf), rows };
}

function conflictsOf(
  unlike: PriceRow[],
  rids: string[],
  bookedOf: (key: string) => PriceRow | undefined,
): PriceConflict[] {
  const conflicts = new Map<string, PriceConflict>();
  for (const [index, { model, version, prices }] of unlike.entries()) {
    const key = keyOf(model, version);
    const booked = bookedOf(key);
    if (!booked || isSame(booked.prices, prices)) continue;
    const conflict = conflicts.get(key) ?? { model, version, rid: rids[index] ?? "", calls: 0 };
    conflict.calls += 1;
    conflicts.set(key, conflict);
  }
  return [...conflicts.values()];
}

const nameOf = (bucket: (typeof usageBuckets)[number]): string => UsageSchema.field[bucket].name;

/** Nano-USD per 1,000,000 units as decimal strings; a bucket without a price is left out. */
function toJson(prices: Units): string {
  const priced = usageBuckets.filter((bucket) => (prices[bucket] ?? 0n) > 0n);
  return JSON.stringify(Object.fromEntries(priced.map((bucket) => [nameOf(bucket), String(prices[bucket])])));
}

function fromJson(prices: Partial<Record<string, string>>): Units {
  return Object.fromEntries(usageBuckets.map((bucket) => [bucket, BigInt(prices[nameOf(bucket)] ?? 0)]));
}

/** Inserts what is not there yet and gives all of the rows as they are booked: the first prices of a version count. */
async function writeRows(db: Queryable, wanted: PriceRow[]): Promise<Map<string, PriceRow>> {
  if (wanted.length === 0) return new Map();
  const first = new Map<string, PriceRow>();
  for (const row of wanted) {
    const key = keyOf(row.model, row.version);
    if (!first.has(key)) first.set(key, row);
  }
  // In one order everywhere, so that two processes which write the same rows cannot wait in a circle.
  const rows = [...first].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  const identities = [textArray(rows.map(({ model }) => model)), textArray(rows.map(({ version }) => version))];
  await db.query(
    `INSERT INTO billing.price_row (model, version, prices)
     SELECT model, version, prices::jsonb
     FROM unnest($1::text[], $2::text[], $3::text[]) AS new (model, version, prices)
     ON CONFLICT DO NOTHING`,
    [...identities, textArray(rows.map(({ prices }) => toJson(prices)))],
  );
  const booked = await db.query<{ model: string; version: string; prices: Record<string, string> }>(
    `SELECT model, version, prices FROM billing.price_row
     WHERE (model, version) IN (SELECT * FROM unnest($1::text[], $2::text[]))`,
    identities,
  );
  return new Map(
    booked.rows.map(({ model, version, prices }) => [
      keyOf(model, version),
      { model, version, prices: fromJson(prices) },
    ]),
  );
}

/** Keeps rows of a batch that is committed, so that they need not be looked up again. */
export function rememberPrices(pool: Pool, { rows }: CheckedPrices): void {
  const known = knownIn(pool);
  if (known.size + rows.size > keptRows) known.clear();
  for (const [key, row] of rows) known.set(key, row);
}
