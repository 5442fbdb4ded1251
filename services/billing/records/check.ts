import { dayMs } from "#shared/process/clock.ts";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { costNanos, nanosOf, usageBuckets, type UsageBucket, type Units } from "#shared/money/pricing.ts";
import type { UsageRecord } from "./usage-record.ts";

/** Why a record is in quarantine instead of in the ledger; the README says what to do about each. */
export const rejectReasons = [
  "unreadable",
  "rid_invalid",
  "kind_unknown",
  "account_invalid",
  "key_invalid",
  "day_out_of_range",
  "units_negative",
  "price_missing",
  "cost_mismatch",
  "cost_out_of_range",
  "hold_unproven",
  "content_conflict",
  "balance_overflow",
  "refused_by_database",
  // Booked all the same: kept for a person to look at.
  "usage_impossible",
] as const;

export type RejectReason = (typeof rejectReasons)[number];

export type Rejection = { reason: RejectReason; detail: string };

/** How many days from today the day of a line may be, at most: before today, and after. */
export const oldestDays = 60;
export const newestDays = 1;
const idPattern = /^[A-Za-z0-9_-]{1,64}$/;

/** Whether a text is an id of an account or key. */
export function isId(text: string): boolean {
  return idPattern.test(text);
}

// Nearly all events are of one day or two, and writing a date costs more than looking it up.
const dayNames = new Map<number, string>();
const keptDayNames = 1_000;

/** UTC day of an instant, YYYY-MM-DD. */
export function dayOfMs(atMs: number): string {
  const day = Math.floor(atMs / dayMs);
  const known = dayNames.get(day);
  if (known !== undefined) return known;
  if (dayNames.size >= keptDayNames) dayNames.clear();
  const name = new Date(atMs).toISOString().slice(0, 10);
  dayNames.set(day, name);
  return name;
}

/** Why an event must not be booked; undefined when it may. `atMs` is the time in its rid, if that is one. */
export function checkEvent(event: UsageRecord, atMs: number | undefined, nowMs: number): Rejection | undefined {
  if (atMs === undefined) return { reason: "rid_invalid", detail: JSON.stringify(event.rid.slice(0, 100)) };
  if (event.kind !== RecordKind.FINAL && event.kind !== RecordKind.PROVISIONAL) {
    return { reason: "kind_unknown", detail: `kind ${event.kind}` };
  }
  if (!isId(event.accountId))
    return { reason: "account_invalid", detail: JSON.stringify(event.accountId.slice(0, 100)) };
  if (!isId(event.keyId)) return { reason: "key_invalid", detail: JSON.stringify(event.keyId.slice(0, 100)) };
  return checkDay(atMs, nowMs) ?? (isCostRight(event) ? undefined : checkCost(event));
}

// Beyond these days there is no partition, and a copy of the event could no longer be told from a new one.
function checkDay(atMs: number, nowMs: number): Rejection | undefined {
  const days = Math.floor(atMs / dayMs) - Math.floor(nowMs / dayMs);
  if (days >= -oldestDays && days <= newestDays) return undefined;
  return { reason: "day_out_of_range", detail: `the rid is ${days} days from today` };
}

const usedBuckets = (units: Units): UsageBucket[] => Object.keys(units) as UsageBucket[];

// What checkCost asks, of the buckets that are there: two or three of some twenty.
function isCostRight({ usage = {}, unitPriceNanos: prices = {}, costNanos: told }: UsageRecord): boolean {
  let millionths = 0n;
  for (const bucket of usedBuckets(usage)) {
    const units = usage[bucket] ?? 0n;
    const price = prices[bucket] ?? 0n;
    if (units < 0n || price <= 0n) return false;
    millionths += units * price;
  }
  for (const bucket of usedBuckets(prices)) if ((prices[bucket] ?? 0n) < 0n) return false;
  return told <= maxAccountNanos && nanosOf(millionths) === told;
}

function checkCost(event: UsageRecord): Rejection | undefined {
  const usage: Units = event.usage ?? {};
  const prices: Units = event.unitPriceNanos ?? {};
  for (const bucket of usageBuckets) {
    const units = usage[bucket] ?? 0n;
    const price = prices[bucket] ?? 0n;
    if (units < 0n || price < 0n) return { reason: "units_negative", detail: `${bucket}: ${units} at ${price}` };
    // A price of 0 is not told from a missing one on the wire, and neither may make use pass as free.
    if (units > 0n && price === 0n) return { reason: "price_missing", detail: `${bucket}: ${units} without a price` };
  }
  const cost = costNanos(usage, prices);
  if (cost !== event.costNanos) {
    return { reason: "cost_mismatch", detail: `the event says ${event.costNanos}, its units and prices give ${cost}` };
  }
  if (cost > maxAccountNanos) return { reason: "cost_out_of_range", detail: `${cost} nano-USD` };
  return undefined;
}
