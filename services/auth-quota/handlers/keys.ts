import { hash, randomBytes } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  KeyStatus,
  type AuthQuotaService,
  type KeySchema,
  type UpdateKeyRequest,
} from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { accountNotFound } from "./accounts.ts";
import { isToBegin, readLimitChange, readPeriod, toLimit } from "./limits.ts";
import type { Push } from "../hot/push.ts";
import { findAccounts } from "../store/accounts.ts";
import {
  findKeys,
  findKeysByPrefix,
  insertKey,
  listKeys,
  markKeyDeleted,
  updateKey,
  type KeyChange,
  type KeyRow,
} from "../store/keys.ts";
import type { Database } from "../store/postgres.ts";
import {
  checkAddresses,
  checkAmount,
  checkConcurrency,
  checkId,
  checkIds,
  checkInstant,
  checkModels,
  checkName,
  checkRate,
  checkSecretPrefix,
  checkTags,
  refuse,
  toTimestamp,
} from "./validate.ts";

type KeyHandlers = Pick<
  UnaryHandlers<typeof AuthQuotaService>,
  "createKey" | "updateKey" | "deleteKey" | "listKeys" | "getKeys" | "findKeys"
>;

const secretBytes = 32;
const prefixLength = 10;
// As many as are listed: a key that nobody is shown could be neither stopped nor deleted.
const maxKeys = 1_000;
const maxFound = 100;

/**
 * The administration of keys: PostgreSQL first, then Redis, where it takes effect. `beginBudget` begins the budget of a
 * key; where it fails now, that is done within a second of billing's return.
 */
export function keyHandlers(
  database: Database,
  push: Push,
  beginBudget: (keyId: string) => Promise<void>,
): KeyHandlers {
  return {
    createKey: async (request) => {
      const { accountId, name, expiresAt, limitNanos, limitPeriod, models, maxConcurrent } = request;
      const secret = `sk-${randomBytes(secretBytes).toString("base64url")}`;
      const made = {
        keyId: `key_${randomBytes(12).toString("hex")}`,
        accountId: checkId("account_id", accountId),
        keyHash: hash("sha256", secret, "buffer"),
        secretPrefix: secret.slice(0, prefixLength),
        name: checkName("name", name, 0),
        expiresAt: expiresAt ? checkInstant("expires_at", expiresAt) : null,
        limitNanos: limitNanos === undefined ? null : checkAmount("limit_nanos", limitNanos),
        budgetPeriod: readPeriod(limitPeriod, limitNanos) ?? null,
        models: checkModels("models", models),
        maxConcurrent: checkConcurrency("max_concurrent", maxConcurrent),
        requestsPerMinute: checkRate("requests_per_minute", request.requestsPerMinute),
        addresses: checkAddresses("addresses", request.addresses),
        tags: checkTags("tags", request.tags),
      };
      const row = await insertKey(database, made, maxKeys);
      if (!row) throw accountNotFound(accountId);
      if (row === "full") throw new ServiceError("failed_precondition", `the account has ${maxKeys} keys already`);
      await push.key(row);
      return { key: toKey(row), secret };
    },
    updateKey: async (request) => {
      const keyId = checkId("key_id", request.keyId);
      const row = await updateKey(database, keyId, readChange(request));
      if (!row) throw await whyNoKey(database, keyId);
      if (!isToBegin(row)) {
        await push.key(row);
        return { key: toKey(row) };
      }
      // Should that fail now, what the key has spent before counts on the new limit until it works.
      await beginBudget(keyId).catch(() => undefined);
      return { key: toKey((await findKeys(database, [keyId]))[0] ?? row) };
    },
    deleteKey: async ({ keyId }) => {
      const row = await markKeyDeleted(database, checkId("key_id", keyId));
      if (!row) throw await whyNoKey(database, keyId);
      await push.key(row);
      return { key: toKey(row) };
    },
    listKeys: async ({ accountId, includeDeleted }) => {
      checkId("account_id", accountId);
      const rows = await listKeys(database, accountId, { withDeleted: includeDeleted, limit: maxKeys });
      if (rows.length === 0 && (await findAccounts(database, [accountId])).length === 0) {
        throw accountNotFound(accountId);
      }
      return { keys: rows.map(toKey) };
    },
    getKeys: async ({ keyIds }) => {
      const ids = checkIds("key_ids", keyIds);
      const rows = new Map((await findKeys(database, ids)).map((row) => [row.keyId, row]));
      return { keys: ids.flatMap((id) => rows.get(id) ?? []).map(toKey) };
    },
    findKeys: async ({ secretPrefix }) => {
      const prefix = checkSecretPrefix("secret_prefix", secretPrefix);
      return { keys: (await findKeysByPrefix(database, prefix, maxFound)).map(toKey) };
    },
  };
}

function readChange(request: UpdateKeyRequest): KeyChange {
  const { name, expiresAt, clearExpiry, models, clearModels, maxConcurrent, requestsPerMinute } = request;
  const { addresses, clearAddresses, tags, clearTags } = request;
  if (clearExpiry && expiresAt) refuse("expires_at and clear_expiry exclude each other");
  if (clearModels && models.length > 0) refuse("models and clear_models exclude each other");
  if (clearAddresses && addresses.length > 0) refuse("addresses and clear_addresses exclude each other");
  if (clearTags && tags.length > 0) refuse("tags and clear_tags exclude each other");
  const expiry = expiresAt && checkInstant("expires_at", expiresAt);
  const list = models.length === 0 ? undefined : checkModels("models", models);
  return {
    name: name === undefined ? undefined : checkName("name", name, 0),
    status: readStatus(request.status),
    expiresAt: clearExpiry ? null : expiry,
    ...readLimitChange(request),
    models: clearModels ? [] : list,
    maxConcurrent: maxConcurrent === undefined ? undefined : checkConcurrency("max_concurrent", maxConcurrent),
    requestsPerMinute:
      requestsPerMinute === undefined ? undefined : checkRate("requests_per_minute", requestsPerMinute),
    addresses: clearAddresses || addresses.length > 0 ? checkAddresses("addresses", addresses) : undefined,
    tags: clearTags || tags.length > 0 ? checkTags("tags", tags) : undefined,
  };
}

function readStatus(status: KeyStatus): "active" | "stopped" | undefined {
  switch (status) {
    case KeyStatus.UNSPECIFIED:
      return undefined;
    case KeyStatus.ACTIVE:
      return "active";
    case KeyStatus.STOPPED:
      return "stopped";
    default:
      return refuse("status must be ACTIVE or STOPPED; DeleteKey deletes");
  }
}

async function whyNoKey(database: Database, keyId: string): Promise<ServiceError> {
  const isDeleted = (await findKeys(database, [keyId])).length > 0;
  if (isDeleted) return new ServiceError("failed_precondition", `key ${keyId} is deleted and stays so`);
  return new ServiceError("not_found", `key ${keyId} does not exist`);
}

const statusNumber = { active: KeyStatus.ACTIVE, stopped: KeyStatus.STOPPED, deleted: KeyStatus.DELETED } as const;

function toKey(row: KeyRow): MessageInitShape<typeof KeySchema> {
  const { keyId, accountId, name, secretPrefix, models, maxConcurrent, requestsPerMinute, addresses, createdAt } = row;
  return {
    keyId,
    accountId,
    name,
    secretPrefix,
    models,
    maxConcurrent,
    requestsPerMinute,
    addresses,
    tags: row.tags,
    status: statusNumber[row.status],
    ...(row.expiresAt && { expiresAt: toTimestamp(row.expiresAt) }),
    ...toLimit(row),
    createdAt: toTimestamp(createdAt),
  };
}
