import { stringify } from "csv-stringify/sync";
import type { Logger } from "#shared/process/log.ts";
import type { PageResponse } from "./route.ts";

type Rows = AsyncIterable<readonly string[]> | Iterable<readonly string[]>;

type CsvFile = { name: string; header: readonly string[]; rows: Rows };

/**
 * Rows as a CSV file by RFC 4180, which goes out as the rows come. The first row is waited for: what cannot even begin
 * is thrown. What breaks off later ends the download as failed, and why is for the log.
 */
export async function csvFile(
  { log, gone }: { log: Logger; gone: AbortSignal },
  { name, header, rows }: CsvFile,
): Promise<PageResponse> {
  const lines = csvLines(header, rows);
  const first = await lines.next();
  const pieces = resumed(first, lines, (error) => {
    if (!gone.aborted) log.error({ err: error, file: name }, "download aborted");
  });
  return { kind: "file", name, type: "text/csv; charset=utf-8", pieces };
}

async function* csvLines(header: readonly string[], rows: Rows): AsyncGenerator<string> {
  const line = (cells: readonly string[]): string => stringify([[...cells]], { record_delimiter: "windows" });
  let before = line(header);
  for await (const cells of rows) {
    yield before + line(cells);
    before = "";
  }
  if (before !== "") yield before;
}

async function* resumed(
  first: IteratorResult<string>,
  rest: AsyncGenerator<string>,
  onBreak: (error: unknown) => void,
): AsyncGenerator<string> {
  if (first.done) return;
  yield first.value;
  try {
    yield* rest;
  } catch (error) {
    onBreak(error);
    throw error;
  }
}
