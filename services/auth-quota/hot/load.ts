import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import { gather } from "./batch-loader.ts";
import { findAccounts } from "../store/accounts.ts";
import {
  need,
  unasked,
  writeAccount,
  writeBalance,
  writeKey,
  writeSpending,
  type HotOperation,
  type KeySettings,
  type Owner,
} from "../store/hot.ts";
import { findKeys, type KeyRow } from "../store/keys.ts";
import type { Database } from "../store/postgres.ts";
import type { Shards } from "../store/shards.ts";

/**
 * Brings what Redis lacks (a sum of `need`): settings from PostgreSQL, money from billing's ledger, as operations that
 * write it into Redis. Rejects with `unavailable` when a source is down, with `not_found` when there is no such thing.
 *
 * What it brings may be old by the time it is written, and that is harmless: whoever commits a newer version also
 * pushes it to Redis until it is taken, and of two versions Redis keeps the newer one in whatever order they come.
 */
export type Load = (missing: number, owner: Owner) => Promise<HotOperation[]>;

/** The part of billing that is asked for money. */
export type FundsSource = Pick<UnaryClient<typeof BillingService>, "getFunds">;

export function createLoad(database: Database, billing: FundsSource, shards: Shards): Load {
  const account = gather(async (ids) => {
    const rows = await findAccounts(database, ids);
    return new Map(rows.map((row) => [row.accountId, writeAccount(row)]));
  });
  const key = gather(async (ids) => {
    const rows = await findKeys(database, ids);
    return new Map(rows.map((row) => [row.keyId, writeKey(toKeySettings(row))]));
  });
  const funds = gather(async (names) => {
    const accountIds: string[] = [];
    const keys: Owner[] = [];
    for (const name of names) {
      const [accountId = "", keyId] = name.split(" ");
      if (keyId === undefined) accountIds.push(accountId);
      else keys.push({ accountId, keyId });
    }
    return readFunds(billing, shards, { accountIds, keys });
  });

  return async (missing, { accountId, keyId }) => {
    const wanted: Promise<HotOperation | undefined>[] = [];
    if (missing & need.account) wanted.push(account(accountId));
    if (missing & need.balance) wanted.push(funds(accountId));
    if (missing & need.key) wanted.push(key(keyId));
    if (missing & need.spending) wanted.push(funds(keyFundsName({ accountId, keyId })));
    const found = await Promise.all(wanted);
    return found.map((operation) => {
      if (!operation) throw new ServiceError("not_found", `account ${accountId} or key ${keyId} does not exist`);
      return operation;
    });
  };
}

/** A key's row as Redis keeps it. */
export function toKeySettings({ expiresAt, limitNanos, ...row }: KeyRow): KeySettings {
  return { ...row, expiresAtMs: expiresAt?.getTime(), limitNanos: limitNanos ?? undefined };
}

// One call brings balances and spending: an account has its id as its name there, a key also its own, which no id has.
const keyFundsName = ({ accountId, keyId }: Owner): string => `${accountId} ${keyId}`;
/** The account behind a name of readFunds(). */
export const accountOfFunds = (name: string): string => name.split(" ")[0] ?? "";

/**
 * Asks billing for balances and spending as they are now, as operations that write them, by name. Each is of the
 * generation that the shard of its account has at this moment.
 */
export async function readFunds(
  billing: FundsSource,
  shards: Shards,
  { accountIds, keys: owners }: { accountIds: string[]; keys: Owner[] },
): Promise<Map<string, HotOperation>> {
  const generationOf = (accountId: string): string => shards.of(accountId).generation();
  const askedIn = new Map(accountIds.map((accountId) => [accountId, generationOf(accountId)]));
  const owned = new Map(owners.map((owner) => [owner.keyId, { ...owner, askedIn: generationOf(owner.accountId) }]));
  const { accounts, keys } = await billing.getFunds({ accountIds, keyIds: [...owned.keys()] });
  const found = new Map<string, HotOperation>();
  for (const { accountId, balanceNanos, spentNanos, version } of accounts) {
    const told = { nanos: balanceNanos, spentNanos, version };
    found.set(accountId, writeBalance(accountId, told, askedIn.get(accountId) ?? unasked));
  }
  for (const { keyId, spentNanos, version } of keys) {
    const owner = owned.get(keyId);
    if (!owner) continue;
    found.set(keyFundsName(owner), writeSpending(owner, { nanos: spentNanos, version }, owner.askedIn));
  }
  return found;
}
