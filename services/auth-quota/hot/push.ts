import type { Logger } from "#shared/process/log.ts";
import { toKeySettings } from "./load.ts";
import {
  findUnpushedAccounts,
  forgetRecentAccountPushes,
  markAccountsPushed,
  type AccountRow,
} from "../store/accounts.ts";
import { keepChange, writeAccount, writeKey, type HotStore } from "../store/hot.ts";
import { findUnpushedKeys, forgetRecentKeyPushes, markKeysPushed, type KeyRow } from "../store/keys.ts";
import type { Database } from "../store/postgres.ts";

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
};

const maxPerRepair = 500;
const distrustedMinutes = 10;
// After a restore all rows are pushed, and most were changed before anything that a restore can forget.
const keptMs = 14 * 86_400_000;
const isRecent = ({ updatedAt }: { updatedAt: Date }): boolean => Date.now() - updatedAt.getTime() < keptMs;

export function createPush(database: Database, hot: HotStore, log: Logger): Push {
  const pushAccounts = async (rows: AccountRow[]): Promise<void> => {
    if (rows.length === 0) return;
    const kept = rows
      .filter(isRecent)
      .map((row) => keepChange({ kind: "account", row: row.row }, { id: row.accountId, version: row.version }));
    await hot.apply("", [...rows.map(writeAccount), ...kept]);
    await markAccountsPushed(database, rows);
  };
  const pushKeys = async (rows: KeyRow[]): Promise<void> => {
    if (rows.length === 0) return;
    const kept = rows
      .filter(isRecent)
      .map((row) => keepChange({ kind: "key", row: row.row }, { id: row.keyId, version: row.version }));
    await hot.apply("", [...rows.map((row) => writeKey(toKeySettings(row))), ...kept]);
    await markKeysPushed(database, rows);
  };
  const attempt = async (work: Promise<void>, about: object): Promise<void> => {
    try {
      await work;
    } catch (error) {
      log.error({ err: error, ...about }, "failed to push a committed change, will retry");
    }
  };
  return {
    account: (row) => attempt(pushAccounts([row]), { accountId: row.accountId }),
    accounts: (rows) => attempt(pushAccounts(rows), { accounts: rows.length }),
    key: (row) => attempt(pushKeys([row]), { keyId: row.keyId }),
    keys: (rows) => attempt(pushKeys(rows), { keys: rows.length }),
    repair: async () => {
      const accounts = await findUnpushedAccounts(database, maxPerRepair);
      await pushAccounts(accounts);
      const keys = await findUnpushedKeys(database, maxPerRepair);
      await pushKeys(keys);
      return accounts.length + keys.length;
    },
    distrust: async () => {
      await forgetRecentAccountPushes(database, distrustedMinutes);
      await forgetRecentKeyPushes(database, distrustedMinutes);
    },
  };
}
