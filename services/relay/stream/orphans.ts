import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { endName } from "#shared/money/end-name.ts";
import type { SettlementDeps } from "../charge/settle.ts";
import type { LiveCall } from "../live-call.ts";
import type { SendSignal } from "../upstream/send.ts";
import { checkpoint } from "./guard.ts";

/** How many answers are read on at once without their callers; `maxPerAccount` is for whole ones, kept in memory. */
export type OrphanLimits = { max: number; maxPerAccount: number };

// As many as files of videos. Each may hold a connection and a part of its account's money.
const defaultLimits: OrphanLimits = { max: 256, maxPerAccount: 32 };

/** Calls whose callers have left while an upstream was at work on them. */
export type Orphans = {
  /** How many are read on now. */
  readonly size: number;
  /**
   * Decides what becomes of a call whose caller has left. Nothing is owed before its upstream has the whole request.
   * From then on the upstream may bill it: the answer is read on without its caller, within limits, or the call is cut
   * and charged at least for its input.
   */
  leave: (call: LiveCall, signal: SendSignal) => void;
  /** Takes a call out that has ended; nothing happens where it was no orphan. */
  end: (call: LiveCall) => void;
};

type ReadOn = { timer: NodeJS.Timeout; sinceMs: number; isTimedOut: boolean };

type OrphanDeps = Pick<SettlementDeps, "metrics" | "log">;

function report({ metrics, log }: OrphanDeps, { rid, upstream }: LiveCall, reason: string, readMs: number): void {
  metrics.orphanEnds.inc({ upstream, reason });
  log.info({ rid, upstream, reason, readMs }, "the caller of a call had left");
}

/** Why the reading ended: its own limits, or as the answer did. */
function reasonOf({ tally, maxContentTokens, answerEnd }: LiveCall, { isTimedOut }: ReadOn): string {
  if (answerEnd !== EndCause.CLIENT_GONE) return endName(answerEnd);
  if (isTimedOut) return "timeout";
  return tally.contentTokens > maxContentTokens ? "max_tokens" : "cut";
}

class OrphanSet implements Orphans {
  private readonly settling: SettlementDeps;
  private readonly limits: OrphanLimits;
  private readonly readOn = new Map<LiveCall, ReadOn>();
  private readonly byAccount = new Map<string, number>();

  constructor(settling: SettlementDeps, limits: OrphanLimits) {
    this.settling = settling;
    this.limits = limits;
  }

  get size(): number {
    return this.readOn.size;
  }

  leave(call: LiveCall, { isBillable }: SendSignal): void {
    call.isOrphan = isBillable && call.endCause === EndCause.UNSPECIFIED;
    const { onCallerGone } = call;
    if (!call.isOrphan) return call.cut(EndCause.CLIENT_GONE);
    const obstacle = this.obstacleTo(call);
    if (obstacle || onCallerGone.action === "abort") {
      report(this.settling, call, obstacle ?? "abort", 0);
      return call.cut(EndCause.CLIENT_GONE);
    }
    const { timeoutMs, maxOutputTokens } = onCallerGone;
    call.maxContentTokens = call.tally.contentTokens + maxOutputTokens;
    const timer = setTimeout(() => this.timeOut(call), timeoutMs);
    this.readOn.set(call, { timer, sinceMs: performance.now(), isTimedOut: false });
    this.count(call, 1);
    // A kill from here on costs nobody the input, for which the upstream bills.
    checkpoint(this.settling, call, true);
  }

  end(call: LiveCall): void {
    const reading = this.readOn.get(call);
    if (!reading) return;
    clearTimeout(reading.timer);
    this.readOn.delete(call);
    this.count(call, -1);
    report(this.settling, call, reasonOf(call, reading), Math.round(performance.now() - reading.sinceMs));
  }

  /** Why one more answer is not read on. */
  private obstacleTo({ accountId, isStream }: LiveCall): "process_full" | "account_full" | undefined {
    const { max, maxPerAccount } = this.limits;
    const free = max - this.readOn.size;
    if (free <= 0) return "process_full";
    const own = this.byAccount.get(accountId) ?? 0;
    // A stream is thrown away as it comes, so an account may have as many as it leaves to others.
    return own < (isStream ? Math.max(free, maxPerAccount) : maxPerAccount) ? undefined : "account_full";
  }

  private count({ accountId }: LiveCall, change: number): void {
    const count = (this.byAccount.get(accountId) ?? 0) + change;
    if (count > 0) this.byAccount.set(accountId, count);
    else this.byAccount.delete(accountId);
  }

  private timeOut(call: LiveCall): void {
    const reading = this.readOn.get(call);
    if (reading) reading.isTimedOut = true;
    call.cut(EndCause.CLIENT_GONE);
  }
}

export function createOrphans(settling: SettlementDeps, limits = defaultLimits): Orphans {
  return new OrphanSet(settling, limits);
}
