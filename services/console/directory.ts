import type { Account } from "#proto/authquota/v1/authquota_pb.ts";
import type { Deps } from "./deps.ts";

/** The account with an id; undefined when there is none. */
export async function findAccount(deps: Pick<Deps, "authQuota">, accountId: string): Promise<Account | undefined> {
  return (await findAccounts(deps, [accountId])).get(accountId);
}

/** Accounts by id, as far as there are any. At most 1,000 ids. */
export async function findAccounts(
  { authQuota }: Pick<Deps, "authQuota">,
  ids: readonly string[],
): Promise<Map<string, Account>> {
  const accountIds = [...new Set(ids)];
  if (accountIds.length === 0) return new Map();
  const { accounts } = await authQuota.getAccounts({ accountIds });
  return new Map(accounts.map((account) => [account.accountId, account]));
}
