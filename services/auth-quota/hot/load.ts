import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import { gather } from "./batch-loader.ts";
import { findAccounts } from "../store/accounts.ts";
import {
  need,
  writeAccount,
  writeBalance,
  writeKey,
  writeSpending,
  type HotOperation,
  type HotStore,
  type KeySettings,
} from "../store/hot.ts";
import { findKeys, type KeyRow } from "../store/keys.ts";
import type { Database } from "../store/postgres.ts";

/** Whose data is missing. */
export type Owner = { accountId: string; keyId: string };

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

export function createLoad(database: Database, billing: FundsSource, generation: HotStore["generation"]): Load {
  const account = gather(async (ids) => {
    const rows = await findAccounts(database, ids);
    return new Map(rows.map((row) => [row.accountId, writeAccount(row)]));
  });
  const key = gather(async (ids) => {
    const rows = await findKeys(database, ids);
    return new Map(rows.map((row) => [row.keyId, writeKey(toKeySettings(row))]));
  });
  const funds = gather(async (names) => {
    const idsOf = (kind: string): string[] =>
      names.filter((name) => name.startsWith(kind)).map((name) => name.slice(kind.length));
    const { accounts, keys } = await readFunds(billing, generation(), [idsOf(accountName), idsOf(keyName)]);
    return new Map([...prefixed(accountName, accounts), ...prefixed(keyName, keys)]);
  });

  return async (missing, { accountId, keyId }) => {
    const wanted: Promise<HotOperation | undefined>[] = [];
    if (missing & need.account) wanted.push(account(accountId));
    if (missing & need.balance) wanted.push(funds(accountName + accountId));
    if (missing & need.key) wanted.push(key(keyId));
    if (missing & need.spending) wanted.push(funds(keyName + keyId));
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

// One call brings balances and spending; these tell them apart.
const accountName = "account ";
const keyName = "key ";

function prefixed<V>(kind: string, map: Map<string, V>): [string, V][] {
  return [...map].map(([id, value]) => [kind + id, value]);
}

/**
 * Asks billing for balances and spending as they are now, as operations that write them, by account and by key.
 * `askedIn` is the generation of the hot store at this moment.
 */
export async function readFunds(
  billing: FundsSource,
  askedIn: string,
  [accountIds, keyIds]: [string[], string[]],
): Promise<{ accounts: Map<string, HotOperation>; keys: Map<string, HotOperation> }> {
  const { accounts, keys } = await billing.getFunds({ accountIds, keyIds });
  return {
    accounts: new Map(
      accounts.map(({ accountId, balanceNanos, spentNanos, version }) => [
        accountId,
        writeBalance(accountId, { nanos: balanceNanos, spentNanos, version }, askedIn),
      ]),
    ),
    keys: new Map(
      keys.map(({ keyId, spentNanos, version }) => [
        keyId,
        writeSpending(keyId, { nanos: spentNanos, version }, askedIn),
      ]),
    ),
  };
}
