import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Command, Option } from "commander";
import { stringify } from "csv-stringify";
import { type LedgerLine, LedgerLineSchema } from "#proto/billing/v1/billing_pb.ts";
import { operatorTable } from "#shared/money/ledger-rows.ts";
import { readDay } from "./arguments.ts";
import { type Answer, asData, type Clients, type Output, type Run } from "./clients.ts";

type ExportOptions = { from: string; until: string; account: string; format: "csv" | "ndjson"; output?: string };

export function addExportCommand(program: Command, run: Run, output: Output): void {
  program
    .command("export")
    .description("export the ledger lines of whole days, by day, account and line; calls count on their start day")
    .requiredOption("--from <day>", "first day (UTC)", readDay)
    .requiredOption("--until <day>", "the day after the last one", readDay)
    .option("--account <id>", "only this account", "")
    .addOption(new Option("--format <format>", "output format").choices(["csv", "ndjson"]).default("csv"))
    .option("--output <file>", "output file; default: standard output")
    .action((options: ExportOptions) => run((clients) => exportLines(clients, options, output)));
}

async function exportLines(clients: Clients, options: ExportOptions, output: Output): Promise<Answer> {
  const { output: file } = options;
  if (file === undefined) {
    const lines = await write(clients, options, answering(output));
    return { text: "", data: undefined, hint: `${lines} lines` };
  }
  // An export that was cut short must not pass for a whole one.
  const part = `${file}.part`;
  try {
    const lines = await write(clients, options, createWriteStream(part));
    await rename(part, file);
    return { text: `${lines} lines in ${file}`, data: { lines, file } };
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

/** Lines pass through one by one: memory does not grow with them, and a slow end holds the service back. */
async function write({ streams }: Clients, options: ExportOptions, end: NodeJS.WritableStream): Promise<number> {
  const { from, until, account, format } = options;
  const count = { lines: 0 };
  const pages = streams.exportLines({ accountId: account, fromDay: from, untilDay: until });
  const lines = counted(pages, count);
  if (format === "ndjson") await pipeline(Readable.from(toNdjson(lines)), end);
  else {
    const { header, rows } = operatorTable;
    await pipeline(Readable.from(rows(lines)), stringify({ header: true, columns: [...header] }), end);
  }
  return count.lines;
}

async function* counted(pages: AsyncIterable<{ lines: LedgerLine[] }>, count: { lines: number }) {
  for await (const { lines } of pages) {
    count.lines += lines.length;
    yield* lines;
  }
}

async function* toNdjson(lines: AsyncIterable<LedgerLine>): AsyncGenerator<string> {
  for await (const line of lines) yield `${JSON.stringify(asData(LedgerLineSchema, line))}\n`;
}

function answering(output: Output): Writable {
  return new Writable({
    decodeStrings: false,
    write: (chunk: Buffer | string, _encoding, written) => {
      output.answer(String(chunk));
      written();
    },
  });
}
