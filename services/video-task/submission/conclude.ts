import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ConcludeRequest, ConcludeResponseSchema } from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { underWay } from "./await-outcome.ts";
import { requireId, requireRid } from "../check-request.ts";
import { insertTombstone, readSubmission } from "../store/submissions.ts";
import { isTask } from "../task-message.ts";

/**
 * Tells the charge of a submission whose answer was lost, if a provider has taken it. One that has not come leaves a
 * refused row, so that nothing is sent when it comes after all. `unavailable` while it is submitting: ask again.
 */
export async function conclude(
  pool: Pool,
  { rid, accountId }: ConcludeRequest,
): Promise<MessageInitShape<typeof ConcludeResponseSchema>> {
  requireRid(rid);
  requireId("account_id", accountId);
  await insertTombstone(pool, rid, accountId);
  const row = await readSubmission(pool, rid);
  if (row?.accountId !== accountId) throw new ServiceError("invalid_argument", "the rid is another account's");
  if (row.state === "submitting") throw underWay();
  return isTask(row) ? { charge: row.charge } : { isUnknown: row.state === "unknown" };
}
