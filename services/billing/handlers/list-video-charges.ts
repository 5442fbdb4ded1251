import { fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import type { ListVideoChargesRequest, ListVideoChargesResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import type { Clock } from "#shared/process/clock.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { readUnnumberedCharges } from "../store/video-charges.ts";
import { videosPath } from "./book-by-hand.ts";
import { badRequest, requireLimit } from "./check-request.ts";

// Ids of lines are times: those of one that is committed late, or by a process whose clock is behind, are in by then.
const settledMs = 600_000;
const linePattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Charges of videos that were booked behind a line, up to ten minutes ago. */
export async function listVideoCharges(
  { pool, clock }: { pool: Pool; clock: Clock },
  { afterLineId, limit }: ListVideoChargesRequest,
): Promise<MessageInitShape<typeof ListVideoChargesResponseSchema>> {
  const lines = requireLimit(limit);
  const untilLineId = firstUuidAt(clock.nowMs() - settledMs);
  if (afterLineId === "") return { untilLineId };
  if (!linePattern.test(afterLineId)) throw badRequest("after_line_id must be the id of a line");
  // Asked by a process whose clock was ahead.
  if (afterLineId >= untilLineId) return { untilLineId: afterLineId };
  const found = await readUnnumberedCharges(pool, { afterLineId, untilLineId, limit: lines });
  const videos = found.filter(({ record }) => fromBinary(UsageRecordedSchema, record).endpoint === videosPath);
  const hasMore = found.length === lines;
  return {
    charges: videos.map(({ record, refundedNanos }) => ({ record, refundedNanos })),
    untilLineId: hasMore ? (found.at(-1)?.lineId ?? untilLineId) : untilLineId,
    hasMore,
  };
}
