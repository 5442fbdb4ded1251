import type { Logger } from "#shared/process/log.ts";
import { toKeySettings } from "./load.ts";
import { followMoved, type Moves } from "./moves.ts";
import {
  findUnpushedAccounts,
  forgetRecentAccountPushes,
  markAccountsPushed,
  type AccountRow,
} from "../store/accounts.ts";
import { answerCodes, keepChange, writeAccount, writeKey, type Change, type HotOperation } from "../store/hot.ts";
import { findUnpushedKeys, forgetRecentKeyPushes, markKeysPushed, type KeyRow } from "../store/keys.ts";
import type { Database } from "../store/postgres.ts";
import { byShard, forEachOf, type Shards } from "../store/shards.ts";

/** Brings committed settings to Redis, where they take effect. */
export type Push = {
  /** Pushes a row just committed. Never rejects: what fails now is repeated by repair(). */
  account: (row: AccountRow) => Promise<void>;
  accounts: (rows: AccountRow[]) => Promise<void>;
  key: (row: KeyRow) => Promise<void>;
  keys: (rows: KeyRow[]) => Promise<void>;
  /** Pushes every row that Redis has not certainly taken; tells how many there were. Rejects when a store is down. */
  repair: () => Promise<number>;
  /**
   * Has repair() push what was changed lately once more. For a Redis that came back: it may have lost its last second,
   * and a key that was stopped in it must not work again.
   */
  distrust: () => Promise<void>;
  /** Has it push all that a shard keeps for a database that forgets it: for one that has lost everything. */
  repush: () => Promise<void>;
};

const maxPerRepair = 500;
// Rows of a shard that is away must not keep those of the others from their turn.
const maxPages = 20;
const distrustedMinutes = 10;
// After a restore all rows are pushed, and most were changed before anything that a restore can forget.
const keptMs = 14 * 86_400_000;

/** One kind of rows: how they are written, and where it is noted that they are. */
type Kind<Row> = {
  write: (row: Row) => HotOperation;
  change: (row: Row) => { change: Change; id: string };
  mark: (database: Database, rows: Row[]) => Promise<void>;
  find: (database: Database, limit: number, offset: number) => Promise<Row[]>;
};
type AnyRow = { accountId: string; version: bigint; updatedAt: Date };

const accountRows: Kind<AccountRow> = {
  write: writeAccount,
  change: ({ accountId, row }) => ({ change: { kind: "account", row }, id: accountId }),
  mark: markAccountsPushed,
  find: findUnpushedAccounts,
};
const keyRows: Kind<KeyRow> = {
  write: (row) => writeKey(toKeySettings(row)),
  change: ({ keyId, row }) => ({ change: { kind: "key", row }, id: keyId }),
  mark: markKeysPushed,
  find: findUnpushedKeys,
};

async function forgetPushes(database: Database, minutes: number): Promise<void> {
  await forgetRecentAccountPushes(database, minutes);
  await forgetRecentKeyPushes(database, minutes);
}

const isRecent = ({ updatedAt }: AnyRow): boolean => Date.now() - updatedAt.getTime() < keptMs;

type PushDeps = { database: Database; shards: Shards; moves: Pick<Moves, "look">; log: Logger };

export function createPush({ database, shards, moves, log }: PushDeps): Push {
  const pushRows = <Row extends AnyRow>(kind: Kind<Row>, rows: readonly Row[]): Promise<void> =>
    forEachOf(
      byShard(shards, rows, (row) => row.accountId),
      async ([shard, own]) => {
        const kept = own.filter(isRecent).map((row) => {
          const { change, id } = kind.change(row);
          return keepChange(change, { id, version: row.version });
        });
        const answers = await shard.apply("", [...own.map(kind.write), ...kept]);
        const isMoved = (_: Row, at: number): boolean => answers[at]?.code === answerCodes.moved;
        const moved = own.filter(isMoved);
        await kind.mark(
          database,
          own.filter((row, at) => !isMoved(row, at)),
        );
        if (moved.length === 0) return;
        await followMoved({ shards, moves }, shard, new Set(moved.map(({ accountId }) => accountId)));
        await pushRows(kind, moved);
      },
    );
  const attempt = async (work: Promise<void>, about: object): Promise<void> => {
    try {
      await work;
    } catch (error) {
      log.error({ err: error, ...about }, "failed to push a committed change, will retry");
    }
  };
  const repairKind = async <Row extends AnyRow>(kind: Kind<Row>): Promise<number> => {
    let found = 0;
    let waiting = 0;
    for (let page = 0; page < maxPages; page += 1) {
      const rows = await kind.find(database, maxPerRepair, waiting);
      found += rows.length;
      const ready = rows.filter((row) => shards.of(row.accountId).isReady());
      await pushRows(kind, ready);
      waiting += rows.length - ready.length;
      if (rows.length < maxPerRepair || ready.length === rows.length) break;
    }
    return found;
  };
  return {
    account: (row) => attempt(pushRows(accountRows, [row]), { accountId: row.accountId }),
    accounts: (rows) => attempt(pushRows(accountRows, rows), { accounts: rows.length }),
    key: (row) => attempt(pushRows(keyRows, [row]), { keyId: row.keyId }),
    keys: (rows) => attempt(pushRows(keyRows, rows), { keys: rows.length }),
    repair: async () => (await repairKind(accountRows)) + (await repairKind(keyRows)),
    distrust: () => forgetPushes(database, distrustedMinutes),
    repush: () => forgetPushes(database, keptMs / 60_000),
  };
}
