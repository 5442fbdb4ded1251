import { basename } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { CompareInvoiceResponseSchema, type InvoiceDifference } from "#proto/billing/v1/billing_pb.ts";
import { formatUsd } from "#shared/money/money.ts";
import { readDay } from "./arguments.ts";
import { readDecimal } from "./decimal.ts";
import { type Answer, asData, type Clients, type Run } from "./clients.ts";
import { type FileColumns, readColumns, readInvoiceFile } from "./invoice-file.ts";
import { type Column, figures, table } from "./render.ts";

const rowsPerCall = 10_000;

type LoadOptions = { upstream: string; id?: string; columns: FileColumns };
type CompareOptions = { upstream: string; from: string; until: string; tolerance: bigint };

export function addInvoiceCommands(program: Command, run: Run): void {
  const invoice = program.command("invoice").description("provider invoices: load, compare");
  invoice
    .command("load")
    .description("load a provider's usage export (CSV); replaces rows of the same upstream, day and model")
    .argument("<file>")
    .requiredOption("--upstream <name>", "the upstream's name in the catalog")
    .requiredOption("--columns <names>", "day=…,model=…,cost=… and buckets: headings of the file", readFileColumns)
    .option("--id <id>", "id of the invoice; default: the file name")
    .action((file: string, options: LoadOptions) => run((clients) => load(clients, file, options)));
  invoice
    .command("compare")
    .description("compare a provider's bill with the ledger; exits with 1 when a row differs too much")
    .requiredOption("--upstream <name>", "the upstream's name in the catalog")
    .requiredOption("--from <day>", "first day (UTC)", readDay)
    .requiredOption("--until <day>", "the day after the last one", readDay)
    .option(
      "--tolerance <percent>",
      "allowed difference of a row, in percent of the billed amount",
      readPercent,
      percent("0.5"),
    )
    .action((options: CompareOptions) => run((clients) => compare(clients, options)));
}

function readFileColumns(text: string): FileColumns {
  try {
    return readColumns(text);
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

async function load({ billing }: Clients, file: string, { upstream, id, columns }: LoadOptions): Promise<Answer> {
  const { rows, linesLeftOut } = await readInvoiceFile(file, columns);
  const taken = { added: 0, replaced: 0 };
  for (let at = 0; at < rows.length; at += rowsPerCall) {
    const part = rows.slice(at, at + rowsPerCall);
    const { added, replaced } = await billing.loadInvoice({ upstream, invoiceId: id ?? basename(file), rows: part });
    taken.added += added;
    taken.replaced += replaced;
  }
  const costNanos = rows.reduce((sum, row) => sum + row.costNanos, 0n);
  return {
    text: figures([
      ["added", String(taken.added)],
      ["replaced", String(taken.replaced)],
      ["billed in USD", formatUsd(costNanos)],
    ]),
    data: { ...taken, costNanos: String(costNanos) },
    hint: linesLeftOut > 0 ? `${linesLeftOut} lines without model and cost were left out` : undefined,
  };
}

// Percent as a multiple of 1e-40, as readDecimal gives it.
function percent(text: string): bigint {
  return readDecimal(text) ?? 0n;
}

function readPercent(text: string): bigint {
  if (!/^\d{1,3}(\.\d{1,6})?$/.test(text)) throw new InvalidArgumentError("It must be a percentage such as 0.5.");
  return percent(text);
}

const onePercent = percent("1");

async function compare({ billing }: Clients, { upstream, from, until, tolerance }: CompareOptions): Promise<Answer> {
  const response = await billing.compareInvoice({ upstream, fromDay: from, untilDay: until });
  const { rows } = response;
  const off = rows.filter((row) => isOff(row, tolerance));
  return {
    text: table(rows, columnsFor(tolerance), "neither billed nor booked"),
    data: asData(CompareInvoiceResponseSchema, response),
    hint: off.length > 0 ? `${off.length} of ${rows.length} rows are off by more than the tolerance` : undefined,
    isWrong: off.length > 0,
  };
}

const differenceOf = ({ billedNanos, expectedNanos }: InvoiceDifference): bigint => billedNanos - expectedNanos;

const absolute = (value: bigint): bigint => (value < 0n ? -value : value);

function isOff(row: InvoiceDifference, tolerance: bigint): boolean {
  return absolute(differenceOf(row)) * 100n * onePercent > tolerance * absolute(row.billedNanos);
}

function columnsFor(tolerance: bigint): Column<InvoiceDifference>[] {
  return [
    { heading: "day", cell: (row) => row.day },
    { heading: "model", cell: (row) => row.model },
    { heading: "billed in USD", cell: (row) => formatUsd(row.billedNanos), isFigure: true },
    { heading: "expected in USD", cell: (row) => formatUsd(row.expectedNanos), isFigure: true },
    { heading: "difference in USD", cell: (row) => formatUsd(differenceOf(row)), isFigure: true },
    { heading: "percent", cell: percentOf, isFigure: true },
    { heading: "charged in USD", cell: (row) => formatUsd(row.chargedNanos), isFigure: true },
    { heading: "calls", cell: (row) => String(row.calls), isFigure: true },
    { heading: "remark", cell: (row) => remark(row, tolerance) },
  ];
}

/** The difference in percent of what is billed, with two decimals cut off. */
function percentOf(row: InvoiceDifference): string {
  const billed = absolute(row.billedNanos);
  if (billed === 0n) return "-";
  const difference = differenceOf(row);
  const hundredths = (absolute(difference) * 10_000n) / billed;
  return `${difference < 0n ? "-" : ""}${hundredths / 100n}.${String(hundredths % 100n).padStart(2, "0")}`;
}

function remark(row: InvoiceDifference, tolerance: bigint): string {
  const remarks = [];
  if (isOff(row, tolerance)) remarks.push("off");
  if (row.calls === 0n) remarks.push("not in the ledger");
  if (row.billedNanos === 0n && row.calls > 0n) remarks.push("not billed");
  if (row.unpricedCalls > 0n) remarks.push(`${row.unpricedCalls} calls without cost prices`);
  return remarks.join(", ");
}
