import type { Payer, Truth } from "./caller.ts";
import { hashOf, hotCalls, type HotCall } from "./hot-state.ts";
import { quiet } from "./profile.ts";
import { lossesOf, redisOf, type World } from "./world.ts";

// What relays admit by themselves is looked at in the moment in which they do it, whatever they have told of it yet.

// As long as auth-quota grants them: longer than that no relay goes on by what it was told.
const mostLeaseMs = 10_000;
// Relays without calls hear of what is asked back with their heartbeats.
export const heartbeatMs = 1_000;
const tellingMs = 200;

/** I20 to I22, for a call that a relay has admitted within a lease. */
export function checkLeased(world: World, truth: Truth): void {
  const { leaseRid, payer } = truth;
  const grantedAtMs = world.leasesAskedAtMs.get(leaseRid);
  const sinceMs = Date.now() - (grantedAtMs ?? -Infinity);
  if (sinceMs > mostLeaseMs) world.violate(`I20: ${truth.rid} was admitted ${sinceMs} ms after its lease was granted`);
  checkStopped(world, truth);
  // What Redis knows after a loss is not what was granted before it.
  if (lossesOf(world, payer.accountId).some((atMs) => atMs >= (grantedAtMs ?? 0))) return;
  const lease = hotCalls(world).get(leaseRid);
  if (lease?.state !== "leased")
    return world.violate(`I20: ${truth.rid} was admitted within ${leaseRid}, which is ${lease?.state ?? "unknown"}`);
  checkLeft(world, truth, lease);
}

/** What a call takes of its lease: what is held for it, and when it has ended within that, what it costs. */
function takenOf({ state, heldNanos, finalNanos, hasEndedWithin }: Truth): bigint {
  if (!hasEndedWithin) return heldNanos;
  return state === "released" ? 0n : (finalNanos ?? heldNanos);
}

/** I21: what is admitted within a lease and not told yet is no more than what auth-quota keeps of it. */
function checkLeft({ truths, drawn, violate }: World, { leaseRid }: Truth, lease: HotCall): void {
  const untold = [...truths.values()].filter((other) => other.leaseRid === leaseRid && !drawn.has(other.rid));
  const nanos = untold.reduce((sum, call) => sum + takenOf(call), 0n);
  if (nanos > lease.held || untold.length > lease.open)
    violate(
      `I21: ${untold.length} calls for ${nanos} are admitted of ${leaseRid}, which has ${lease.open}: ${lease.held}`,
    );
}

/** I22: a key that is stopped admits nothing once its relay has heard of it, and never after the lease has ended. */
function checkStopped({ stopped, profile, violate }: World, { rid, payer }: Truth): void {
  const stoppedAtMs = stopped.get(payer.keyId);
  if (stoppedAtMs === undefined) return;
  const sinceMs = Date.now() - stoppedAtMs;
  const mostMs = profile.name === quiet ? heartbeatMs + tellingMs : mostLeaseMs;
  if (sinceMs > mostMs) violate(`I22: ${rid} was admitted ${sinceMs} ms after its key was stopped`);
}

const tellingOfCalls = new Set(["draw", "draw-proven", "settle-leased", "settle-leased-proven"]);

/** Notes what a run was asked about leases: a clock that is ahead makes Redis forget calls that are over. */
export function noteLeases({ leasesAskedAtMs, drawn }: World, values: readonly string[]): void {
  for (const [at, name] of values.entries()) {
    const rid = values[at + 1] ?? "";
    if (name === "lease" && !leasesAskedAtMs.has(rid)) leasesAskedAtMs.set(rid, Date.now());
    if (tellingOfCalls.has(name)) drawn.add(rid);
  }
}

/** Notes when Redis has taken the word that a key is stopped. */
export function noteStopped(world: World, values: readonly string[]): void {
  if (!values.includes("key-settings")) return;
  for (const { accountId, keyId } of world.payers) {
    if (world.stopped.has(keyId) || hashOf(world, accountId, `key:${keyId}`)["status"] !== "stopped") continue;
    world.note(`${keyId} is stopped`);
    world.stopped.set(keyId, Date.now());
  }
}

const minuteMs = 60_000;
// Calls of a lease were counted when it was granted, up to its length before they are made.
const lateShare = 1 + mostLeaseMs / minuteMs;

export type RateCheck = (payer: Payer) => void;

/** I23: no more calls of an account begin, by whomever they are admitted, than its rate lets through. */
export function createRateCheck(world: World): RateCheck {
  const buckets = new Map<string, { level: number; atMs: number }>();
  return ({ accountId, perMinute }) => {
    if (perMinute === 0) return;
    const nowMs = Date.now();
    // In another shard the rate begins anew.
    const name = `${accountId} ${redisOf(world, accountId).name}`;
    const { level, atMs } = buckets.get(name) ?? { level: 0, atMs: nowMs };
    const filled = Math.max(0, level - ((nowMs - atMs) * perMinute) / minuteMs) + 1;
    buckets.set(name, { level: filled, atMs: nowMs });
    const most = perMinute * lateShare + 1;
    const isCounted = lossesOf(world, accountId).length === 0 && world.clockRightAtMs === undefined;
    if (isCounted && filled > most)
      world.violate(`I23: ${accountId} has begun ${filled} calls, its rate is ${perMinute}`);
  };
}

const reserveArguments = 8;

/** I24: nothing is refused for want of money, calls under way or the account's rate while leases may have some. */
export function checkRefusal(world: World, values: readonly string[], codes: readonly number[]): void {
  const [name, rid = "", , , , accountId = ""] = values;
  // Of a batch only the runs that decide one call are looked at.
  if (name !== "reserve" || values.length !== reserveArguments + 1 || !refusals.has(codes[0] ?? 0)) return;
  const leased = [...hotCalls(world).values()].some((call) => call.state === "leased" && call.accountId === accountId);
  if (leased) world.violate(`I24: ${rid} was refused (${codes[0]}) for what a lease may leave unused`);
}

// KEY_LIMIT, BALANCE, ACCOUNT_RATE, and CONCURRENCY. Keys have no rates of their own here.
const refusals = new Set([3, 4, 6, 103]);
