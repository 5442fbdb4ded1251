import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { create } from "@bufbuild/protobuf";
import type { Command } from "commander";
import { Finding, FindingSchema, type Report, type ReportLine, ReportSchema } from "#proto/billing/v1/billing_pb.ts";
import { enumWords } from "#shared/money/enum-words.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { formatUsd } from "#shared/money/money.ts";
import { isSignedBy, toMessage } from "#shared/money/report.ts";
import { readDay } from "./arguments.ts";
import { type Answer, asData, type Clients, type Run } from "./clients.ts";
import { type Column, figures, instant, table } from "./render.ts";

const columns: Column<ReportLine>[] = [
  { heading: "check", cell: ({ check }) => check },
  { heading: "what", cell: ({ name }) => name },
  { heading: "found", cell: ({ finding }) => enumWords(FindingSchema, finding) },
  { heading: "difference in USD", cell: ({ differenceNanos }) => formatUsd(differenceNanos), isFigure: true },
  { heading: "in words", cell: ({ summary }) => summary },
];

// The rest is in the JSON.
const shownItems = 10;

export function addReconcileCommands(program: Command, run: Run): void {
  program
    .command("reconcile")
    .description("compare ledger, stream and hot store; exits with 1 when wrong, 2 when unchecked")
    .option("--day <day>", "check a whole day (UTC) and store its report; default: recent changes", readDay, "")
    .action(({ day }: { day: string }) => run((clients) => reconcile(clients, day)));
  program
    .command("report")
    .description("show the stored report of a day from its signed content; exits as reconcile does")
    .argument("<day>", "the day (UTC)", readDay)
    .option("--verify <file>", "PEM file of the public key to verify with; default: the key named by the report")
    .action((day: string, { verify }: { verify?: string }) => run((clients) => showReport(clients, day, verify)));
}

/** Compares ledger, stream and hot store. */
export async function reconcile({ patientBilling }: Clients, day: string): Promise<Answer> {
  const { report } = await patientBilling.reconcile({ day });
  if (!report) throw new ServiceError("internal", "billing answered without a report");
  return renderReport(
    report,
    report.signature.length > 0 ? "signed and kept" : day === "" ? "not kept" : "kept, not signed",
  );
}

async function showReport({ billing }: Clients, day: string, keyFile: string | undefined): Promise<Answer> {
  const { report } = await billing.getReport({ day });
  if (!report) throw new ServiceError("internal", "billing answered without a report");
  const { content, signature, publicKey } = report;
  // What is shown is what was signed, whatever else the answer says.
  const signed = create(ReportSchema, {
    ...toMessage({ content: Buffer.from(content), signature: undefined, publicKey }),
    signature,
  });
  if (signature.length === 0) {
    return { ...renderReport(signed, "not signed"), ...(keyFile !== undefined && { isWrong: true }) };
  }
  const pem = keyFile === undefined ? publicKey : readFileSync(keyFile, "utf8");
  if (isSignedBy(content, signature, pem)) return renderReport(signed, `valid, by the key ${nameOf(pem)}`);
  return { ...renderReport(signed, `NOT VALID for the key ${nameOf(pem)}`), isWrong: true };
}

// As `openssl pkey -pubin -outform DER | sha256sum` tells it.
function nameOf(pem: string): string {
  const der = Buffer.from(pem.replaceAll(/-----[A-Z ]+-----|\s/g, ""), "base64");
  return `sha256:${createHash("sha256").update(der).digest("hex")}`;
}

function renderReport(report: Report, signature: string): Answer {
  const { day, madeAt, lines, unexplainedNanos } = report;
  const isAny = (finding: Finding): boolean => lines.some((line) => line.finding === finding);
  const text = [
    table(lines, columns, "no checks"),
    ...lines.filter(({ items }) => items.length > 0).map(itemsOf),
    figures([
      ["day", day || "lately"],
      ["made", instant(madeAt)],
      ["signature", signature],
      ["unexplained difference in USD", formatUsd(unexplainedNanos)],
    ]),
  ].join("\n\n");
  return {
    text,
    data: { ...asData(ReportSchema, report), signatureFound: signature },
    hint: lines.some(({ items }) => items.length > shownItems) ? "--json names more" : undefined,
    isWrong: isAny(Finding.WRONG) || unexplainedNanos !== 0n,
    isUnchecked: isAny(Finding.UNCHECKED),
  };
}

function itemsOf({ check, items }: ReportLine): string {
  return [`${check}:`, ...items.slice(0, shownItems).map((item) => `  ${item}`)].join("\n");
}
