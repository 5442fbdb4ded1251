import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { stringify } from "csv-stringify/sync";
import { type CloseContent, readCloseContent } from "#shared/money/day-close.ts";
import { formatUsd } from "#shared/money/money.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { readDay } from "./arguments.ts";
import type { Answer, Clients, Run, RunAlone } from "./clients.ts";
import { chainProblem, type VerifiedDay, verifyClose, writeClose } from "./close-files.ts";
import { createInvoices, documentColumns } from "./close-invoices.ts";
import { figures } from "./render.ts";

export function addCloseCommands(program: Command, run: Run, runAlone: RunAlone): void {
  const close = program
    .command("close")
    .description("close a day that is final, or show the close that is kept, and write its signed file")
    .option("--day <day>", "the day (UTC)", readDay)
    .option("--output <folder>", "where to write DAY.csv and its signature, DAY.json")
    .action(({ day, output }: { day?: string; output?: string }) => run((clients) => closeDay(clients, day, output)));
  close
    .command("verify")
    .description("check signatures, lines and the order of closed days; exits with 1 when something is wrong")
    .argument("<files...>", "signatures, DAY.json, each beside its DAY.csv")
    .requiredOption("--key <file>", "PEM file of the public key that must have signed")
    .action((files: string[], { key }: { key: string }) => runAlone(() => verifyFiles(files, key)));
  close
    .command("invoices")
    .description("make invoices and credit notes of closed days, as data; of files that verify only")
    .argument("<files...>", "signatures, DAY.json, of days that follow each other")
    .requiredOption("--key <file>", "PEM file of the public key that must have signed")
    .addOption(new Option("--format <format>", "output format").choices(["csv", "json"]).default("csv"))
    .action((files: string[], options: InvoiceOptions) => runAlone(() => makeInvoices(files, options)));
}

async function closeDay({ patientBilling, streams }: Clients, day: string | undefined, folder?: string) {
  if (day === undefined) throw new ServiceError("invalid_argument", "name the day: --day 2027-01-31");
  const { close } = await patientBilling.closeDay({ day });
  if (!close) throw new ServiceError("internal", "billing answered without a close");
  const content = readCloseContent(close.content);
  if (folder !== undefined) {
    await mkdir(folder, { recursive: true });
    await writeClose(join(folder, day), close, linesOf(streams.listCloseLines({ day })));
  }
  return { text: render(content), data: content, hint: folder && `written: ${join(folder, day)}.csv and .json` };
}

async function* linesOf(pages: AsyncIterable<{ lines: string[] }>): AsyncGenerator<string> {
  for await (const { lines } of pages) yield* lines;
}

function render(content: CloseContent): string {
  const usd = (nanos: string): string => formatUsd(BigInt(nanos));
  return figures([
    ["day", content.day],
    ["made", content.made_at],
    ["accounts", String(content.accounts)],
    ["calls", content.calls],
    ["opening balances", usd(content.opening_nanos)],
    ["charges", usd(content.charges_nanos)],
    ["credits", usd(content.credits_nanos)],
    ["refunds", usd(content.refunds_nanos)],
    ["corrections", usd(content.corrections_nanos)],
    ["closing balances", usd(content.closing_nanos)],
    ["cost at providers", usd(content.upstream_cost_nanos)],
    ["calls without such a cost", content.calls_without_upstream_cost],
  ]);
}

type Outcome = { file: string; day?: VerifiedDay; problem: string | undefined };

async function verifyFiles(files: string[], keyFile: string): Promise<Answer> {
  const key = await readFile(keyFile, "utf8");
  const outcomes: Outcome[] = [];
  for (const file of files.toSorted()) {
    outcomes.push(
      await verifyClose(file, key).then(
        (day) => ({ file, day, problem: chainProblem(day, outcomes.at(-1)?.day) }),
        (error: unknown) => ({ file, problem: error instanceof Error ? error.message : String(error) }),
      ),
    );
  }
  return {
    text: outcomes.map(({ file, problem }) => `${file}: ${problem ?? "valid"}`).join("\n"),
    data: outcomes.map(({ file, problem, day }) => ({ file, problem: problem ?? null, content: day?.content ?? null })),
    isWrong: outcomes.some(({ problem }) => problem !== undefined),
  };
}

type InvoiceOptions = { key: string; format: "csv" | "json" };

async function makeInvoices(files: string[], { key: keyFile, format }: InvoiceOptions): Promise<Answer> {
  const key = await readFile(keyFile, "utf8");
  const invoices = createInvoices();
  const days: VerifiedDay[] = [];
  for (const file of files.toSorted()) {
    const day = await verifyClose(file, key, invoices.add);
    const problem = chainProblem(day, days.at(-1));
    if (problem !== undefined) throw new ServiceError("failed_precondition", `${file}: ${problem}`);
    days.push(day);
  }
  const documents = invoices.documents(days[0]?.content.day ?? "", days.at(-1)?.content.day ?? "");
  const csv = stringify(documents, { header: true, columns: [...documentColumns] }).trimEnd();
  return { text: format === "csv" ? csv : JSON.stringify(documents, null, 2), data: documents };
}
