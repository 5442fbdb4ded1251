import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";

/**
 * The money states written down a second time, in the plainest way: calls in a map, sums by adding up. The property
 * test compares the money script with it. It models what is decided about money only, not rates or dead keys.
 */
export type ModelCall = {
  account: string;
  key: string;
  estimate: number | undefined;
  state: "held" | "released" | "expired" | "settled" | "posted";
  held: number;
  checkpoint: number;
  /** The highest charge heard of: last checkpoint of an expired call, final cost. */
  charged: number;
  final: number | undefined;
  booked: number;
  isGivenUp: boolean;
};

export type Model = {
  calls: Map<string, ModelCall>;
  balances: Map<string, { nanos: number; version: number }>;
  spending: Map<string, { nanos: number; version: number }>;
  /** What accounts have spent, by the versions of their balances. */
  spentByAccount: Map<string, { nanos: number; version: number }>;
  /** Of keys, and of accounts. */
  limits: Map<string, number>;
};

export const createModel = (): Model => ({
  calls: new Map(),
  balances: new Map(),
  spending: new Map(),
  spentByAccount: new Map(),
  limits: new Map(),
});

const owed = (call: ModelCall): number =>
  call.state === "settled" || call.state === "expired" ? Math.max(0, call.charged - call.booked) : 0;
const heldOf = (call: ModelCall): number => (call.state === "held" ? call.held : 0);
const isPending = (call: ModelCall): boolean => call.state === "settled" || owed(call) > 0;

function sum(model: Model, owner: "account" | "key", id: string, weight: (call: ModelCall) => number): number {
  let total = 0;
  for (const call of model.calls.values()) if (call[owner] === id) total += weight(call);
  return total;
}

export function sumsOf(model: Model, account: string) {
  const heldNanos = sum(model, "account", account, heldOf);
  const unpostedNanos = sum(model, "account", account, owed);
  return {
    openHolds: sum(model, "account", account, (call) => (call.state === "held" ? 1 : 0)),
    heldNanos,
    unpostedCalls: sum(model, "account", account, (call) => (isPending(call) ? 1 : 0)),
    unpostedNanos,
    availableNanos: (model.balances.get(account)?.nanos ?? 0) - heldNanos - unpostedNanos,
  };
}

function refusal(model: Model, account: string, key: string, more: number): Verdict | undefined {
  const limit = model.limits.get(key);
  const used = (weight: (call: ModelCall) => number) => sum(model, "key", key, weight);
  const spent = model.spending.get(key)?.nanos ?? 0;
  if (limit !== undefined && more > limit - spent - used(heldOf) - used(owed)) return Verdict.KEY_LIMIT;
  const { availableNanos, heldNanos, unpostedNanos } = sumsOf(model, account);
  const spentInAll = model.spentByAccount.get(account)?.nanos ?? 0;
  const left = (model.limits.get(account) ?? Infinity) - spentInAll - heldNanos - unpostedNanos;
  return more > availableNanos || more > left ? Verdict.BALANCE : undefined;
}

function isUsedUp(model: Model, key: string): boolean {
  const limit = model.limits.get(key);
  return limit !== undefined && limit - (model.spending.get(key)?.nanos ?? 0) - sum(model, "key", key, owed) <= 0;
}

const newCall = (account: string, key: string): Omit<ModelCall, "state"> => ({
  account,
  key,
  estimate: undefined,
  held: 0,
  checkpoint: 0,
  charged: 0,
  final: undefined,
  booked: 0,
  isGivenUp: false,
});

type Owner = { account: string; key: string };

export function reserve(model: Model, rid: string, { account, key }: Owner, estimate: number): Verdict {
  const call = model.calls.get(rid);
  if (call) {
    if (call.estimate === undefined) return Verdict.NO_HOLD;
    if (call.estimate !== estimate) return Verdict.CONFLICT;
    return call.isGivenUp && (call.state === "released" || call.state === "expired") ? Verdict.NO_HOLD : Verdict.OK;
  }
  if (isUsedUp(model, key)) return Verdict.KEY_INVALID;
  const refused = refusal(model, account, key, estimate);
  if (refused) return refused;
  model.calls.set(rid, { ...newCall(account, key), state: "held", estimate, held: estimate });
  return Verdict.OK;
}

export function extend(model: Model, rid: string, total: number): Verdict {
  const call = model.calls.get(rid);
  if (call?.state !== "held") return Verdict.NO_HOLD;
  if (total <= call.held) return Verdict.OK;
  const refused = refusal(model, call.account, call.key, total - call.held);
  if (refused) return refused;
  call.held = total;
  return Verdict.OK;
}

export function checkpoint(model: Model, rid: string, cost: number): Verdict {
  const call = model.calls.get(rid);
  if (call?.state !== "held") return Verdict.NO_HOLD;
  call.checkpoint = Math.max(call.checkpoint, cost);
  return Verdict.OK;
}

export function release(model: Model, rid: string, { account, key }: Owner): Verdict {
  const call = model.calls.get(rid);
  if (!call) model.calls.set(rid, { ...newCall(account, key), state: "released" });
  if (call?.state === "released" && call.estimate !== undefined) return Verdict.OK;
  if (call?.state !== "held") return Verdict.NO_HOLD;
  if (call.checkpoint > 0) return Verdict.CONFLICT;
  call.state = "released";
  return Verdict.OK;
}

export function settle(model: Model, rid: string, { account, key }: Owner, cost: number): Verdict {
  const call = model.calls.get(rid) ?? { ...newCall(account, key), state: "settled" as const };
  if (call.final !== undefined) return call.final === cost ? Verdict.OK : Verdict.CONFLICT;
  if (call.state === "released" && !call.isGivenUp) return Verdict.CONFLICT;
  if (call.state === "posted" && cost > call.booked) return Verdict.CONFLICT;
  call.final = cost;
  if (call.state === "posted") return Verdict.OK;
  call.charged = Math.max(call.charged, call.booked, cost);
  call.state = "settled";
  model.calls.set(rid, call);
  return Verdict.OK;
}

/** Ends every hold. */
export function expireAll(model: Model): void {
  for (const call of model.calls.values()) {
    if (call.state !== "held") continue;
    call.isGivenUp = true;
    call.charged = Math.max(call.checkpoint, call.booked);
    call.state = call.charged > 0 ? "expired" : "released";
  }
}

export function post(model: Model, rid: string, owner: Owner, told: { booked: number; isFinal: boolean }): void {
  const known = model.calls.get(rid);
  const call = known ?? { ...newCall(owner.account, owner.key), state: "expired" as const };
  if (told.isFinal && call.state === "held" && call.booked === 0) call.final = told.booked;
  call.booked = Math.max(call.booked, told.booked);
  if (told.isFinal) call.state = "posted";
  else if (!known || (call.state === "released" && call.isGivenUp)) {
    call.state = "expired";
    call.charged = told.booked;
  }
  model.calls.set(rid, call);
}

export function setSum(
  sums: Map<string, { nanos: number; version: number }>,
  id: string,
  told: { nanos: number; version: number },
): void {
  const known = sums.get(id);
  if (!known || told.version > known.version) sums.set(id, told);
}

const stateNumbers = { held: 1, released: 2, expired: 3, settled: 4, posted: 5 } as const;

export function lookup(model: Model, rid: string): CallState {
  const call = model.calls.get(rid);
  return call ? stateNumbers[call.state] : CallState.UNSPECIFIED;
}
