import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { type Usage, UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { usageBuckets } from "#shared/money/pricing.ts";

/** A column: its heading, its cell for a row, and whether it holds figures, which stand at its right edge. */
export type Column<Row> = { heading: string; cell: (row: Row) => string; isFigure?: boolean };

/** A table in plain text, without trailing spaces; `none` when there is no row. */
export function table<Row>(rows: readonly Row[], columns: Column<Row>[], none: string): string {
  if (rows.length === 0) return none;
  const lines = [columns.map((column) => column.heading), ...rows.map((row) => columns.map(({ cell }) => cell(row)))];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  const pad = (text: string, index: number): string =>
    columns[index]?.isFigure ? text.padStart(widths[index] ?? 0) : text.padEnd(widths[index] ?? 0);
  return lines.map((line) => line.map(pad).join("  ").trimEnd()).join("\n");
}

/** Names with their values, one per line, the values at one right edge. */
export function figures(rows: [name: string, value: string][]): string {
  const width = (index: 0 | 1): number => Math.max(...rows.map((row) => row[index].length));
  return rows.map(([name, value]) => `${name.padEnd(width(0))}  ${value.padStart(width(1))}`).join("\n");
}

/** An instant in ISO form to the second, UTC; `unset` when there is none. */
export function instant(timestamp: Timestamp | undefined, unset = "-"): string {
  return timestamp
    ? timestampDate(timestamp)
        .toISOString()
        .replace(/\.\d+Z$/, "Z")
    : unset;
}

const bucketNames = new Map(UsageSchema.fields.map((field) => [field.localName, field.name]));

/** The buckets that were used: "input_tokens=12 output_tokens=34". */
export function units(usage: Usage | undefined): string {
  const used = usageBuckets.filter((bucket) => (usage?.[bucket] ?? 0n) !== 0n);
  return used.map((bucket) => `${bucketNames.get(bucket)}=${usage?.[bucket]}`).join(" ") || "-";
}
