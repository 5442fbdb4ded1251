import { fromBinary } from "@bufbuild/protobuf";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { usageBuckets } from "#shared/money/pricing.ts";
import { counted, listed, right, usd, wrong, type CheckResult } from "../records/finding.ts";
import { unitColumns } from "../store/columns.ts";
import type { OpenQuarantineRow, PriceSample } from "../store/reconcile-quarantine.ts";

/** What R10 judges. `late` are finals that came after a provisional charge. */
export type Oddities = {
  quarantined: readonly OpenQuarantineRow[];
  prices: readonly PriceSample[];
  late: { count: bigint; nanos: bigint };
  /** Records booked at what is possible that wait for a person. */
  doubts: bigint;
};

/**
 * R10: nothing stays in quarantine, no price version means two prices (money invariant I14), and finals that came late
 * are told.
 */
export function judgeOddities({ quarantined, prices, late, doubts }: Oddities): CheckResult {
  const conflicts = prices.filter(isConflict);
  const lateWords = `${counted(late.count, "final")} after a provisional charge, ${usd(late.nanos)} more`;
  const doubtWords =
    doubts > 0n && `${counted(doubts, "record")} with impossible counts booked, for a person to look at`;
  if (quarantined.length + conflicts.length === 0) {
    const notable = [doubtWords, late.count > 0n && lateWords].filter((part) => part !== false);
    const nothing = doubtWords ? "nothing else in quarantine" : "nothing in quarantine";
    return notable.length > 0 ? listed([nothing, ...notable].join("; ")) : right(nothing);
  }
  const others = quarantined.filter(({ reason }) => reason.startsWith("content_conflict")).length;
  const words = [
    `${counted(quarantined[0]?.rows ?? 0n, "record")} in quarantine, ${others} with other content than is booked`,
    conflicts.length > 0 && `${counted(conflicts.length, "call")} charged by other prices than their version's`,
    doubtWords,
    lateWords,
  ].filter((part) => part !== false);
  return wrong(words.join("; "), [
    ...quarantined.map(({ id, rid, reason }) => `quarantine ${id}: ${rid ?? "no call"}, ${reason}`),
    ...conflicts.map(({ rid, model, version }) => `${rid}: other prices than those of ${model} ${version}`),
  ]);
}

function isConflict({ event, prices }: PriceSample): boolean {
  if (prices === null) return false;
  const charged = fromBinary(UsageRecordedSchema, event).unitPriceNanos;
  return usageBuckets.some((bucket, index) => {
    const name = unitColumns[index] ?? "";
    return (charged?.[bucket] ?? 0n) !== BigInt(prices[name] ?? 0);
  });
}
