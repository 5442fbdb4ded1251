import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { type LedgerLine, LineKind, LineKindSchema } from "#proto/billing/v1/billing_pb.ts";
import { EndCauseSchema, type Usage, UsageSchema, UsageSourceSchema } from "#proto/usage/v1/usage_pb.ts";
import { withoutFormula } from "./csv.ts";
import { enumWords } from "./enum-words.ts";
import { formatUsd } from "./money.ts";
import { usageBuckets } from "./pricing.ts";
import { ridTimeMs } from "./rid.ts";

/** Units that a line adds, in the order of usageBuckets. */
type AddedUnits = bigint[];

type LedgerColumn = {
  name: string;
  cell: (line: LedgerLine) => string;
  /** Nothing for those who pay: where calls go, what they cost there, and which process served them. */
  isInternal?: true;
};

const columns: LedgerColumn[] = [
  { name: "day", cell: dayOf },
  { name: "line_id", cell: (line) => line.lineId },
  { name: "booked_at", cell: (line) => instant(line.bookedAt) },
  { name: "account_id", cell: (line) => withoutFormula(line.accountId) },
  { name: "kind", cell: (line) => enumWords(LineKindSchema, line.kind) },
  { name: "amount_usd", cell: (line) => formatUsd(line.amountNanos) },
  { name: "amount_nanos", cell: (line) => String(line.amountNanos) },
  { name: "rid", cell: (line) => withoutFormula(line.rid) },
  { name: "reference", cell: (line) => withoutFormula(line.reference) },
  { name: "note", cell: (line) => withoutFormula(line.note) },
  { name: "key_id", cell: ({ usage }) => withoutFormula(usage?.keyId) },
  { name: "endpoint", cell: ({ usage }) => withoutFormula(usage?.endpoint) },
  { name: "model_requested", cell: ({ usage }) => withoutFormula(usage?.modelRequested) },
  { name: "model_served", cell: ({ usage }) => withoutFormula(usage?.modelServed) },
  { name: "upstream", cell: ({ usage }) => withoutFormula(usage?.upstream), isInternal: true },
  { name: "price_version", cell: ({ usage }) => withoutFormula(usage?.priceVersion) },
  { name: "end_cause", cell: ({ usage }) => (usage ? enumWords(EndCauseSchema, usage.endCause) : "") },
  { name: "usage_source", cell: ({ usage }) => (usage ? enumWords(UsageSourceSchema, usage.usageSource) : "") },
  { name: "http_status", cell: ({ usage }) => (usage ? String(usage.httpStatus) : "") },
  { name: "started_at", cell: ({ usage }) => instant(usage?.startedAt) },
  { name: "ended_at", cell: ({ usage }) => instant(usage?.endedAt) },
  { name: "call_cost_nanos", cell: ({ usage }) => (usage ? String(usage.costNanos) : "") },
  { name: "upstream_cost_nanos", cell: ({ usage }) => String(usage?.upstreamCostNanos ?? ""), isInternal: true },
  { name: "relay_session", cell: ({ usage }) => withoutFormula(usage?.relaySession), isInternal: true },
  { name: "sequence", cell: ({ usage }) => (usage ? String(usage.sequence) : ""), isInternal: true },
];

/** Ledger lines as the cells of a CSV file. The header is fixed; new columns come at the end. */
export type LedgerTable = {
  header: readonly string[];
  /** `lines` are in the order of day, account and line. */
  rows: (lines: AsyncIterable<LedgerLine>) => AsyncGenerator<string[]>;
};

const tableOf = (shown: LedgerColumn[]): LedgerTable => ({
  header: [...shown.map(({ name }) => name), ...usageBuckets.map((bucket) => UsageSchema.field[bucket].name)],
  rows: async function* (lines) {
    const added = unitsAdded();
    for await (const line of lines) {
      yield [...shown.map(({ cell }) => cell(line)), ...added(line).map((count) => (line.usage ? String(count) : ""))];
    }
  },
});

/** All that a line says. */
export const operatorTable = tableOf(columns);

/** What those who pay may see. */
export const accountTable = tableOf(columns.filter(({ isInternal }) => !isInternal));

// To the second, UTC.
const instant = (at: Timestamp | undefined): string => (at ? `${timestampDate(at).toISOString().slice(0, 19)}Z` : "");

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
