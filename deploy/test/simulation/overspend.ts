import { readAnswers } from "../../../services/auth-quota/store/hot.ts";
import type { RunAnswer } from "../../../services/auth-quota/store/money-command.ts";
import { priceOf, type Truth } from "./caller.ts";
import { most } from "./hot-state.ts";
import type { Line } from "./ledger.ts";
import type { LuaValue } from "./lua.ts";
import { lossesOf, type World } from "./world.ts";

const more = 101;

/** How far below zero the balance of an account is; 0 when it is not. Nano-USD. */
export function overspendOf({ ledger }: World, accountId: string): bigint {
  return most(0n, -(ledger.accounts.get(accountId)?.balanceNanos ?? 0n));
}

/**
 * How far below zero the balance of an account may be, in nano-USD: the sum of what its calls cost beyond what was held
 * for them, by the error of their estimates and what is served between two looks of the guard. A call whose hold was
 * ended for a silent relay, or lost by Redis, may have been served without one: it counts in full.
 */
function overspendBound(world: World, accountId: string): bigint {
  let bound = 0n;
  for (const truth of world.truths.values()) {
    if (truth.payer.accountId !== accountId) continue;
    const heldNanos = isHoldSure(world, truth) ? (truth.call?.heldNanos ?? 0n) : 0n;
    bound += most(0n, priceOf(truth) - heldNanos);
  }
  return bound;
}

/** Whether the money for a call was held from its admission until it was booked. */
function isHoldSure(world: World, { relaySession, startedAtMs, bookedAtMs, payer }: Truth): boolean {
  if (world.sweptSessions.has(relaySession)) return false;
  return !lossesOf(world, payer.accountId).some((atMs) => startedAtMs <= atMs && atMs <= bookedAtMs);
}

/** Notes when calls were booked last. */
export function noteBooked({ truths }: World, lines: readonly Line[]): void {
  for (const { rid } of lines) {
    const truth = truths.get(rid);
    if (truth) truth.bookedAtMs = Date.now();
  }
}

/** Notes whose holds a run of the script has ended. */
export function noteSwept({ sweptSessions }: World, operation: string | undefined, answer: LuaValue): void {
  if (operation !== "sweep" && operation !== "sweep-forgotten") return;
  const [first] = readAnswers(answer as RunAnswer);
  if (first?.code === more) sweptSessions.add(first.text);
}

/** I7 at rest. */
export function checkOverspend(world: World): void {
  for (const { accountId } of world.payers) {
    const below = overspendOf(world, accountId);
    const bound = overspendBound(world, accountId);
    if (below > bound) world.violate(`I7: ${accountId} is ${below} below zero, its calls allow for ${bound}`);
  }
}
