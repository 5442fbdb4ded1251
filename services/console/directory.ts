import type { Account } from "#proto/authquota/v1/authquota_pb.ts";
import type { Parts } from "./parts.ts";

const alphabet = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
const mostLength = 64;

/** The account with an id; undefined when there is none. */
export async function findAccount({ authQuota }: Pick<Parts, "authQuota">, accountId: string) {
  const { accounts } = await authQuota.listAccounts({ afterAccountId: idBefore(accountId), limit: 1 });
  const [account] = accounts;
  return account?.accountId === accountId ? account : undefined;
}

/**
 * The id right before this one, in the order (by bytes) in which auth-quota lists accounts: it has no call that tells
 * one account, and the first one after that id is the one asked for.
 */
export function idBefore(accountId: string): string {
  const start = accountId.slice(0, -1);
  const before = alphabet[alphabet.indexOf(accountId.at(-1) ?? "") - 1];
  return before === undefined ? start : (start + before).padEnd(mostLength, "z");
}

/** Accounts by id, as far as there are any. */
export async function findAccounts(parts: Pick<Parts, "authQuota">, ids: string[]): Promise<Map<string, Account>> {
  const found = await Promise.all(ids.map((accountId) => findAccount(parts, accountId)));
  return new Map(found.filter((account) => account !== undefined).map((account) => [account.accountId, account]));
}
