import { dayMs, type Clock } from "#shared/process/clock.ts";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  LineKind,
  type ListLedgerLinesRequest,
  type ListLedgerLinesResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { dayOfMs } from "../records/check.ts";
import { badRequest, requireId, requireLimit, requireUuidTimeMs } from "./check-request.ts";
import { toLedgerLine } from "./ledger-line.ts";
import { readLines } from "../store/lines.ts";
import type { Pool } from "#shared/stores/postgres.ts";

const lineKinds = new Set<number>(Object.values(LineKind));

/** A page of an account's lines, newest first; the last line_id of a page leads to the next. */
export async function listLedgerLines(
  { pool, clock }: { pool: Pool; clock: Clock },
  { accountId, beforeLineId, limit, rid, kind }: ListLedgerLinesRequest,
): Promise<MessageInitShape<typeof ListLedgerLinesResponseSchema>> {
  if (!lineKinds.has(kind)) throw badRequest("kind is unknown");
  const rows = await readLines(pool, {
    accountId: requireId("account_id", accountId),
    limit: requireLimit(limit),
    newestMs: beforeLineId === "" ? clock.nowMs() : requireUuidTimeMs("before_line_id", beforeLineId),
    before: beforeLineId === "" ? undefined : beforeOf(beforeLineId),
    call: rid === "" ? undefined : { rid, day: dayOfMs(requireUuidTimeMs("rid", rid)) },
    kind: kind || undefined,
  });
  return { lines: rows.map(toLedgerLine) };
}

// A line can be on a day after that of its booking only when the clock of a relay is ahead, by at most a day.
function beforeOf(lineId: string): { lineId: string; day: string } {
  return { lineId, day: dayOfMs(requireUuidTimeMs("before_line_id", lineId) + dayMs) };
}
