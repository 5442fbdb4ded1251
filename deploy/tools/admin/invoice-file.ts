import { createReadStream } from "node:fs";
import { pipeline } from "node:stream";
import { CsvError, parse } from "csv-parse";
import { UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { usageBuckets, type UsageBucket, type Units } from "#shared/money/pricing.ts";
import { readDecimal, toNanos } from "./decimal.ts";

/** What a provider has billed for a model on a day. */
export type FileRow = { day: string; model: string; costNanos: bigint; usage: Units };

/** Which column of the file holds what: its heading by "day", "model", "cost" or the name of a bucket. */
export type FileColumns = Record<"day" | "model" | "cost", string> & Partial<Record<UsageBucket, string>>;

const bucketByName = new Map(usageBuckets.map((bucket) => [UsageSchema.field[bucket].name, bucket]));

/** Reads "day=date,model=model,cost=usd,input_tokens=prompt". Throws a RangeError that names what is wrong. */
export function readColumns(text: string): FileColumns {
  const columns: Partial<FileColumns> = {};
  for (const part of text.split(",")) {
    const [, name = "", heading = ""] = /^([a-z0-9_]+)=(.+)$/.exec(part.trim()) ?? [];
    const field = name === "day" || name === "model" || name === "cost" ? name : bucketByName.get(name);
    if (!field) {
      throw new RangeError(
        `${JSON.stringify(part)} is not NAME=HEADING with day, model, cost or a bucket such as input_tokens`,
      );
    }
    columns[field] = heading;
  }
  const { day, model, cost } = columns;
  if (!day || !model || !cost) throw new RangeError("day, model and cost need their columns");
  return { ...columns, day, model, cost };
}

const maxProblems = 10;
const maxRows = 200_000;

/**
 * Reads a CSV file and adds up its rows by day and model, exactly. Rows that name neither model nor cost are left out,
 * and counted. Throws `invalid_argument` with the lines that cannot be read: then nothing of the file is used.
 */
export async function readInvoiceFile(
  file: string,
  columns: FileColumns,
): Promise<{ rows: FileRow[]; linesLeftOut: number }> {
  const sums = new Map<string, Sum>();
  const problems: string[] = [];
  let linesLeftOut = 0;
  for await (const { record, line } of recordsOf(file, columns)) {
    if (record[columns.model] === "" && record[columns.cost] === "") {
      linesLeftOut += 1;
      continue;
    }
    const read = readRow(record, columns);
    if (typeof read === "string") problems.push(`line ${line}: ${read}`);
    else addTo(sums, read);
    if (problems.length >= maxProblems || sums.size > maxRows) break;
  }
  if (problems.length > 0) throw new ServiceError("invalid_argument", `${file}: ${problems.join("; ")}`);
  if (sums.size > maxRows) throw new ServiceError("invalid_argument", `${file}: more than ${maxRows} days and models`);
  return { rows: [...sums.values()].map(({ cost, ...row }) => ({ ...row, costNanos: toNanos(cost) })), linesLeftOut };
}

type CsvRecord = Record<string, string>;

async function* recordsOf(file: string, columns: FileColumns): AsyncGenerator<{ record: CsvRecord; line: number }> {
  const form = { bom: true, columns: true, info: true, skip_empty_lines: true, trim: true, max_record_size: 100_000 };
  // Errors of the file end the parser, and so the loop below.
  const parser = pipeline(createReadStream(file), parse(form), () => undefined);
  let isFirst = true;
  try {
    for await (const found of parser) {
      const { record, info } = found as { record: CsvRecord; info: { lines: number } };
      if (isFirst) requireHeadings(record, columns);
      isFirst = false;
      yield { record, line: info.lines };
    }
  } catch (error) {
    throw error instanceof CsvError ? new ServiceError("invalid_argument", `${file}: ${error.message}`) : error;
  }
}

function requireHeadings(record: CsvRecord, columns: FileColumns): void {
  const missing = Object.values(columns).filter((heading) => !(heading in record));
  if (missing.length === 0) return;
  const there = Object.keys(record).join(", ");
  throw new ServiceError("invalid_argument", `the file has no column ${missing.join(", ")}; it has ${there}`);
}

type Sum = { day: string; model: string; cost: bigint; usage: Units };

function readRow(record: CsvRecord, columns: FileColumns): Sum | string {
  const cell = (heading: string): string => record[heading] ?? "";
  const day = readDayOf(cell(columns.day));
  if (day === undefined) return `${JSON.stringify(cell(columns.day))} is not a day`;
  const model = cell(columns.model);
  if (model === "") return "no model";
  const cost = readDecimal(cell(columns.cost));
  if (cost === undefined) return `${JSON.stringify(cell(columns.cost))} is not an amount`;
  const usage: Units = {};
  for (const bucket of usageBuckets) {
    const heading = columns[bucket];
    if (heading === undefined) continue;
    const text = cell(heading);
    if (!/^\d{0,18}$/.test(text)) return `${JSON.stringify(text)} is not a count for ${heading}`;
    usage[bucket] = BigInt(text);
  }
  return { day, model, cost, usage };
}

const dayPattern = /^(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/** The UTC day of a day or of an instant with its offset. */
function readDayOf(text: string): string | undefined {
  const [, day] = dayPattern.exec(text) ?? [];
  if (day === undefined || !new Date(`${day}T00:00Z`).toJSON()?.startsWith(day)) return undefined;
  return text.length === day.length ? day : new Date(text).toJSON()?.slice(0, 10);
}

function addTo(sums: Map<string, Sum>, row: Sum): void {
  const place = `${row.day} ${row.model}`;
  const sum = sums.get(place);
  if (!sum) {
    sums.set(place, row);
    return;
  }
  sum.cost += row.cost;
  for (const bucket of usageBuckets) {
    if (row.usage[bucket] !== undefined) sum.usage[bucket] = (sum.usage[bucket] ?? 0n) + row.usage[bucket];
  }
}
