import { Verdict, type Result } from "#proto/authquota/v1/authquota_pb.ts";
import { leasedSecret } from "#shared/money/hold-proof.ts";
import { createRid } from "#shared/money/rid.ts";
import { createActiveSet } from "#shared/process/active-set.ts";
import { draw, endLease, type Lease, type LeasedCall } from "../leased-call.ts";
import { resultOf } from "./session-wire.ts";
import type { QuotaSession } from "./quota-session.ts";

/** A call that asks to be admitted. */
export type WantedCall = AskingCaller & { rid: string; model: string; estimateNanos: bigint };

/** Whose key is to be checked; an address of "" is counted already. */
export type AskingCaller = { keyHash: Uint8Array; ip: string };

/**
 * What this process may give to calls without asking: for keys whose calls come often it holds a lease, an amount of
 * money and a number of calls that auth-quota has set aside (rule M9 of the money script).
 */
export type Leases = {
  /** Admits a call within a lease, at once, and tells auth-quota afterwards. Undefined: ask. */
  admit: (wanted: WantedCall) => Hold | undefined;
  /** Checks a key that has a lease: all that would stop it asks the lease back. Undefined: ask. */
  authorize: (asking: AskingCaller) => Result | undefined;
  /** Counts a call that auth-quota has admitted. */
  noteAdmitted: (wanted: WantedCall) => void;
  /** Gives back what has ended or is not used; to be called every half second. */
  sweep: () => void;
  /** Gives everything back; nothing is admitted any more. */
  close: () => void;
  /** Leases that calls may be admitted within. */
  size: () => number;
};

/** What is held for an admitted call; the generation is that of the moment in which it was asked for. */
export type Hold = {
  accountId: string;
  keyId: string;
  heldNanos: bigint;
  holdSecret: Uint8Array;
  generation: string;
  /** Where it is held within a lease, and auth-quota has not been told of it. */
  leased?: LeasedCall | undefined;
};

/** What is known of a key's calls. */
type KeyUse = {
  lease: Lease | undefined;
  isAsking: boolean;
  /** Monotonic ms before which no lease is asked for. */
  waitUntilMs: number;
  /** Calls, and their estimates, since that time. */
  sinceMs: number;
  calls: number;
  nanos: bigint;
  /** Calls a second and their mean estimate, by the most of the last seconds. */
  perSecond: number;
  meanNanos: bigint;
};

const windowMs = 1_000;
// What is left of the most of earlier seconds after one more. By the last second alone a calm one would make a lease
// that the next dear call does not fit in.
const rememberedShare = 0.8;
// As long as auth-quota grants them.
const usualMs = 10_000;
// More than the rate so far would take: it may grow.
const headroom = 1.5;
const leastCalls = 16;
const refusedMs = 5_000;
const unansweredMs = 1_000;
// The next one is asked for when this part of the time has passed: what is left outlasts a failover of the hot store.
const renewAtShare = 0.2;
const recalledMs = 10_000;
const maxKeys = 10_000;
const maxAddresses = 10_000;
const maxCalls = 100_000;
// auth-quota and its store are on another clock, which must not differ by much for the hours of secrets to agree.
const mostSkewMs = 60_000;
const minuteMs = 60_000;

type State = {
  quota: QuotaSession;
  settings: LeaseSettings;
  keys: Map<string, KeyUse>;
  /** Theoretical arrival times (monotonic ms) of addresses whose calls were admitted here. */
  arrivals: Map<string, number>;
  counts: LeaseCounts;
  size: number;
  isClosed: boolean;
};

/** Told of each call that was admitted within a lease, and of each lease that was asked back. */
export type LeaseCounts = { admitted: () => void; recalled: () => void };

export type LeaseSettings = {
  /** From how many calls of a key in a second on a lease is asked for. */
  leastPerSecond: number;
  /** How long an unused lease is kept. */
  idleMs: number;
  makeRid: () => string;
};

export const leaseSettings = { idleMs: 2_000, makeRid: createRid };

const nameOf = (keyHash: Uint8Array): string =>
  (Buffer.isBuffer(keyHash) ? keyHash : Buffer.from(keyHash)).toString("latin1");

/** Makes the leases of a process, none yet. */
export function createLeases(quota: QuotaSession, counts: LeaseCounts, settings: LeaseSettings): Leases {
  const state: State = {
    quota,
    settings,
    keys: new Map(),
    arrivals: new Map(),
    counts,
    size: 0,
    isClosed: false,
  };
  quota.onRecalled((rids) => recall(state, rids));
  return {
    admit: (wanted) => admit(state, wanted),
    authorize: (asking) => authorize(state, asking),
    noteAdmitted: (wanted) => noteAdmitted(state, wanted),
    sweep: () => sweep(state),
    close: () => {
      state.isClosed = true;
      for (const use of state.keys.values()) end(state, use);
      state.keys.clear();
    },
    size: () => state.size,
  };
}

