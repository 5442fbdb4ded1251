import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { LiveCall } from "../live-call.ts";
import { leaveLease } from "../leased-call.ts";
import { runningCostNanos } from "../charge/meter.ts";
import { checkpointRecord, type SettlementDeps } from "../charge/settle.ts";
import { withSecret } from "../charge/spooled-secret.ts";

const extendAtShare = 0.8;
const extendAgainMs = 1_000;
// Longer than a failover of Redis takes. Its caller waits meanwhile, and nobody owes more.
const maxUndecidedMs = 30_000;
const firstCheckpointMs = 2_000;
const nextCheckpointMs = 5_000;
const checkpointStepNanos = 10_000_000;
const spoolEveryMs = 250;

// The word of a hold, a draw within a lease or a restore, is told again after a while, and may be overtaken.
const undecided: ReadonlySet<Verdict> = new Set([Verdict.UNAVAILABLE, Verdict.NO_HOLD]);

/** Asks for half as much again, or for what there is; whatever is not a yes leaves the stream with what it has. */
function extend(settling: SettlementDeps, call: LiveCall, nowMs: number): void {
  call.isExtending = true;
  call.extendAtMs = nowMs;
  leaveLease(call.leased);
  const totalNanos = call.heldNanos + call.heldNanos / 2n + 1n;
  const leastNanos = call.heldNanos + 1n;
  const { rid, accountId } = call;
  void settling.quota
    .ask({ operation: { case: "extend", value: { rid, totalNanos, leastNanos, accountId } } })
    .then(({ verdict, heldNanos }) => {
      call.isExtending = false;
      if (undecided.has(verdict) && canWait(call, nowMs)) return;
      call.undecidedAtMs = 0;
      call.isRefused = verdict !== Verdict.OK || heldNanos <= call.heldNanos;
      if (!call.isRefused) call.heldNanos = heldNanos;
      // What has waited may come within this, and is looked at with the hold of now.
      call.holdBack?.(false);
      if (call.isRefused) guardStream(settling, call, nowMs);
    });
}

/** Whether the stream can wait for another answer; one that cannot be held back would be served for nothing. */
function canWait(call: LiveCall, nowMs: number): boolean {
  if (!call.holdBack) return false;
  call.undecidedAtMs ||= nowMs;
  return nowMs - call.undecidedAtMs < maxUndecidedMs;
}

/**
 * Writes down what the call cost so far: in the spool, which outlives a kill of this process, and now and then at
 * auth-quota, which outlives the loss of its disk.
 */
export function checkpoint({ spool, quota }: SettlementDeps, call: LiveCall, isTold: boolean): void {
  const { costNanos, record } = checkpointRecord(call);
  if (costNanos === 0n) return;
  const { rid, accountId } = call;
  spool.checkpoint(rid, withSecret(record, call.holdSecret));
  if (!isTold) return;
  leaveLease(call.leased);
  void quota.tell({ operation: { case: "checkpoint", value: { rid, costNanos, record, accountId } } });
}

/**
 * Looks after the money of a running stream; called for each piece that passes and about once a second. A stream that
 * outgrows its hold asks for more, waits for the answer when it has used up all that it holds, and is cut when it gets
 * none: a slow answer is no way to be served for more than an account has. Where nothing can be decided it waits, too,
 * at most 30 s. What it cost so far is written into the spool every 250 ms, and told to auth-quota first after 2 s or
 * 0.01 USD, then every 5 s or 0.01 USD.
 */
export function guardStream(settling: SettlementDeps, call: LiveCall, nowMs = performance.now()): void {
  const { tally, isOrphan } = call;
  if (call.endCause !== EndCause.UNSPECIFIED || !(tally.hasContent || isOrphan)) return;
  if (tally.contentTokens > call.maxContentTokens) return call.cut(EndCause.CLIENT_GONE);
  const costSoFar = runningCostNanos(tally, call.model, call.requested);
  const held = Number(call.heldNanos);
  if (costSoFar >= held * extendAtShare && !call.isExtending) {
    if (costSoFar >= held && call.isRefused) return call.cut(EndCause.HOLD_EXHAUSTED);
    const hasAsked = call.isRefused || call.undecidedAtMs > 0;
    if (!hasAsked || nowMs - call.extendAtMs >= extendAgainMs) extend(settling, call, nowMs);
  }
  if (costSoFar >= held && (call.isExtending || call.undecidedAtMs > 0)) call.holdBack?.(true);
  const dueMs = call.checkpointNanos === 0 ? firstCheckpointMs : nextCheckpointMs;
  const isTold = nowMs - call.checkpointAtMs >= dueMs || costSoFar - call.checkpointNanos >= checkpointStepNanos;
  if (!isTold && nowMs - call.spooledAtMs < spoolEveryMs) return;
  call.spooledAtMs = nowMs;
  if (isTold) {
    call.checkpointAtMs = nowMs;
    call.checkpointNanos = costSoFar;
  }
  checkpoint(settling, call, isTold);
}

const maxStallMs = 60_000;

/** The regular look at all running calls: money as for each piece, and callers who have stopped reading. */
export function guardLive(settling: SettlementDeps, live: Iterable<LiveCall>, heartbeatMs = 0): void {
  settling.watch.lookedAtMs = Date.now();
  for (const call of live) {
    if (heartbeatMs > 0) call.beat(heartbeatMs);
    guardStream(settling, call);
    // A caller that reads nothing for a minute has left.
    if (call.stalledMs() > maxStallMs) call.hangUp();
  }
}
