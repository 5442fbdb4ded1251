import { timestampDate } from "@bufbuild/protobuf/wkt";
import { LineKind, type LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { lineKindWords } from "./call-words.ts";
import { usd } from "./amounts.ts";
import { instant, table } from "./controls.ts";
import { html, type Markup } from "./html.ts";

/** An amount with its sign, whichever that is. */
export const signedUsd = (nanos: bigint): string => (nanos > 0n ? `+${usd(nanos)}` : usd(nanos));

/** Whether billing has failed because lines that it needs are in the archive. */
export const isArchived = (error: unknown): boolean =>
  error instanceof ServiceError && error.code === "failed_precondition";

/** Ledger lines as they were booked, each with the way to its call. */
export function linesTable(caption: string, lines: readonly LedgerLine[]): Markup {
  const head = ["Booked", "What", "Amount", "Reference", "Note", "Call"];
  return table(caption, head, lines.map(row));
}

function row(line: LedgerLine): Markup {
  const { accountId, lineId, kind, amountNanos, rid, reference, note, bookedAt, usage } = line;
  const receipt = html`<small><a href="/accounts/${accountId}/receipts/${lineId}">Receipt</a></small>`;
  return html`<tr>
    <th scope="row">${bookedAt ? instant(timestampDate(bookedAt)) : "–"}</th>
    <td>${lineKindWords(kind)}${usage && html` <span class="hint">${usage.modelRequested}</span>`}</td>
    <td class="amount">${signedUsd(amountNanos)}</td>
    <td>${reference || "–"}${kind === LineKind.CREDIT && receipt}</td>
    <td>${note || "–"}</td>
    <td>${rid === "" ? "–" : html`<a href="/accounts/${accountId}/calls/${rid}">${rid}</a>`}</td>
  </tr>`;
}