function admit(state: State, wanted: WantedCall): Hold | undefined {
  const use = state.keys.get(nameOf(wanted.keyHash));
  const lease = use?.lease;
  if (!lease) return undefined;
  const nowMs = performance.now();
  if (!mayAdmit(state, lease, wanted, nowMs)) return undefined;
  const holdSecret = leasedSecret(lease.secrets, lease.rid, wanted.rid);
  if (!holdSecret || !countAddress(state, wanted.ip, lease.ipPerMinute, nowMs)) return undefined;
  const { accountId, keyId, generation } = lease;
  lease.leftNanos -= wanted.estimateNanos;
  lease.leftCalls -= 1;
  lease.usedAtMs = nowMs;
  state.counts.admitted();
  count(use, wanted.estimateNanos, nowMs);
  const { rid, estimateNanos: heldNanos, ip } = wanted;
  const leased: LeasedCall = { activeIndex: -1, lease, rid, heldNanos, ip, holdSecret };
  if (lease.maySettleLeased) lease.open.add(leased);
  else draw(leased);
  renewInTime(state, use, wanted, nowMs);
  return { accountId, keyId, heldNanos, holdSecret, generation, leased };
}

function mayAdmit(state: State, lease: Lease, { estimateNanos, model }: WantedCall, nowMs: number): boolean {
  return (
    isInForce(state, lease, nowMs) &&
    lease.leftNanos >= estimateNanos &&
    (lease.models === undefined || lease.models.has(model)) &&
    Math.abs(state.quota.clockAheadMs()) < mostSkewMs
  );
}

function isInForce({ quota }: State, lease: Lease, nowMs: number): boolean {
  return (
    lease.leftCalls > 0 &&
    // A key with money set aside for it has not used up its limit.
    lease.leftNanos > 0n &&
    nowMs < lease.endsAtMs &&
    lease.generation === quota.generation() &&
    // A draw that is not told leaves its call without a hold.
    quota.hasRoom()
  );
}

function authorize(state: State, { keyHash, ip }: AskingCaller): Result | undefined {
  const lease = state.keys.get(nameOf(keyHash))?.lease;
  const nowMs = performance.now();
  if (!lease || !isInForce(state, lease, nowMs) || !countAddress(state, ip, lease.ipPerMinute, nowMs)) return undefined;
  if (ip !== "") {
    const value = { keyHash, ip };
    state.quota.tellThen({ operation: { case: "authorize", value } }, (counted) => noteAddress(state, ip, counted));
  }
  const { accountId, keyId, models = [] } = lease;
  return { ...resultOf(Verdict.OK), accountId, keyId, models: [...models] };
}

/** Counts a call of an address as auth-quota does, by what came here; false where it has no room, or is not known. */
function countAddress({ arrivals }: State, ip: string, perMinute: number, nowMs: number): boolean {
  if (ip === "") return true;
  const known = arrivals.get(ip);
  if (known === undefined && arrivals.size >= maxAddresses) return false;
  const next = Math.max(known ?? 0, nowMs) + minuteMs / perMinute;
  if (next - nowMs > minuteMs) return false;
  arrivals.set(ip, next);
  return true;
}

/** Lets an address wait that auth-quota, which hears of all relays, has no room for. */
function noteAddress({ arrivals }: State, ip: string, { verdict, retryAfterSeconds }: Result): void {
  if (verdict === Verdict.IP_RATE) arrivals.set(ip, performance.now() + minuteMs + retryAfterSeconds * 1_000);
}

function end(state: State, use: KeyUse): void {
  const { lease } = use;
  if (!lease) return;
  use.lease = undefined;
  state.size -= 1;
  endLease(lease);
}

function recall(state: State, rids: readonly string[]): void {
  const nowMs = performance.now();
  for (const use of state.keys.values()) {
    if (!use.lease || !rids.includes(use.lease.rid)) continue;
    state.counts.recalled();
    use.waitUntilMs = nowMs + recalledMs;
    end(state, use);
  }
}

function count(use: KeyUse, nanos: bigint, nowMs: number): void {
  const sinceMs = nowMs - use.sinceMs;
  if (sinceMs >= windowMs) {
    const remembered = rememberedShare ** (sinceMs / windowMs);
    use.perSecond = Math.max((use.calls * 1_000) / sinceMs, use.perSecond * remembered);
    const rememberedNanos = (use.meanNanos * BigInt(Math.floor(remembered * 1_000))) / 1_000n;
    const meanNanos = use.calls > 0 ? use.nanos / BigInt(use.calls) : 0n;
    use.meanNanos = meanNanos > rememberedNanos ? meanNanos : rememberedNanos;
    use.sinceMs = nowMs;
    use.calls = 0;
    use.nanos = 0n;
  }
  use.calls += 1;
  use.nanos += nanos;
}

