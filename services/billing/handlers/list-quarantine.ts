import { fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type {
  ListQuarantineRequest,
  ListQuarantineResponseSchema,
  QuarantinedRecordSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { type UsageRecorded, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { badRequest, requireLimit } from "./check-request.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { readQuarantine, type QuarantineRow } from "../store/quarantine.ts";

/** A page of records that could not be booked, newest first; the last quarantine_id of a page leads to the next. */
export async function listQuarantine(
  pool: Pool,
  { limit, beforeQuarantineId, onlyOpen }: ListQuarantineRequest,
): Promise<MessageInitShape<typeof ListQuarantineResponseSchema>> {
  if (beforeQuarantineId < 0n) throw badRequest("before_quarantine_id must not be negative");
  const before = beforeQuarantineId || undefined;
  const rows = await readQuarantine(pool, { before, onlyOpen, limit: requireLimit(limit) });
  return { records: rows.map(toRecord) };
}

function toRecord(row: QuarantineRow): MessageInitShape<typeof QuarantinedRecordSchema> {
  const { quarantineId, reason, payload, rid, receivedAt } = row;
  const usage = usageOf(row);
  return {
    quarantineId,
    reason,
    payload,
    receivedAt: timestampFromDate(receivedAt),
    rid: rid ?? "",
    isOpen: row.isOpen,
    ...(usage && { usage }),
  };
}

function usageOf({ reason, payload }: QuarantineRow): UsageRecorded | undefined {
  // It may be a whole message, and read as something that it is not.
  if (reason.startsWith("unreadable")) return undefined;
  try {
    return fromBinary(UsageRecordedSchema, payload);
  } catch {
    return undefined;
  }
}
