import type { MessageInitShape } from "@bufbuild/protobuf";
import { Verdict, type OperationSchema, type Result } from "#proto/authquota/v1/authquota_pb.ts";
import type { ActiveMember, ActiveSet } from "#shared/process/active-set.ts";

/** The session with auth-quota, as far as leased calls are told by it. */
type Quota = {
  tellThen: (operation: MessageInitShape<typeof OperationSchema>, onAnswer: (told: Result) => void) => void;
};

/** A lease of this process: what is left of it, and the calls within it. */
export type Lease = {
  rid: string;
  accountId: string;
  keyId: string;
  /** Undefined: all. */
  models: Set<string> | undefined;
  secrets: Uint8Array;
  generation: string;
  leftNanos: bigint;
  leftCalls: number;
  /** Below one of them, or after that time, the next lease is asked for. */
  renewNanos: bigint;
  renewCalls: number;
  renewAtMs: number;
  endsAtMs: number;
  usedAtMs: number;
  ipPerMinute: number;
  /** Whether auth-quota takes the charge of a call without a draw before it. */
  maySettleLeased: boolean;
  /** Calls that it has not been told of. */
  open: ActiveSet<LeasedCall>;
  /** Draws and charges that it has not answered: they must reach it before the lease is released. */
  untold: number;
  /** Calls that it is never told of, because nothing was sent to an upstream. */
  unsent: number;
  isEnded: boolean;
  quota: Quota;
  /** Lets an address wait that has used up its rate. */
  noteAddress: (ip: string, counted: Result) => void;
};

/** A call for which money is held within a lease, until the call ends or gets a hold of its own. */
export type LeasedCall = ActiveMember & {
  lease: Lease;
  rid: string;
  heldNanos: bigint;
  ip: string;
  holdSecret: Uint8Array;
};

/** The call while it is within its lease: nothing is told of it, and its charge will say all. */
export const withinLease = (call: LeasedCall | undefined): LeasedCall | undefined =>
  call && call.activeIndex !== -1 ? call : undefined;

/** Tells of a call that was admitted within a lease: it has a hold of its own from then on. */
export function draw({ lease, rid, heldNanos, ip, holdSecret }: LeasedCall): void {
  const { rid: leaseRid, accountId, keyId, quota } = lease;
  lease.untold += 1;
  const value = { rid, leaseRid, accountId, keyId, heldNanos, ip, holdSecret };
  quota.tellThen({ operation: { case: "draw", value } }, (drawn) => noteTold(lease, ip, drawn));
}

/** Takes a call out of its lease that lasts, asks for more, or whose lease ends; before anything else is told of it. */
export function leaveLease(call: LeasedCall | undefined): void {
  if (call?.lease.open.delete(call)) draw(call);
}

/** The same of a call whose hold is told otherwise. */
export function forgetLease(call: LeasedCall | undefined): void {
  call?.lease.open.delete(call);
}

/** Takes the charge of a call out of its lease, before it is told: what else was held for it is there for others. */
export function chargeWithin(call: LeasedCall, costNanos: bigint): void {
  const { lease, heldNanos } = call;
  lease.open.delete(call);
  lease.leftNanos += heldNanos - costNanos;
  lease.untold += 1;
}

/** To be called when auth-quota has answered the draw or charge of a call. */
export function noteTold(lease: Lease, ip: string, told: Result): void {
  lease.untold -= 1;
  if (told.verdict === Verdict.IP_RATE) lease.noteAddress(ip, told);
  releaseEnded(lease);
}

/** Puts back what is held for a call that nothing was sent of; false: it has left its lease. */
export function freeWithin(call: LeasedCall | undefined): boolean {
  if (!call?.lease.open.delete(call)) return false;
  call.lease.leftNanos += call.heldNanos;
  call.lease.unsent += 1;
  return true;
}

/** Ends a lease: its open calls get holds of their own, and what is left of it is free when they have. */
export function endLease(lease: Lease): void {
  lease.isEnded = true;
  for (const call of lease.open) leaveLease(call);
  releaseEnded(lease);
}

/** An ended lease is released behind its last draw, so that no draw finds it gone. */
function releaseEnded({ quota, rid, accountId, untold, unsent, isEnded }: Lease): void {
  if (!isEnded || untold > 0) return;
  const value = { rid, accountId, calls: unsent };
  quota.tellThen({ operation: { case: "release", value } }, () => undefined);
}
