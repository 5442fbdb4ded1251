import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { usageBuckets, type Units } from "#shared/money/pricing.ts";
import type { Rejection } from "./check.ts";
import { createLineId } from "./line-id.ts";
import { rejectEvent, type ReadEvent, type Reject } from "./read-event.ts";

/** What the ledger holds of a call. */
export type BookedCall = {
  accountId: string;
  keyId: string;
  /** Sum of its charges. */
  chargedNanos: bigint;
  provisional: { hash: string; usage: Units | undefined } | undefined;
  final: { hash: string } | undefined;
  /** Whether its record says that it ended within a lease; not known of what is only read from the ledger. */
  isLeased?: boolean;
};

export type AccountFunds = { balanceNanos: bigint; chargedNanos: bigint };

/**
 * What is in the ledger when a batch is decided: its calls by rid, its accounts by id, locked. Hours before `fenceMs`
 * are summed up: no line may get an id of that time, however late the clock is.
 */
export type BookedState = {
  calls: Map<string, BookedCall>;
  accounts: Map<string, AccountFunds>;
  fenceMs?: number;
};

/** A line of a call to insert. `units` are what it adds. */
export type NewLine = { lineId: string; kind: LineKind; amountNanos: bigint; units: Units; read: ReadEvent };

/** What to do with a batch. `calls` holds every call that has lines afterwards, with what they sum to. */
export type Plan = {
  /** When it was decided. */
  nowMs: number;
  lines: NewLine[];
  rejects: Reject[];
  /** Events that are booked, and that a person should look at. */
  doubts: Reject[];
  calls: Map<string, BookedCall>;
  /** Charges to add, by account and by key. */
  chargedByAccount: Map<string, bigint>;
  chargedByKey: Map<string, { accountId: string; chargedNanos: bigint }>;
  /** Events that had been booked before. */
  duplicates: number;
  /** Provisional events that came after their final one. */
  superseded: number;
  /** Rids whose final cost less than what was provisionally charged: the charge stays. */
  loweredRids: string[];
};

const maxInt64 = 2n ** 63n - 1n;

/**
 * Decides what a batch adds to the ledger, by the rules for (rid, kind): the same again is nothing, other content is a
 * conflict, a final raises a provisional charge to its own amount, a provisional after a final is nothing.
 */
export function planBatch(events: readonly ReadEvent[], booked: BookedState, nowMs: number): Plan {
  const plan: Plan = {
    nowMs: Math.max(nowMs, booked.fenceMs ?? 0),
    lines: [],
    rejects: [],
    doubts: [],
    calls: new Map(),
    chargedByAccount: new Map(),
    chargedByKey: new Map(),
    duplicates: 0,
    superseded: 0,
    loweredRids: [],
  };
  // Finals first: a provisional in the same batch is then settled by its final already.
  for (const read of events) if (read.event.kind === RecordKind.FINAL) planEvent(read, booked, plan);
  for (const read of events) if (read.event.kind !== RecordKind.FINAL) planEvent(read, booked, plan);
  return plan;
}

function planEvent(read: ReadEvent, booked: BookedState, plan: Plan): void {
  const { event } = read;
  const call = booked.calls.get(event.rid);
  if (call) plan.calls.set(event.rid, { ...call, isLeased: event.isLeased });
  const step = decide(read, call);
  if (step === "duplicate") plan.duplicates += 1;
  else if (step === "superseded") plan.superseded += 1;
  else if ("reason" in step) plan.rejects.push(rejectEvent(read, step));
  else charge({ read, step, booked, plan });
}

type Charge = { kind: LineKind; chargedNanos: bigint; units: Units; isLowered: boolean };
type Step = "duplicate" | "superseded" | Rejection | Charge;

