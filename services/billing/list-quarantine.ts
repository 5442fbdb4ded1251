import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ListQuarantineRequest, ListQuarantineResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { requireLimit } from "./check-request.ts";
import type { Pool } from "#shared/postgres.ts";
import { readQuarantine } from "./store/quarantine.ts";

/** Records that could not be booked, newest first. */
export async function listQuarantine(
  pool: Pool,
  { limit }: ListQuarantineRequest,
): Promise<MessageInitShape<typeof ListQuarantineResponseSchema>> {
  const rows = await readQuarantine(pool, requireLimit(limit));
  return {
    records: rows.map(({ quarantineId, reason, payload, receivedAt }) => ({
      quarantineId,
      reason,
      payload,
      receivedAt: timestampFromDate(receivedAt),
    })),
  };
}
