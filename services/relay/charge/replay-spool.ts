import { fromBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { RecordKind, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { accountHash } from "#shared/money/account-hash.ts";
import type { QuotaSession } from "./quota-session.ts";
import { forward, readCharge, type SettlementDeps } from "./settle.ts";
import type { Adopted } from "./spool.ts";
import { closeCheckpoint, takeSecret } from "./spooled-secret.ts";

type UnfinishedCall = {
  rid: string;
  accountId: string;
  keyId: string;
  costNanos: bigint;
  record: Uint8Array;
  holdSecret: Uint8Array;
  isFresh: boolean;
};

/**
 * Whether a call is charged without its checkpoint: its charge had been told of, or auth-quota's checkpoint is newer,
 * or it ended long ago and nobody but an old segment of the spool knows of it.
 */
async function isCharged(
  { quota }: SettlementDeps,
  { rid, accountId, keyId, costNanos, record, isFresh }: UnfinishedCall,
): Promise<boolean> {
  const value = { rid, costNanos, record, accountId };
  const told = await quota.tell({ operation: { case: "checkpoint", value } });
  // The disk was full when auth-quota still heard of the call.
  if (told.checkpointNanos > costNanos) return true;
  if (told.verdict === Verdict.OK) return false;
  const alone = await quota.tell({ operation: { case: "lookup", value: { rid, accountId } } });
  const isUnknown = alone.state === CallState.UNSPECIFIED;
  const state = isUnknown ? await stateWithinLeases(quota, { rid, accountId, keyId }) : alone.state;
  if (state === CallState.UNSPECIFIED) return !isFresh;
  return state === CallState.SETTLED || state === CallState.POSTED;
}

/** What became of a call that may have ended within a lease. */
async function stateWithinLeases(
  quota: QuotaSession,
  { rid, accountId, keyId }: Pick<UnfinishedCall, "rid" | "accountId" | "keyId">,
): Promise<CallState> {
  const rids = Buffer.from(rid.replaceAll("-", ""), "hex");
  const { states } = await quota.tell({ operation: { case: "lookupLeased", value: { rids, accountId, keyId } } });
  return (states[0] ?? CallState.UNSPECIFIED) as CallState;
}

/** Charges a call at the last checkpoint in the spool of its dead relay, unless it is charged otherwise. */
async function settleCheckpoint(settling: SettlementDeps, left: UnfinishedCall): Promise<void> {
  const { spool } = settling;
  if (await isCharged(settling, left)) return spool.confirm(left.rid);
  const { record, bytes } = closeCheckpoint(settling, left);
  spool.append(left.rid, bytes, accountHash(left.accountId));
  faultPoint("relay: call of a dead relay closed, nobody told");
  await forward(settling, record, bytes);
}

// A running call is written down every second at least, and no record is confirmed within its first five.
const freshMs = 4_000;

/**
 * The last checkpoints in the spool of a dead relay. One that was written long before the relay's last word may be of a
 * call that has ended: the record of that is booked and gone, while another call's keeps the old segment.
 */
function leftOf(settling: SettlementDeps, { records, checkpoints }: Adopted): UnfinishedCall[] {
  const read = (record: Uint8Array) => {
    const event = fromBinary(UsageRecordedSchema, record);
    const { rid, accountId, keyId, costNanos, endedAt, kind, relaySession } = event;
    // A video's record is none of the relay's own: another machine's clock wrote it.
    const isOwn = kind === RecordKind.PROVISIONAL || relaySession !== "";
    return { rid, accountId, keyId, costNanos, record, atMs: endedAt && isOwn ? timestampMs(endedAt) : 0 };
  };
  const left = checkpoints.map((spooled) => {
    const { record, holdSecret } = takeSecret(spooled);
    return { ...read(readCharge(settling, record).record), holdSecret };
  });
  const lastMs = [...records.map(read), ...left].reduce((last, { atMs }) => Math.max(last, atMs), 0);
  return left.map(({ atMs, ...one }) => ({ ...one, isFresh: atMs >= lastMs - freshMs }));
}

/**
 * Tells of everything that dead relay processes left in the spool, and charges what they were still serving at its
 * last checkpoint there. Then declares them dead, so that their remaining holds are charged at the checkpoints that
 * auth-quota knows, at once instead of after the silence limit. Resolves when auth-quota has answered all of it.
 */
export async function replaySpool(settling: SettlementDeps): Promise<void> {
  const { spool, quota, log } = settling;
  for (const [relaySession, adopted] of spool.adopt()) {
    const { records, checkpoints } = adopted;
    const charges = records.map((bytes) => readCharge(settling, bytes));
    for (const { charge } of charges) if (charge.isLeased) spool.noteLeased(charge.rid, charge);
    await Promise.all(charges.map(({ charge, record }) => forward(settling, charge, record)));
    await Promise.all(leftOf(settling, adopted).map((left) => settleCheckpoint(settling, left)));
    faultPoint("relay: spool of a dead relay told, its end not");
    await quota.tell({ operation: { case: "endSession", value: { relaySession } } });
    const left = { records: records.length, checkpoints: checkpoints.length };
    log.info({ relaySession, ...left }, "took over the spool of a dead relay");
  }
}
