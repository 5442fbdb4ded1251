import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { LiveCall } from "../live-call.ts";
import { forgetLease } from "../leased-call.ts";
import { checkpointRecord, confirmBooked, type SettlementDeps } from "./settle.ts";

// Far more than a spool holds: a pass ends even when records come faster than they are confirmed.
const mostPasses = 1_000;

/**
 * Makes the look at whether auth-quota still knows what this relay told it. When its store comes back with less
 * (another generation), every open hold is restored with what the call has cost so far, and every charge that is not
 * known to be booked is told again where it was lost. Until then nobody is granted anything (rule M8 of the script).
 */
export function createRestore(settling: SettlementDeps, live: Iterable<LiveCall>): () => Promise<void> {
  let known = "";
  return async () => {
    const generation = settling.quota.generation();
    if (generation === "") return;
    // At every look: a call that was granted before the loss may join the live ones after the look that heard of it.
    const holds = restoreHolds(settling, live, generation);
    if (generation === known) return;
    const isFirst = known === "";
    known = generation;
    if (isFirst) return;
    const records = settling.spool.openRecords();
    settling.log.warn({ generation, holds, records }, "auth-quota has lost calls: telling them again");
    faultPoint("relay: holds restored, charges not told again");
    await tellAgain(settling);
  };
}

function restoreHolds(settling: SettlementDeps, live: Iterable<LiveCall>, generation: string): number {
  let holds = 0;
  for (const call of live) {
    if (call.generation === generation || call.endCause !== EndCause.UNSPECIFIED) continue;
    call.generation = generation;
    forgetLease(call.leased);
    holds += 1;
    const { rid, accountId, keyId, heldNanos, holdSecret } = call;
    const { costNanos, record } = call.tally.hasContent || call.isOrphan ? checkpointRecord(call) : nothing;
    const told = { costNanos, record: costNanos > 0n ? record : nothing.record };
    const value = { rid, accountId, keyId, heldNanos, ...told, holdSecret };
    void settling.quota.tell({ operation: { case: "restore", value } });
  }
  return holds;
}

const nothing = { costNanos: 0n, record: new Uint8Array() };

async function tellAgain(settling: SettlementDeps): Promise<void> {
  const beforeMs = performance.now();
  for (let pass = 0; pass < mostPasses; pass += 1) {
    // Nothing heard: all are told, or auth-quota is away; the regular look goes on from there.
    if ((await confirmBooked(settling, beforeMs)) === 0) return;
  }
}
