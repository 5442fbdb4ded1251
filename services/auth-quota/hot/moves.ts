import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { beginMove, endMove, readKeyIds, readPlaces, type AccountPlace } from "../store/account-shards.ts";
import type { HotOperation, HotStore } from "../store/hot.ts";
import type { Database } from "../store/postgres.ts";
import type { Shard, Shards } from "../store/shards.ts";

/** Which accounts are elsewhere than their hashes say, and moves of accounts (rule M11 of state.lua). */
export type Moves = {
  /**
   * Reads again where accounts are. Where that is asked for one that a shard says has left, many may ask at once: what
   * was read a moment ago is good enough. Never rejects: what was read last stays in force.
   */
  look: (leftAccountId?: string) => Promise<void>;
  /** Whether an account is on its way, or it is not known where it is. */
  isMoving: (accountId: string) => boolean;
  /** Takes the moves that are under way a step further. Any replica may, at any time. Rejects when a store is down. */
  advance: () => Promise<void>;
  /** For how long the oldest move has been under way, as last read; 0 without any. */
  oldestSeconds: () => number;
  /** Marks the accounts that are elsewhere in a shard that has lost its marks; before it grants anything. */
  markAgain: (shard: Shard) => Promise<void>;
  /** Where a moved account is; undefined: where its hash says. As last read. */
  placeOf: (accountId: string) => AccountPlace | undefined;
};

type MoveDeps = { database: Database; shards: Shards; log: Logger };

const goodForMs = 100;
const keysPerRun = 200;

export function createMoves({ database, shards, log }: MoveDeps): Moves {
  let places = new Map<string, AccountPlace>();
  let isKnown = false;
  let reading: { at: number; done: Promise<void> } | undefined;
  let begun = 0;
  let taken = 0;
  const readNow = async (): Promise<void> => {
    const turn = (begun += 1);
    try {
      const rows = await readPlaces(database);
      // One that was overtaken by a later reading may have seen what was before a move.
      if (turn < taken) return;
      taken = turn;
      places = new Map(rows.map((row) => [row.accountId, row]));
      shards.place(new Map(rows.map(({ accountId, shard }) => [accountId, shard])));
      isKnown = true;
    } catch (error) {
      if (isKnown) log.warn({ err: error }, "failed to read which accounts were moved");
      isKnown = false;
    }
  };
  const readLately = (): Promise<void> => {
    if (!reading || performance.now() - reading.at >= goodForMs) reading = { at: performance.now(), done: readNow() };
    return reading.done;
  };
  const placeOf = (accountId: string): AccountPlace | undefined => places.get(accountId);
  const isMoving = (accountId: string): boolean => !isKnown || placeOf(accountId)?.movingTo !== undefined;
  return {
    look: async (leftAccountId) => {
      if (shards.all.length === 1) return;
      if (leftAccountId === undefined) return readNow();
      const before = shards.of(leftAccountId);
      const isSettled = (accountId: string): boolean => isMoving(accountId) || shards.of(accountId) !== before;
      await readLately();
      if (isSettled(leftAccountId)) return;
      // What was read may be from before the move.
      await readNow();
      if (isSettled(leftAccountId)) return;
      await findAgain({ database, shards, log }, leftAccountId).catch((error: unknown) => {
        log.warn({ err: error, accountId: leftAccountId }, "failed to find out in which shard an account is");
      });
    },
    isMoving,
    placeOf,
    oldestSeconds: () =>
      [...places.values()].reduce(
        (most, { movingTo, sinceSeconds }) => (movingTo === undefined ? most : Math.max(most, sinceSeconds)),
        0,
      ),
    advance: async () => {
      for (const place of places.values()) {
        if (place.movingTo !== undefined) await moveOn({ database, shards, log }, place);
      }
    },
    markAgain: async (shard) => {
      if (shards.all.length === 1) return;
      const marks = (await readPlaces(database)).flatMap((place): HotOperation[] => {
        const { accountId, number } = place;
        if (place.shard !== shard.index) return [["mark", accountId, String(number), "gone"]];
        return place.movingTo === undefined ? [] : [["mark", accountId, String(number), "leaving"]];
      });
      if (marks.length > 0) await shard.apply("", marks);
    },
  };
}

/** Reads again where accounts are that have left a shard. Throws while one of them is in no other. */
export async function followMoved(
  { shards, moves }: { shards: Shards; moves: Pick<Moves, "look"> },
  shard: Shard,
  accountIds: ReadonlySet<string>,
): Promise<void> {
  for (const accountId of accountIds) await moves.look(accountId);
  if ([...accountIds].some((accountId) => shards.of(accountId) === shard))
    throw new ServiceError("unavailable", "an account is being moved to another shard");
}

/** All other shards first, then the new one, then PostgreSQL: at no moment may two of them grant. */
async function moveOn({ database, shards, log }: MoveDeps, place: AccountPlace): Promise<void> {
  const { accountId, movingTo, number } = place;
  const target = shards.all.find(({ index }) => index === movingTo);
  if (!target) return;
  const others = shards.all.filter((shard) => shard !== target);
  const left = await Promise.all(
    others.map(async (shard) => (await shard.apply("", [["leave", accountId, String(number)]]))[0]?.code),
  );
  if (left.some((code) => code !== Verdict.OK)) return;
  faultPoint("auth-quota: an account has left, nobody has it");
  await arrive(target, { accountId, number, keyIds: await readKeyIds(database, accountId) });
  faultPoint("auth-quota: an account has arrived, PostgreSQL does not know");
  await endMove(database, place);
  log.warn({ accountId, from: place.shard, to: movingTo }, "an account has moved to another shard");
}

type Arrival = { accountId: string; number: number; keyIds: readonly string[] };

async function arrive(target: HotStore, { accountId, number, keyIds }: Arrival): Promise<void> {
  for (let at = 0; at < keyIds.length; at += keysPerRun) {
    const keys = keyIds.slice(at, at + keysPerRun);
    await target.apply(
      "",
      keys.map((keyId): HotOperation => ["arrive-key", keyId, accountId, String(number)]),
    );
  }
  await target.apply("", [["arrive", accountId, String(number)]]);
}

/**
 * A shard says that an account has left it, and PostgreSQL that it is there: it was restored to before a move. The
 * shards know better: the one that has not marked it as gone has it.
 */
async function findAgain({ database, shards, log }: MoveDeps, accountId: string): Promise<void> {
  const marks = await Promise.all(shards.all.map((shard) => shard.readMove(accountId)));
  const known = shards.of(accountId).index;
  const having = marks.flatMap(({ moved }, index) => (moved === "gone" ? [] : [index]));
  // One that it was leaving still has it: no other may have taken it in.
  const [only = known, ...others] = marks[known]?.moved === "leaving" ? [known] : having;
  if (others.length > 0) {
    log.error({ accountId, shards: having }, "several shards may have an account: move it to the one with its holds");
    return;
  }
  log.warn({ accountId, shard: only }, "PostgreSQL has lost in which shard an account is: taking it from Redis");
  const after = Math.max(...marks.map(({ number }) => number));
  await beginMove(database, { accountId, shard: known, movingTo: only, after });
}
