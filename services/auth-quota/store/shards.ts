import { accountHash } from "#shared/money/account-hash.ts";
import type { HotStore, HotTotals } from "./hot.ts";

/** The hot money of some accounts: a complete store, with a generation and a recovery lock of its own. */
export type Shard = ConnectedStore & { readonly index: number; isReady: () => boolean };

/** A store, and the state of its connection: "ready", or what it is instead. */
export type ConnectedStore = HotStore & { status: () => string };

/** All hot money, divided by account. */
export type Shards = {
  all: readonly [Shard, ...Shard[]];
  of: (accountId: string) => Shard;
  /**
   * The shard of an `accountHash`; all where an account with this hash was ever moved: any may know what became of its
   * calls.
   */
  ofHash: (hash: number) => readonly Shard[];
  /** Where an account would be by its hash. */
  homeOf: (accountId: string) => Shard;
  /** Takes over which accounts are elsewhere than their hashes say. */
  place: (elsewhere: ReadonlyMap<string, number>) => void;
  /** All of them, each time from another one on. */
  inTurn: () => Shard[];
  /** A name that changes when that of any shard does; a shard that has not answered yet has none in it. */
  generation: () => string;
  /** Redis' clock as the first shard that has answered tells it; 0 before that. */
  timeMs: () => number;
};

export function createShards(stores: readonly ConnectedStore[]): Shards {
  const [first, ...others] = stores.map((store, index): Shard => ({
    ...store,
    index,
    isReady: () => store.status() === "ready",
  }));
  if (!first) throw new Error("there is no shard");
  const all: Shards["all"] = [first, ...others];
  const home = (hash: number): Shard => all[hash % all.length] ?? first;
  const homeOf = (accountId: string): Shard => home(accountHash(accountId));
  let placed = new Map<string, Shard>();
  let placedHashes: ReadonlySet<number> = new Set();
  let turn = 0;
  return {
    all,
    inTurn: () => {
      turn = (turn + 1) % all.length;
      return [...all.slice(turn), ...all.slice(0, turn)];
    },
    ofHash: (hash) => (placedHashes.has(hash) ? all : [home(hash)]),
    homeOf,
    of: others.length === 0 ? () => first : (accountId) => placed.get(accountId) ?? homeOf(accountId),
    place: (elsewhere) => {
      placed = new Map([...elsewhere].map(([accountId, index]) => [accountId, all[index] ?? homeOf(accountId)]));
      placedHashes = new Set([...placed.keys()].map(accountHash));
    },
    generation: () => {
      const generations = all.map((shard) => shard.generation());
      return generations.every((generation) => generation === "") ? "" : generations.join(".");
    },
    timeMs: () => all.find((shard) => shard.timeMs() > 0)?.timeMs() ?? 0,
  };
}

/** Things by the shard of their account, as pairs. */
export function byShard<T>(shards: Shards, things: readonly T[], accountOf: (thing: T) => string): [Shard, T[]][] {
  return [...Map.groupBy(things, (thing) => shards.of(accountOf(thing)))];
}

/** Does work for each of them, whatever becomes of one. Rejects with the first failure when all have ended. */
export async function forEachOf<T>(things: readonly T[], work: (thing: T) => Promise<void>): Promise<void> {
  const outcomes = await Promise.allSettled(things.map(work));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}

/** Sums over shards. Rejects when one does not answer. */
export async function readTotals(all: readonly Shard[]): Promise<HotTotals> {
  const totals = await Promise.all(all.map((shard) => shard.readTotals()));
  const sum = (read: (of: HotTotals) => number): number => totals.reduce((whole, one) => whole + read(one), 0);
  return {
    openHolds: sum(({ openHolds }) => openHolds),
    outboxSize: sum(({ outboxSize }) => outboxSize),
    outboxOldestMs: Math.max(...totals.map(({ outboxOldestMs }) => outboxOldestMs)),
  };
}

/**
 * Records that the ledger has not confirmed for `minAgeMs`, of the shards that answer, from another one first each
 * time: one that has very many must not keep the others waiting. Rejects when none answers.
 */
export async function listUnposted(shards: Shards, minAgeMs: number, limit: number): Promise<Buffer[]> {
  const records: Buffer[] = [];
  const failures: unknown[] = [];
  for (const shard of shards.inTurn()) {
    if (records.length >= limit) break;
    try {
      records.push(...(await shard.listUnposted(minAgeMs, limit - records.length)));
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length === shards.all.length) throw failures[0];
  return records;
}