/** What one event means for its call, `call` being what is booked of it. */
export function decide({ event, hash, isProven }: ReadEvent, call: BookedCall | undefined): Step {
  const isFinal = event.kind === RecordKind.FINAL;
  const units = event.usage ?? {};
  if (!call) {
    if (!isProven) return unproven;
    const kind = isFinal ? LineKind.CHARGE : LineKind.PROVISIONAL_CHARGE;
    return { kind, chargedNanos: event.costNanos, units, isLowered: false };
  }
  const earlier = isFinal ? call.final : call.provisional;
  if (earlier) return earlier.hash === hash ? "duplicate" : conflict("other content is booked for this rid and kind");
  if (call.accountId !== event.accountId || call.keyId !== event.keyId) {
    return conflict(`the call is booked for account ${call.accountId} and key ${call.keyId}`);
  }
  if (!isFinal) return "superseded";
  if (!isProven) return unproven;
  const raiseNanos = event.costNanos - call.chargedNanos;
  return {
    kind: LineKind.FINAL_ADJUSTMENT,
    chargedNanos: raiseNanos > 0n ? raiseNanos : 0n,
    units: difference(units, call.provisional?.usage ?? {}),
    isLowered: raiseNanos < 0n,
  };
}

function charge({
  read,
  step,
  booked,
  plan,
}: {
  read: ReadEvent;
  step: Charge;
  booked: BookedState;
  plan: Plan;
}): void {
  const { rid, accountId, keyId } = read.event;
  const { kind, chargedNanos, units } = step;
  const account = booked.accounts.get(accountId);
  if (!account) throw new Error(`account ${accountId} was not locked`);
  const balanceNanos = account.balanceNanos - chargedNanos;
  if (balanceNanos < -maxAccountNanos || account.chargedNanos + chargedNanos > maxInt64) {
    const detail = `a charge of ${chargedNanos} does not fit a balance of ${account.balanceNanos}`;
    plan.rejects.push(rejectEvent(read, { reason: "balance_overflow", detail }));
    return;
  }
  account.balanceNanos = balanceNanos;
  account.chargedNanos += chargedNanos;
  add(plan.chargedByAccount, accountId, chargedNanos);
  const key = plan.chargedByKey.get(keyId) ?? { accountId, chargedNanos: 0n };
  key.chargedNanos += chargedNanos;
  plan.chargedByKey.set(keyId, key);
  plan.lines.push({ lineId: createLineId(plan.nowMs), kind, amountNanos: -chargedNanos, units, read });
  if (step.isLowered) plan.loweredRids.push(rid);
  if (read.event.toldUsage && kind !== LineKind.PROVISIONAL_CHARGE) plan.doubts.push(doubtOf(read));
  const call = afterwards(booked.calls.get(rid), read, chargedNanos);
  booked.calls.set(rid, call);
  plan.calls.set(rid, call);
}

function doubtOf(read: ReadEvent): Reject {
  const { toldUsage = {}, usage = {}, upstream } = read.event;
  const words = (units: Units): string =>
    usageBuckets.flatMap((bucket) => (units[bucket] ? [`${bucket} ${units[bucket]}`] : [])).join(", ");
  const detail = `${upstream} told ${words(toldUsage)}; charged for ${words(usage)}`;
  return rejectEvent(read, { reason: "usage_impossible", detail });
}

function afterwards(call: BookedCall | undefined, { event, hash }: ReadEvent, chargedNanos: bigint): BookedCall {
  const isFinal = event.kind === RecordKind.FINAL;
  return {
    accountId: event.accountId,
    keyId: event.keyId,
    chargedNanos: (call?.chargedNanos ?? 0n) + chargedNanos,
    provisional: isFinal ? call?.provisional : { hash, usage: event.usage },
    final: isFinal ? { hash } : undefined,
    isLeased: event.isLeased,
  };
}

// Nothing of it can be trusted, so that nothing of it is told here.
const unproven: Rejection = { reason: "hold_unproven", detail: "no proof, or one of other content or another hold" };

function conflict(detail: string): Rejection {
  return { reason: "content_conflict", detail };
}

function difference(units: Units, before: Units): Units {
  return Object.fromEntries(usageBuckets.map((bucket) => [bucket, (units[bucket] ?? 0n) - (before[bucket] ?? 0n)]));
}

function add(sums: Map<string, bigint>, id: string, amountNanos: bigint): void {
  sums.set(id, (sums.get(id) ?? 0n) + amountNanos);
}
