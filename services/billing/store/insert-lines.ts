import pg from "pg";
import type { NewLine } from "../records/plan.ts";
import { bytesArray, hexArray, numberArray, plainArray, textArray } from "./arrays.ts";
import { unitColumns } from "./columns.ts";
import { usageBuckets } from "#shared/money/pricing.ts";
import type { Queryable } from "#shared/stores/postgres.ts";

type Value = string | number | bigint | Uint8Array | null;

/** A column of the ledger: what a line has in it, and how PostgreSQL is given those of many lines. */
type Column<V extends Value> = {
  name: string;
  type: string;
  of: (line: NewLine) => V;
  array: (values: V[]) => string | Buffer;
};

type ColumnParameter = { name: string; sql: (parameter: string) => string; parameter: unknown };

const column =
  <V extends Value>(type: string, array: Column<V>["array"]) =>
  (name: string, of: Column<V>["of"]) =>
  (lines: readonly NewLine[]): ColumnParameter | undefined =>
    give({ name, type, of, array }, lines);

const plain = column<string>("text", plainArray);
const uuid = column<string>("uuid", plainArray);
const day = column<string>("date", plainArray);
const text = column<string>("text", textArray);
const small = column<number>("smallint", numberArray);
const big = column<bigint | null>("bigint", numberArray);

const callColumns = [
  day("day", ({ read }) => read.day),
  uuid("line_id", ({ lineId }) => lineId),
  small("kind", ({ kind }) => kind),
  plain("account_id", ({ read }) => read.event.accountId),
  plain("key_id", ({ read }) => read.event.keyId),
  big("amount_nanos", ({ amountNanos }) => amountNanos),
  uuid("rid", ({ read }) => read.event.rid),
  text("price_version", ({ read }) => read.event.priceVersion),
  text("model_requested", ({ read }) => read.event.modelRequested),
  text("model_served", ({ read }) => read.event.modelServed),
  big("held_nanos", ({ read }) => read.event.heldNanos),
  big("cost_nanos", ({ read }) => read.event.costNanos),
  big("upstream_cost_nanos", ({ read }) => read.event.upstreamCostNanos ?? null),
  text("upstream", ({ read }) => read.event.upstream),
  small("end_cause", ({ read }) => read.event.endCause),
  small("usage_source", ({ read }) => read.event.usageSource),
  text("relay_session", ({ read }) => read.event.relaySession),
  big("relay_sequence", ({ read }) => read.event.sequence),
  column<Uint8Array>("bytea", bytesArray)("event", ({ read }) => read.bytes),
  column<string>("bytea", hexArray)("payload_hash", ({ read }) => read.hash),
];

const bucketColumns = usageBuckets.map((bucket, index) => ({
  bucket,
  columnOf: big(unitColumns[index] ?? "", ({ units }) => units[bucket] || null),
}));

// Most batches use two or three of some twenty buckets.
function columnsOf(lines: readonly NewLine[]): ((lines: readonly NewLine[]) => ColumnParameter | undefined)[] {
  const used = new Set<string>();
  for (const { units } of lines) for (const bucket in units) used.add(bucket);
  const usedColumns = bucketColumns.filter(({ bucket }) => used.has(bucket)).map(({ columnOf }) => columnOf);
  return [...callColumns, ...usedColumns];
}

// Calls of a batch have much in common: models, prices, their relay. That is said once, and takes PostgreSQL no time.
function give<V extends Value>(
  { name, type, of, array }: Column<V>,
  lines: readonly NewLine[],
): ColumnParameter | undefined {
  const values = lines.map(of);
  const [first] = values;
  const isCommon = typeof first !== "object" && type !== "bytea" && values.every((value) => value === first);
  // NULL is what a column is that is not named.
  if (first === null && values.every((value) => value === null)) return undefined;
  if (isCommon) return { name, sql: (parameter) => `${parameter}::${type}`, parameter: String(first) };
  return { name, sql: (parameter) => `unnest(${parameter}::${type}[])`, parameter: array(values) };
}

const uniqueViolation = "23505";

/** Thrown when another process has booked one of these calls since the ledger was read: reading it again helps. */
export class BookedMeanwhileError extends Error {
  constructor(cause: Error) {
    super("another process has booked one of these calls meanwhile", { cause });
    this.name = "BookedMeanwhileError";
  }
}

/**
 * Inserts lines of calls that the ledger did not have when it was read; throws BookedMeanwhileError if it has one of
 * them now. Arrays are unnested in the list of columns: in FROM, PostgreSQL would keep a copy of each of them first.
 */
export async function insertLines(db: Queryable, lines: readonly NewLine[]): Promise<void> {
  if (lines.length === 0) return;
  const given = columnsOf(lines)
    .map((columnOf) => columnOf(lines))
    .filter((column) => column !== undefined);
  const values = given.map(({ sql }, index) => sql(`$${index + 1}`));
  const names = given.map(({ name }) => name);
  try {
    await db.query(
      `INSERT INTO billing.ledger_line (${names.join(", ")}) SELECT ${values.join(", ")}`,
      given.map(({ parameter }) => parameter),
    );
  } catch (error) {
    // The data themselves are not refused, nor is the batch to be taken apart.
    if (!(error instanceof pg.DatabaseError && error.code === uniqueViolation)) throw error;
    throw new BookedMeanwhileError(error);
  }
}
