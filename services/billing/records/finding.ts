import { Finding } from "#proto/billing/v1/billing_pb.ts";
import { formatUsd } from "#shared/money/money.ts";
import type { ReportLine } from "#shared/money/report.ts";

/** What a check has found; `differenceNanos` is money on one side that nothing explains, never negative. */
export type CheckResult = Omit<ReportLine, "check" | "name">;

/** The span of calls that a run looks at: those whose rid was made within it. `day` is set for a report of a day. */
export type Window = { day: string | undefined; fromMs: number; untilMs: number; nowMs: number };

/** How many of the things found are named. */
export const maxItems = 100;

const nothing = { differenceNanos: 0n, items: [] };

export function right(summary: string): CheckResult {
  return { finding: Finding.RIGHT, summary, ...nothing };
}

/** Something that is explained. */
export function listed(summary: string, items: string[] = []): CheckResult {
  return { finding: Finding.LISTED, summary, differenceNanos: 0n, items: items.slice(0, maxItems) };
}

export function wrong(summary: string, items: string[], differenceNanos = 0n): CheckResult {
  return { finding: Finding.WRONG, summary, differenceNanos, items: items.slice(0, maxItems) };
}

export function unchecked(why: string): CheckResult {
  return { finding: Finding.UNCHECKED, summary: why, ...nothing };
}

/** Right when nothing is wrong, however little there is to tell. */
export function listedIfAny(summary: string, items: string[]): CheckResult {
  return items.length > 0 ? listed(summary, items) : right(summary);
}

export function absolute(nanos: bigint): bigint {
  return nanos < 0n ? -nanos : nanos;
}

/** An amount in words. */
export function usd(nanos: bigint): string {
  return `${formatUsd(nanos)} USD`;
}

/** "1 call", "2 calls". */
export function counted(count: bigint | number, one: string, many = `${one}s`): string {
  return `${count} ${BigInt(count) === 1n ? one : many}`;
}
