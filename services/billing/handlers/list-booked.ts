import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type {
  ListBookedAccountsRequest,
  ListBookedAccountsResponseSchema,
  ListBookedKeysRequest,
  ListBookedKeysResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { readBookedAccounts, readBookedKeys } from "../store/funds.ts";
import { requireId, requireLimit } from "./check-request.ts";

const after = (name: string, id: string): string => (id === "" ? id : requireId(name, id));

/** A page of the accounts that something was ever booked for. */
export async function listBookedAccounts(
  pool: Pool,
  { afterAccountId, limit }: ListBookedAccountsRequest,
): Promise<MessageInitShape<typeof ListBookedAccountsResponseSchema>> {
  return { accounts: await readBookedAccounts(pool, after("after_account_id", afterAccountId), requireLimit(limit)) };
}

/** A page of the keys that were charged lately: auth-quota may have forgotten those that were deleted long ago. */
export async function listBookedKeys(
  pool: Pool,
  { afterKeyId, limit }: ListBookedKeysRequest,
): Promise<MessageInitShape<typeof ListBookedKeysResponseSchema>> {
  const keys = await readBookedKeys(pool, after("after_key_id", afterKeyId), requireLimit(limit));
  return { keys: keys.map(({ chargedAt, ...key }) => ({ ...key, chargedAt: timestampFromDate(chargedAt) })) };
}