function noteAdmitted(state: State, wanted: WantedCall): void {
  if (state.isClosed) return;
  const nowMs = performance.now();
  const name = nameOf(wanted.keyHash);
  let use = state.keys.get(name);
  if (!use) {
    if (state.keys.size >= maxKeys) return;
    use = {
      lease: undefined,
      isAsking: false,
      waitUntilMs: 0,
      sinceMs: nowMs,
      calls: 0,
      nanos: 0n,
      perSecond: 0,
      meanNanos: 0n,
    };
    state.keys.set(name, use);
  }
  count(use, wanted.estimateNanos, nowMs);
  if (use.perSecond >= state.settings.leastPerSecond) ask(state, use, wanted.keyHash, nowMs);
}

function renewInTime(state: State, use: KeyUse, { keyHash }: WantedCall, nowMs: number): void {
  const { lease } = use;
  if (!lease || use.isAsking) return;
  const isDue = lease.leftCalls < lease.renewCalls || lease.leftNanos < lease.renewNanos || nowMs >= lease.renewAtMs;
  if (isDue && use.perSecond >= state.settings.leastPerSecond) ask(state, use, keyHash, nowMs);
}

/** Asks for a lease, or the next one, while calls go on. */
function ask(state: State, use: KeyUse, keyHash: Uint8Array, nowMs: number): void {
  if (use.isAsking || nowMs < use.waitUntilMs || use.meanNanos === 0n) return;
  use.isAsking = true;
  const rid = state.settings.makeRid();
  const likely = Math.ceil((use.perSecond * usualMs * headroom) / 1_000);
  const calls = Math.min(Math.max(likely, leastCalls), maxCalls);
  const value = { rid, keyHash, estimateNanos: use.meanNanos * BigInt(calls), calls };
  const { quota } = state;
  const generation = quota.generation();
  void quota.ask({ operation: { case: "lease", value } }).then((granted) => {
    use.isAsking = false;
    const isGranted = granted.verdict === Verdict.OK && granted.heldNanos > 0n;
    // Of another generation than the one it was asked for in, it may be among what was lost.
    const isKnown = generation === quota.generation() && granted.holdSecret.length > 0;
    if (isGranted && isKnown && !state.isClosed) return take(state, use, { rid, nowMs, granted });
    const isUnknown = granted.verdict === Verdict.UNAVAILABLE || isGranted;
    use.waitUntilMs = performance.now() + (isUnknown ? unansweredMs : refusedMs);
    // It may have been granted all the same: nothing is known of a lease whose answer has not come.
    if (isUnknown) quota.tellThen({ operation: { case: "release", value: { rid, keyHash } } }, () => undefined);
  });
}

type Grant = { rid: string; nowMs: number; granted: Result };

/** Puts a lease in the place of the one before, which is given back. It ends by when it was asked for, not granted. */
function take(state: State, use: KeyUse, { rid, nowMs, granted }: Grant): void {
  end(state, use);
  const { accountId, keyId, heldNanos, calls, lastsMs, models, ipPerMinute, holdSecret, maySettleLeased } = granted;
  state.size += 1;
  use.lease = {
    rid,
    accountId,
    keyId,
    models: models.length === 0 ? undefined : new Set(models),
    secrets: holdSecret,
    generation: state.quota.generation(),
    leftNanos: heldNanos,
    leftCalls: calls,
    renewNanos: heldNanos / 2n,
    renewCalls: Math.floor(calls / 2),
    renewAtMs: nowMs + lastsMs * renewAtShare,
    endsAtMs: nowMs + lastsMs,
    usedAtMs: performance.now(),
    ipPerMinute,
    maySettleLeased,
    open: createActiveSet(),
    untold: 0,
    unsent: 0,
    isEnded: false,
    quota: state.quota,
    noteAddress: (ip, counted) => noteAddress(state, ip, counted),
  };
}

function sweep(state: State): void {
  const nowMs = performance.now();
  const { idleMs } = state.settings;
  for (const [name, use] of state.keys) {
    const { lease } = use;
    const isOver = lease && (nowMs >= lease.endsAtMs || lease.generation !== state.quota.generation());
    if (isOver || (lease && nowMs - lease.usedAtMs > idleMs)) end(state, use);
    if (!use.lease && !use.isAsking && nowMs - use.sinceMs > idleMs + windowMs && nowMs > use.waitUntilMs)
      state.keys.delete(name);
  }
  for (const [ip, arrival] of state.arrivals) if (arrival <= nowMs) state.arrivals.delete(ip);
}
