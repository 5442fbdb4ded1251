import { timestampDate } from "@bufbuild/protobuf/wkt";
import { LineKind, type GetStatementResponse, type LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import type { Deps } from "../../deps.ts";
import { findAccount } from "../../directory.ts";
import { usd } from "../../html/amounts.ts";
import { lineKindWords } from "../../html/call-words.ts";
import { dayOf, lastDayOf, lastMonth, readSpan, type Span } from "../../html/days.ts";
import { createForm } from "../../html/form.ts";
import { signedUsd } from "../../html/ledger-lines.ts";
import { Problem } from "../../html/problem.ts";
import { accountRoute, get, redirect, type AccountRequest, type PageResponse, type Route } from "../../html/route.ts";
import { count } from "../../html/units.ts";
import { isUuid } from "../../ids.ts";
import { writePdf, type PdfDocument } from "../../pdf.ts";
import { readStatement } from "./statement.ts";

/** Statements and receipts as PDF, from the ledger as it is. */
export function ledgerDocumentRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/ledger.pdf"), "ledger.view", (request) => statementFile(deps, request)),
    accountRoute(get("/receipts/:lineId"), "ledger.view", (request) => receiptFile(deps, request)),
  ];
}

type Document = Omit<PdfDocument, "madeAt" | "facts"> & { facts: PdfDocument["facts"] };

async function fileOf(
  deps: Deps,
  { accountId }: AccountRequest,
  name: string,
  document: Document,
): Promise<PageResponse> {
  const account = await findAccount(deps, accountId);
  const facts = [
    ["Account", account?.name ? `${account.name} (${accountId})` : accountId],
    ["Issued by", deps.publicUrl.host],
    ...document.facts,
  ] as const;
  const pieces = await writePdf({ ...document, facts, madeAt: new Date(deps.clock.nowMs()) });
  return { kind: "file", name, type: "application/pdf", pieces };
}

async function statementFile(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId, query } = request;
  const days = { from: query("from"), until: query("until") };
  const span = readSpan(createForm(days), lastMonth(deps.clock.nowMs()));
  const statement = span && (await readStatement(deps, request, span));
  // The page says what is wrong with the days, or that their lines are in the archive.
  if (!statement) return redirect(`/accounts/${accountId}/ledger?${new URLSearchParams(days).toString()}`);
  const name = `statement-${accountId}-${dayOf(span.from)}-to-${lastDayOf(span)}.pdf`;
  return fileOf(deps, request, name, statementOf(statement, span));
}

function statementOf(
  { openingBalanceNanos, closingBalanceNanos, sums, models, isFinal }: GetStatementResponse,
  span: Span,
): Document {
  const booked = sums.map(({ kind, lines, amountNanos }) => [
    lineKindWords(kind),
    count(lines),
    signedUsd(amountNanos),
  ]);
  return {
    title: isFinal ? "Statement" : "Statement, not final",
    facts: [
      ["Period", `${dayOf(span.from)} to ${lastDayOf(span)} (UTC)`],
      ["Currency", "USD"],
    ],
    tables: [
      {
        caption: "Balance",
        head: ["What", "Lines", "Amount"],
        rows: [
          ["Balance before", "", usd(openingBalanceNanos)],
          ...booked,
          ["Balance after", "", usd(closingBalanceNanos)],
        ],
      },
      {
        caption: "Calls by model",
        head: ["Model", "Calls", "Charged"],
        rows: models.map(({ group, calls, chargedNanos }) => [group, count(calls), usd(chargedNanos)]),
      },
    ].filter(({ rows }) => rows.length > 0),
    note: isFinal
      ? "Amounts are those of the ledger, by the time of booking. Nothing can be booked within this time any more."
      : "Amounts are those of the ledger, by the time of booking. More may be booked within this time.",
  };
}

async function receiptFile(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const line = await findCredit(deps, request);
  const bookedAt = line.bookedAt ? timestampDate(line.bookedAt) : undefined;
  return fileOf(deps, request, `receipt-${line.lineId}.pdf`, {
    title: "Receipt",
    facts: [
      ["Receipt number", line.lineId],
      ["Received", `${bookedAt?.toISOString().slice(0, 19).replace("T", " ") ?? ""} UTC`],
      ["Payment", line.reference],
      ...(line.note === "" ? [] : [["Note", line.note] as const]),
    ],
    tables: [{ caption: "Payment", head: ["What", "Amount"], rows: [["Credits, prepaid", usd(line.amountNanos)]] }],
    note: "The amount is that of the ledger's line with the number of this receipt.",
  });
}

/** The credit of this account with the id; lists are asked for by the id after what they begin with. */
async function findCredit({ billing }: Deps, { accountId, parameters }: AccountRequest): Promise<LedgerLine> {
  const lineId = parameters["lineId"] ?? "";
  if (!isUuid(lineId)) throw new Problem("not-found");
  const next = (BigInt(`0x${lineId.replaceAll("-", "")}`) + 1n).toString(16).padStart(32, "0");
  const beforeLineId = next.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  const { lines } = await billing.listLedgerLines({ accountId, kind: LineKind.CREDIT, beforeLineId, limit: 1 });
  const [line] = lines;
  if (line?.lineId !== lineId) throw new Problem("not-found");
  return line;
}
