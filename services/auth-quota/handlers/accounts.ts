import { randomBytes } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { AccountStatus, type AccountSchema, type AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { isToBegin, readLimitChange, toLimit } from "./limits.ts";
import type { Push } from "../hot/push.ts";
import { findAccounts, insertAccount, listAccounts, updateAccount, type AccountRow } from "../store/accounts.ts";
import type { Database } from "../store/postgres.ts";
import {
  checkConcurrency,
  checkId,
  checkIds,
  checkLimit,
  checkName,
  checkRate,
  refuse,
  toTimestamp,
} from "./validate.ts";

type AccountHandlers = Pick<
  UnaryHandlers<typeof AuthQuotaService>,
  "createAccount" | "updateAccount" | "getAccounts" | "listAccounts"
>;

const listLimit = { default: 100, max: 1_000 };

/** The administration of accounts: PostgreSQL first, then Redis, where it takes effect. `beginBudget`: as of keys. */
export function accountHandlers(
  database: Database,
  push: Push,
  beginBudget: (accountId: string) => Promise<void>,
): AccountHandlers {
  return {
    createAccount: async ({ name, accountId, requestsPerMinute, maxConcurrent }) => {
      const row = await insertAccount(database, {
        accountId: accountId === "" ? `acct_${randomBytes(12).toString("hex")}` : checkId("account_id", accountId),
        name: checkName("name", name, 1),
        requestsPerMinute: checkRate("requests_per_minute", requestsPerMinute),
        maxConcurrent: checkConcurrency("max_concurrent", maxConcurrent),
      });
      if (!row) throw new ServiceError("already_exists", `account ${accountId} exists already`);
      await push.account(row);
      return { account: toAccount(row) };
    },
    updateAccount: async (request) => {
      const { accountId, name, status, requestsPerMinute, maxConcurrent } = request;
      const row = await updateAccount(database, checkId("account_id", accountId), {
        name: name === undefined ? undefined : checkName("name", name, 1),
        status: readStatus(status),
        requestsPerMinute:
          requestsPerMinute === undefined ? undefined : checkRate("requests_per_minute", requestsPerMinute),
        maxConcurrent: maxConcurrent === undefined ? undefined : checkConcurrency("max_concurrent", maxConcurrent),
        ...readLimitChange(request),
      });
      if (!row) throw accountNotFound(accountId);
      if (!isToBegin(row)) {
        await push.account(row);
        return { account: toAccount(row) };
      }
      await beginBudget(accountId).catch(() => undefined);
      return { account: toAccount((await findAccounts(database, [accountId]))[0] ?? row) };
    },
    getAccounts: async ({ accountIds }) => {
      const ids = checkIds("account_ids", accountIds);
      const rows = new Map((await findAccounts(database, ids)).map((row) => [row.accountId, row]));
      return { accounts: ids.flatMap((id) => rows.get(id) ?? []).map(toAccount) };
    },
    listAccounts: async ({ afterAccountId, limit, search }) => {
      const rows = await listAccounts(database, {
        afterId: afterAccountId === "" ? "" : checkId("after_account_id", afterAccountId),
        search: checkName("search", search, 0),
        limit: checkLimit("limit", limit, listLimit),
      });
      return { accounts: rows.map(toAccount) };
    },
  };
}

export function accountNotFound(accountId: string): ServiceError {
  return new ServiceError("not_found", `account ${accountId} does not exist`);
}

function readStatus(status: AccountStatus): AccountRow["status"] | undefined {
  switch (status) {
    case AccountStatus.UNSPECIFIED:
      return undefined;
    case AccountStatus.ACTIVE:
      return "active";
    case AccountStatus.SUSPENDED:
      return "suspended";
    default:
      return refuse("status must be ACTIVE or SUSPENDED");
  }
}

function toAccount(row: AccountRow): MessageInitShape<typeof AccountSchema> {
  const { accountId, name, requestsPerMinute, maxConcurrent, createdAt } = row;
  const status = row.status === "active" ? AccountStatus.ACTIVE : AccountStatus.SUSPENDED;
  const limits = { requestsPerMinute, maxConcurrent, ...toLimit(row) };
  return { accountId, name, status, ...limits, createdAt: toTimestamp(createdAt) };
}
