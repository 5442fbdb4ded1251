import type { Payer } from "./caller.ts";
import { hashOf, sumsOf, type HotCall } from "./hot-state.ts";
import { lossesOf, type World } from "./world.ts";

export type KeyCheck = (payer: Payer, calls: Map<string, HotCall>, hasSettled: boolean) => void;

/** M1 and M2 for keys: their sums are what their calls add up to, and no grant goes beyond a key's limits. */
export function createKeyChecks(world: World): KeyCheck {
  const heldBefore = new Map<string, bigint>();
  const checkOpen = createOpenChecks(world);
  return ({ accountId, keyId, limitNanos, mostOfKey }, calls, hasSettled) => {
    const hash = hashOf(world, accountId, `key:${keyId}`);
    const held = BigInt(hash["held"] ?? 0);
    const unposted = BigInt(hash["unposted"] ?? 0);
    const isOwn = (rid: string, { state, keyId: leasedTo }: HotCall): boolean =>
      state === "leased" ? leasedTo === keyId : world.truths.get(rid)?.payer.keyId === keyId;
    const own = [...calls].filter(([rid, call]) => isOwn(rid, call));
    const counted = sumsOf(own.map(([, call]) => call));
    if (held !== counted.held || unposted !== counted.unposted) {
      world.violate(
        `M2: ${keyId} held ${held} unposted ${unposted}, its calls add up to ${counted.held} ${counted.unposted}`,
      );
    }
    checkOpen({ id: keyId, accountId, hash, own: own.map(([, call]) => call), most: mostOfKey }, hasSettled);
    const name = `${keyId} ${lossesOf(world, accountId).length}`;
    const hasGranted = held > (heldBefore.get(name) ?? held);
    heldBefore.set(name, held);
    if (limitNanos === null || hash["spent_version"] === undefined || !hasGranted || hasSettled) return;
    const left = BigInt(limitNanos) - BigInt(hash["spent"] ?? 0) - held - unposted;
    if (left < 0n) world.violate(`I7: a grant took ${keyId} ${-left} beyond its limit`);
  };
}

export type OpenCheck = (
  owner: { id: string; accountId: string; hash: Record<string, string>; own: HotCall[]; most: number },
  hasSettled: boolean,
) => void;

/** M2 and I18: the calls under way of an account or key are its open holds, and no grant makes them too many. */
export function createOpenChecks(world: World): OpenCheck {
  const openBefore = new Map<string, number>();
  return ({ id, accountId, hash, own, most }, hasSettled) => {
    const open = Number(hash["open"] ?? 0);
    const counted = own.reduce((sum, call) => sum + call.open, 0);
    if (open !== counted) world.violate(`M2: ${id} counts ${open} calls under way, ${counted} are`);
    const name = `${id} ${lossesOf(world, accountId).length}`;
    const hasGrown = open > (openBefore.get(name) ?? open);
    openBefore.set(name, open);
    if (most > 0 && hasGrown && !hasSettled && open > most)
      world.violate(`I18: a grant left ${id} with ${open} calls under way, it may have ${most}`);
  };
}

/** At rest Redis says of keys what the ledger says, and nothing is held or owed by them. */
export function checkKeysAtRest(world: World): void {
  for (const { accountId, keyId } of world.payers) {
    const hash = hashOf(world, accountId, `key:${keyId}`);
    const spent = world.ledger.keys.get(keyId)?.spentNanos ?? 0n;
    // In another generation than it was asked for in, what was spent counts as not there.
    const isLoaded = hash["spent_in"] === hashOf(world, accountId, "service")["generation"];
    if (isLoaded && hash["spent"] !== undefined && BigInt(hash["spent"]) !== spent) {
      world.violate(`R5: Redis has ${hash["spent"]} spent for ${keyId}, the ledger ${spent}`);
    }
    if (BigInt(hash["held"] ?? 0) !== 0n || BigInt(hash["unposted"] ?? 0) !== 0n) {
      world.violate(`R5: ${keyId} has ${hash["held"]} held and ${hash["unposted"]} unposted at rest`);
    }
  }
}
