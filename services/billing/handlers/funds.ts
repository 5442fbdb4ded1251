import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type {
  GetBalanceRequest,
  GetBalanceResponseSchema,
  GetFundsRequest,
  GetFundsResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { badRequest, requireId } from "./check-request.ts";
import { readAccounts, readKeyFunds } from "../store/funds.ts";
import type { Pool } from "#shared/stores/postgres.ts";

const maxIds = 1_000;

/** The balance of an account; one that the ledger has not met has 0 and version 0. */
export async function getBalance(
  pool: Pool,
  request: GetBalanceRequest,
): Promise<MessageInitShape<typeof GetBalanceResponseSchema>> {
  const [account] = await readAccounts(pool, [requireId("account_id", request.accountId)]);
  if (!account) return {};
  const { balanceNanos, creditedNanos, chargedNanos, version } = account;
  return { balanceNanos, creditedNanos, chargedNanos, version };
}

/** Balances and spendings in the order asked; what the ledger has not met has 0 and version 0. */
export async function getFunds(
  pool: Pool,
  { accountIds, keyIds }: GetFundsRequest,
): Promise<MessageInitShape<typeof GetFundsResponseSchema>> {
  if (accountIds.length > maxIds) throw badRequest(`at most ${maxIds} account_ids`);
  if (keyIds.length > maxIds) throw badRequest(`at most ${maxIds} key_ids`);
  for (const id of accountIds) requireId("account_ids", id);
  for (const id of keyIds) requireId("key_ids", id);
  const accounts = new Map((await readAccounts(pool, accountIds)).map((row) => [row.accountId, row]));
  const keys = new Map((await readKeyFunds(pool, keyIds)).map((row) => [row.keyId, row]));
  return {
    accounts: accountIds.map((accountId) => {
      const { balanceNanos = 0n, spentNanos = 0n, version = 0n } = accounts.get(accountId) ?? {};
      return { accountId, balanceNanos, spentNanos, version };
    }),
    keys: keyIds.map((keyId) => {
      const { spentNanos = 0n, version = 0n, chargedAt } = keys.get(keyId) ?? {};
      return { keyId, spentNanos, version, ...(chargedAt && { chargedAt: timestampFromDate(chargedAt) }) };
    }),
  };
}
