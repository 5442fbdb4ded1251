import { type LedgerLine, LineKind, LineKindSchema } from "#proto/billing/v1/billing_pb.ts";
import { EndCauseSchema, type Usage, UsageSchema, UsageSourceSchema } from "#proto/usage/v1/usage_pb.ts";
import { formatUsd } from "#shared/money.ts";
import { usageBuckets } from "#shared/pricing.ts";
import { ridTimeMs } from "#shared/rid.ts";
import { enumWords, instant } from "./render.ts";

/** Units that a line adds, in the order of usageBuckets. */
type AddedUnits = bigint[];

type ExportColumn = { name: string; cell: (line: LedgerLine) => string };

const columns: ExportColumn[] = [
  { name: "day", cell: dayOf },
  { name: "line_id", cell: (line) => line.lineId },
  { name: "booked_at", cell: (line) => instant(line.bookedAt, "") },
  { name: "account_id", cell: (line) => asText(line.accountId) },
  { name: "kind", cell: (line) => enumWords(LineKindSchema, line.kind) },
  { name: "amount_usd", cell: (line) => formatUsd(line.amountNanos) },
  { name: "amount_nanos", cell: (line) => String(line.amountNanos) },
  { name: "rid", cell: (line) => asText(line.rid) },
  { name: "reference", cell: (line) => asText(line.reference) },
  { name: "note", cell: (line) => asText(line.note) },
  { name: "key_id", cell: ({ usage }) => asText(usage?.keyId) },
  { name: "endpoint", cell: ({ usage }) => asText(usage?.endpoint) },
  { name: "model_requested", cell: ({ usage }) => asText(usage?.modelRequested) },
  { name: "model_served", cell: ({ usage }) => asText(usage?.modelServed) },
  { name: "upstream", cell: ({ usage }) => asText(usage?.upstream) },
  { name: "price_version", cell: ({ usage }) => asText(usage?.priceVersion) },
  { name: "end_cause", cell: ({ usage }) => (usage ? enumWords(EndCauseSchema, usage.endCause) : "") },
  { name: "usage_source", cell: ({ usage }) => (usage ? enumWords(UsageSourceSchema, usage.usageSource) : "") },
  { name: "http_status", cell: ({ usage }) => (usage ? String(usage.httpStatus) : "") },
  { name: "started_at", cell: ({ usage }) => instant(usage?.startedAt, "") },
  { name: "ended_at", cell: ({ usage }) => instant(usage?.endedAt, "") },
  { name: "call_cost_nanos", cell: ({ usage }) => (usage ? String(usage.costNanos) : "") },
  { name: "upstream_cost_nanos", cell: ({ usage }) => String(usage?.upstreamCostNanos ?? "") },
  { name: "relay_session", cell: ({ usage }) => asText(usage?.relaySession) },
  { name: "sequence", cell: ({ usage }) => (usage ? String(usage.sequence) : "") },
];

/** The header of an export as CSV: fixed; new columns come at the end. */
export const exportHeader: readonly string[] = [
  ...columns.map(({ name }) => name),
  ...usageBuckets.map((bucket) => UsageSchema.field[bucket].name),
];

/** Ledger lines, in the order of day, account and line, as the cells of a CSV file. */
export async function* toRows(lines: AsyncIterable<LedgerLine>): AsyncGenerator<string[]> {
  const added = unitsAdded();
  for await (const line of lines) {
    yield [...columns.map(({ cell }) => cell(line)), ...added(line).map((count) => (line.usage ? String(count) : ""))];
  }
}

// The ledger day: of the call's beginning, or of the booking by hand. Refunds and corrections name a call, too, but are
// on the day of their own booking.
function dayOf({ kind, rid, lineId }: LedgerLine): string {
  const atMs = ridTimeMs(kind <= LineKind.FINAL_ADJUSTMENT ? rid : lineId);
  return atMs === undefined ? "" : new Date(atMs).toISOString().slice(0, 10);
}

/**
 * Tells what each line adds, so that columns can be summed: an adjustment carries the units of the whole call, of which
 * the provisional line before it, on the same day and account, has told a part.
 */
function unitsAdded(): (line: LedgerLine) => AddedUnits {
  let place = "";
  let provisional = new Map<string, AddedUnits>();
  return (line) => {
    const at = `${line.accountId} ${dayOf(line)}`;
    if (at !== place) {
      place = at;
      provisional = new Map();
    }
    const whole = unitsOf(line.usage?.usage);
    if (line.kind === LineKind.PROVISIONAL_CHARGE) provisional.set(line.rid, whole);
    if (line.kind !== LineKind.FINAL_ADJUSTMENT) return whole;
    const before = provisional.get(line.rid) ?? [];
    return whole.map((count, index) => count - (before[index] ?? 0n));
  };
}

function unitsOf(usage: Usage | undefined): AddedUnits {
  return usageBuckets.map((bucket) => usage?.[bucket] ?? 0n);
}

// Spreadsheets run a cell that begins like this as a formula, and notes and names come from outside.
const formulaStart = /^[=+\-@\t\r＝＋－＠]/;

/** A text that no spreadsheet takes for a formula: an apostrophe before what begins like one. */
function asText(text = ""): string {
  return formulaStart.test(text) ? `'${text}` : text;
}
