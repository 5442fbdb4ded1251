import { patchText, readPatches } from "#shared/testing/patch-source.ts";
import { moneyScript } from "../../../services/auth-quota/store/script.ts";
import { beginWorld } from "./begin.ts";
import { priceOf } from "./caller.ts";
import { installClock, kill, type VirtualClock } from "./clock.ts";
import { checkAtRest } from "./invariants.ts";
import { loadScript } from "./lua.ts";
import { overspendOf } from "./overspend.ts";
import { findUnrest, forgottenHolds } from "./quiesce.ts";
import { placesOf, startMs, type World } from "./world.ts";

/** What one run came to. */
export type Outcome = {
  seed: number;
  profile: string;
  violations: string[];
  events: number;
  calls: number;
  served: number;
  whole: number;
  leased: number;
  recalled: number;
  /** Worst balance below zero, in nano-USD. */
  overspendNanos: bigint;
  /** What was served and is not charged, because relays were lost. */
  lostNanos: bigint;
  /** Whether Redis lost data, and whether holds were left over for their sweep. */
  hasLost: boolean;
  hasForgotten: boolean;
  virtualMs: number;
  hash: number;
  counts: Record<string, number>;
  trace: string[];
};

const checkMs = 500;
const restWithinMs = 30 * 60_000;
// Beyond this age holds of a living relay that are not heard of are ended (see sweep.ts).
const forgottenMs = 2 * 60 * 60_000 + 60_000;

export type Simulator = { simulate: (seed: number, hasTrace?: boolean) => Promise<Outcome> };

/** Puts virtual time in place and loads the money script, once for all seeds of this process. */
export async function createSimulator(): Promise<Simulator> {
  const source = patchText("auth-quota/store/script.lua", moneyScript, readPatches(process.env));
  const script = await loadScript(source);
  const turn = setImmediate;
  const clock = installClock();
  let current: World | undefined;
  process.on("unhandledRejection", (error) => current?.violate(`unhandled rejection: ${String(error)}`));
  return {
    // In a turn of its own: what follows from promises can be run on demand only where it does not run already.
    simulate: (seed, hasTrace = false) =>
      new Promise((resolve) => {
        turn(() => {
          clock.reset(startMs);
          const world = beginWorld(seed, script, hasTrace);
          current = world;
          const events = run(world, clock);
          for (const { process: ended } of placesOf(world)) kill(ended);
          resolve(outcomeOf(world, events));
        });
      }),
  };
}

/** Lets the world go on until it is at rest, or something is wrong. */
function run(world: World, clock: VirtualClock): number {
  let events = 0;
  let lookAtMs = world.healsAtMs + 1_000;
  let deadlineMs = world.healsAtMs + restWithinMs;
  while (world.violations.length === 0 && clock.step()) {
    events += 1;
    const nowMs = clock.nowMs();
    if (nowMs < lookAtMs) continue;
    lookAtMs = nowMs + checkMs;
    const unrest = findUnrest(world);
    if (unrest === undefined) {
      checkAtRest(world);
      break;
    }
    // Only time ends these; the world need not be lived through until then.
    if (unrest === forgottenHolds && !world.hasForgotten) {
      world.hasForgotten = true;
      world.note("forgotten holds: on to their sweep");
      clock.jump(forgottenMs);
      lookAtMs = clock.nowMs() + 5_000;
      deadlineMs = clock.nowMs() + restWithinMs;
    } else if (nowMs > deadlineMs) world.violate(`liveness: not at rest: ${unrest}`);
  }
  return events;
}

function outcomeOf(world: World, events: number): Outcome {
  const truths = [...world.truths.values()];
  const charged = (rid: string): bigint => world.ledger.calls.get(rid)?.chargedNanos ?? 0n;
  const owed = truths.map((truth) => priceOf(truth) - charged(truth.rid));
  const largest = (sums: bigint[]): bigint => sums.reduce((one, other) => (other > one ? other : one), 0n);
  const accounts = world.payers.map(({ accountId }) => accountId);
  return {
    seed: world.seed,
    profile: world.profile.name,
    violations: world.violations,
    events,
    calls: truths.length,
    served: truths.filter(({ outputTokens }) => outputTokens > 0).length,
    whole: truths.filter(({ hasWhole }) => hasWhole).length,
    leased: world.leasedCalls,
    recalled: world.recalledLeases,
    overspendNanos: largest(accounts.map((accountId) => overspendOf(world, accountId))),
    lostNanos: owed.reduce((sum, nanos) => (nanos > 0n ? sum + nanos : sum), 0n),
    hasLost: world.losses.length > 0,
    hasForgotten: world.hasForgotten,
    virtualMs: Date.now() - startMs,
    hash: world.trace.hash,
    counts: Object.fromEntries(world.counts),
    trace: world.trace.lines ?? [],
  };
}
