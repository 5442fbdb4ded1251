import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { asyncBufferFromFile, parquetMetadataAsync, parquetRead, type SchemaElement } from "hyparquet";
import { fileWriter, ParquetWriter } from "hyparquet-writer";
import { dayMs } from "#shared/process/clock.ts";
import { archiveColumns, type ArchiveRow, type ArchiveType } from "../store/archive-lines.ts";

// What warehouses and data frames read as days, times in UTC, UUIDs and whole numbers.
const elements: Record<ArchiveType, Omit<SchemaElement, "name">> = {
  date: { type: "INT32", converted_type: "DATE" },
  uuid: { type: "FIXED_LEN_BYTE_ARRAY", type_length: 16, logical_type: { type: "UUID" } },
  smallint: { type: "INT32" },
  bigint: { type: "INT64" },
  text: { type: "BYTE_ARRAY", converted_type: "UTF8", logical_type: { type: "STRING" } },
  bytea: { type: "BYTE_ARRAY" },
  time: {
    type: "INT64",
    converted_type: "TIMESTAMP_MICROS",
    logical_type: { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "MICROS" },
  },
};

const schema: SchemaElement[] = [
  { name: "ledger_line", num_children: archiveColumns.length },
  ...archiveColumns.map(({ name, type }) => ({ name, repetition_type: "OPTIONAL" as const, ...elements[type] })),
];

const daysSince1970 = (day: ArchiveRow[number]): number => Date.parse(`${String(day)}T00:00:00Z`) / dayMs;

const written: Partial<Record<ArchiveType, (value: ArchiveRow[number]) => unknown>> = {
  date: daysSince1970,
  uuid: (value) => Buffer.from(String(value).replaceAll("-", ""), "hex"),
};

/** A Parquet file that is being written. */
export type LinesFile = {
  /** Adds a group of rows; what it takes is as much memory as the group. */
  add: (rows: readonly ArchiveRow[]) => Promise<void>;
  bytes: () => number;
  end: () => Promise<void>;
};

export function createLinesFile(path: string): LinesFile {
  const file = fileWriter(path);
  const parquet = new ParquetWriter({
    writer: file,
    schema,
    codec: "ZSTD",
    compressors: { ZSTD: (input) => zstdCompressSync(input) },
    createdBy: "model-relay billing",
  });
  return {
    add: async (rows) => {
      const columnData = archiveColumns.map(({ name, type }, index) => {
        const write = written[type];
        const values = rows.map((row) => row[index] ?? null);
        return { name, data: write ? values.map((value) => (value === null ? null : write(value))) : values };
      });
      await parquet.write({ columnData, rowGroupSize: rows.length });
    },
    bytes: () => file.offset,
    end: async () => {
      await parquet.finish();
    },
  };
}

const compressors = {
  ZSTD: (input: Uint8Array, length: number) => zstdDecompressSync(input, { maxOutputLength: length + 1 }),
};
const parsers = {
  timestampFromMicroseconds: (micros: bigint) => micros,
  dateFromDays: (days: number) => new Date(days * dayMs).toISOString().slice(0, 10),
};

const isNothing = (value: unknown): boolean => value === undefined;

/** The rows of such a file, a group at a time. */
export async function* readLinesFile(path: string): AsyncGenerator<ArchiveRow[]> {
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
  const columns = archiveColumns.map(({ name }) => name);
  let rowStart = 0;
  for (const { num_rows } of metadata.row_groups) {
    const rowEnd = rowStart + Number(num_rows);
    const range = { rowStart, rowEnd };
    const group = await new Promise<ArchiveRow[]>((resolve, reject) => {
      const onComplete = (rows: ArchiveRow[]): void => resolve(rows);
      parquetRead({ file, metadata, columns, compressors, parsers, utf8: false, ...range, onComplete }).catch(reject);
    });
    yield group.map((row) => row.map((value) => (isNothing(value) ? null : value)));
    rowStart = rowEnd;
  }
}
