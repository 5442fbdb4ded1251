import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  RefusalReason,
  type FindSubmissionRequest,
  type FindSubmissionResponseSchema,
} from "#proto/video/v1/video_pb.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { awaitOutcome } from "./await-outcome.ts";
import { requireHash, requireId, requireIdempotencyKey } from "../check-request.ts";
import type { SubmissionSlots } from "./slots.ts";
import { readSubmissionOfKey } from "../store/submissions.ts";
import { isTask, toRefused, toTask } from "../task-message.ts";

type Response = MessageInitShape<typeof FindSubmissionResponseSchema>;

/**
 * Tells what an account submitted under an idempotency key, also when its task was deleted since: a key never submits
 * twice. Waits for one that is under way; rejects with `unavailable` when that takes too long.
 */
export async function findSubmission(
  { pool, slots }: { pool: Pool; slots: SubmissionSlots },
  { accountId, idempotencyKey, requestHash }: FindSubmissionRequest,
): Promise<Response> {
  requireId("account_id", accountId);
  requireIdempotencyKey(idempotencyKey);
  requireHash(requestHash);
  using _slot = slots.take(0);
  const earlier = await readSubmissionOfKey(pool, accountId, idempotencyKey);
  if (!earlier) return {};
  if (!earlier.requestHash.equals(requestHash)) return { found: { case: "keyReused", value: {} } };
  const row = await awaitOutcome({ pool, stop: slots.stop }, earlier.rid);
  if (row && isTask(row)) return { found: { case: "task", value: toTask(row) } };
  // A refused one has given its key back: it may be tried again.
  if (row?.refusal !== RefusalReason.UNKNOWN) return {};
  return { found: { case: "refused", value: toRefused(row) } };
}
