import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ListLowBalancesRequest, ListLowBalancesResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { requireLimit } from "./check-request.ts";
import { readLowBalances } from "../store/funds.ts";
import type { Pool } from "#shared/stores/postgres.ts";

/** The accounts with the lowest balances below an amount, the lowest first, and how many there are in all. */
export async function listLowBalances(
  pool: Pool,
  { belowNanos, limit }: ListLowBalancesRequest,
): Promise<MessageInitShape<typeof ListLowBalancesResponseSchema>> {
  return await readLowBalances(pool, { belowNanos, limit: requireLimit(limit) });
}
