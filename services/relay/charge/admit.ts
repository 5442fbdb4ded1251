import { hash } from "node:crypto";
import { maxAccountNanos } from "#shared/money/money.ts";
import { Verdict, type Result } from "#proto/authquota/v1/authquota_pb.ts";
import type { Model } from "../catalog/models.ts";
import type { Envelope } from "../dialects/dialect.ts";
import { CallFailure, type Failure } from "../failures.ts";
import { addressBlock } from "./address-block.ts";
import { estimateNanos } from "./meter.ts";
import type { Hold, Leases } from "./leases.ts";
import type { QuotaSession } from "./quota-session.ts";
import { clockProblem } from "./clock-skew.ts";

export type KeyOwner = { accountId: string; keyId: string };

/** Who calls: the SHA-256 of the key (the secret itself goes no further than here) and the address that counts. */
export type Caller = {
  keyHash: Uint8Array;
  address: string;
  /** The address in full, where that is only its block; for the addresses that a key is limited to. */
  from: string;
  /** "" until the key is known. */
  accountId: string;
  /** Whose key it is, also where it is refused; undefined while that is not known, and of a key that is none. */
  owner?: KeyOwner;
  /** Whether the key was found right before: an address counts against its rate once for a request. */
  isAuthorized: boolean;
};

export function callerOf(key: string, ip: string): Caller {
  // Node makes a text of the hash in a third of the time that its own buffer takes.
  const keyHash = Buffer.from(hash("sha256", key, "binary"), "latin1");
  return newCaller(keyHash, ip);
}

/** A caller of whose key the hash is known. */
export function newCaller(keyHash: Uint8Array, ip: string): Caller {
  const address = addressBlock(ip);
  return { keyHash, address, from: address.includes(":") ? ip : "", accountId: "", isAuthorized: false };
}

/** The address that auth-quota counts, and what else it checks of it; "" counts none. */
const countedIp = ({ address, isAuthorized }: Caller): string => (isAuthorized ? "" : address);
const checkedAddress = ({ from, isAuthorized }: Caller): string => (isAuthorized ? "" : from);

/** What a verdict means to the caller; undefined for a yes. */
function failureOf({ verdict, retryAfterSeconds, isAddressRefused }: Result, model: string): Failure | undefined {
  switch (verdict) {
    case Verdict.OK:
      return undefined;
    case Verdict.KEY_INVALID:
      if (!isAddressRefused) return { name: "key_invalid" };
      return { name: "key_invalid", reason: "key_address", cause: "the key is limited to other addresses" };
    case Verdict.KEY_LIMIT:
      return { name: "key_limit", detail: model };
    case Verdict.BALANCE:
      return { name: "balance", detail: model };
    case Verdict.MODEL:
      return { name: "model_unavailable", detail: model };
    case Verdict.ACCOUNT_RATE:
      return { name: "account_rate", detail: model };
    case Verdict.IP_RATE:
      return { name: "ip_rate", retryAfterSeconds };
    case Verdict.UNSPECIFIED:
    case Verdict.UNAVAILABLE:
    case Verdict.NO_HOLD:
    case Verdict.CONFLICT:
    default:
      // No decision was made on money or on the key: 503, never 401 or 403, and never open.
      return { name: "service_unavailable", cause: `verdict ${verdict}` };
  }
}

function noteOwner(caller: Caller, { accountId, keyId }: KeyOwner): void {
  if (keyId !== "") caller.owner = { accountId, keyId };
}

/** Nobody waits for an answer that cannot come: while auth-quota is away, callers hear so at once. */
function requireReachable(quota: QuotaSession): void {
  if (!quota.isReachable())
    throw new CallFailure({ name: "service_unavailable", cause: "auth-quota is not reachable" });
}

/** Where keys are checked and calls are admitted: within leases, else at auth-quota. */
export type Admitting = { settling: { quota: QuotaSession }; leases?: Leases | undefined };

/**
 * Checks a key without holding money; gives the models that it may use (none named: all). One that has used up its
 * limit is refused like a wrong one, unless it may be so.
 */
export async function authorize(
  { settling: { quota }, leases }: Admitting,
  caller: Caller,
  mayBeUsedUp = false,
): Promise<Result> {
  const asking = { keyHash: caller.keyHash, ip: countedIp(caller) };
  const result = leases?.authorize(asking) ?? (await askAboutKey(quota, caller, mayBeUsedUp));
  noteOwner(caller, result);
  const failure = failureOf(result, "");
  if (failure) throw new CallFailure(failure);
  caller.isAuthorized = true;
  caller.accountId = result.accountId;
  return result;
}

function askAboutKey(quota: QuotaSession, caller: Caller, mayBeUsedUp: boolean): Promise<Result> {
  requireReachable(quota);
  const { keyHash } = caller;
  const value = { keyHash, ip: countedIp(caller), mayBeUsedUp, address: checkedAddress(caller) };
  return quota.ask({ operation: { case: "authorize", value } });
}

/**
 * Admits a call: checks the key and its rates and holds the estimated price, within a lease, else in one round trip. A
 * hold of which nothing is known, because no answer came in time, is released: it may have been made, and this call
 * will never use it.
 */
export async function admit(
  { settling: { quota }, leases }: Admitting,
  caller: Caller,
  { rid, envelope, model, traceparent = "" }: { rid: string; envelope: Envelope; model: Model; traceparent?: string },
): Promise<Hold> {
  const estimate = estimateNanos(envelope, model);
  // More than an account can hold is more than it has, and no amount that auth-quota reads.
  const estimated = estimate < maxAccountNanos ? estimate : maxAccountNanos;
  const wanted = { rid, model: model.id, estimateNanos: estimated, traceparent };
  if (!leases) return admitAtPrice(quota, caller, wanted);
  const leased = { ...wanted, keyHash: caller.keyHash, ip: countedIp(caller) };
  const held = leases.admit(leased);
  if (held) {
    noteOwner(caller, held);
    caller.accountId = held.accountId;
    return held;
  }
  const hold = await admitAtPrice(quota, caller, wanted);
  leases.noteAdmitted(leased);
  return hold;
}

/** The same for a price that is known. */
export async function admitAtPrice(
  quota: QuotaSession,
  caller: Caller,
  wanted: { rid: string; model: string; estimateNanos: bigint; traceparent: string },
): Promise<Hold> {
  requireReachable(quota);
  const generation = quota.generation();
  const { rid, model } = wanted;
  const from = { keyHash: caller.keyHash, ip: countedIp(caller), address: checkedAddress(caller) };
  const result = await quota.ask({ operation: { case: "reserve", value: { ...from, ...wanted } } });
  noteOwner(caller, result);
  if (result.verdict === Verdict.UNAVAILABLE)
    void quota.tell({ operation: { case: "release", value: { rid, keyHash: caller.keyHash } } });
  const failure = failureOf(result, model);
  if (failure?.name === "service_unavailable") failure.cause = clockProblem(quota.clockAheadMs()) ?? failure.cause;
  if (failure) throw new CallFailure(failure);
  const { accountId, keyId, heldNanos, holdSecret } = result;
  caller.accountId = accountId;
  return { accountId, keyId, heldNanos, holdSecret, generation };
}
