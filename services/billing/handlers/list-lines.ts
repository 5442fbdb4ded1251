import { dayMs, type Clock } from "#shared/process/clock.ts";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  CallResult,
  LineKind,
  type ListLedgerLinesRequest,
  type ListLedgerLinesResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { dayOfMs } from "../records/check.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { badRequest, requireId, requireLimit, requireText, requireUuidTimeMs } from "./check-request.ts";
import { toLedgerLine } from "./ledger-line.ts";
import { findLines, readLines, type CallFilter } from "../store/lines.ts";
import type { Pool } from "#shared/stores/postgres.ts";

const lineKinds = new Set<number>(Object.values(LineKind));

/**
 * A page of an account's lines, newest first; the last line_id of a page leads to the next, or next_before_line_id
 * where only some calls are asked for.
 */
export async function listLedgerLines(
  { pool, clock }: { pool: Pool; clock: Clock },
  request: ListLedgerLinesRequest,
): Promise<MessageInitShape<typeof ListLedgerLinesResponseSchema>> {
  const { accountId, beforeLineId, limit, rid, kind } = request;
  if (!lineKinds.has(kind)) throw badRequest("kind is unknown");
  const query = {
    accountId: requireId("account_id", accountId),
    limit: requireLimit(limit),
    newestMs: beforeLineId === "" ? clock.nowMs() : requireUuidTimeMs("before_line_id", beforeLineId),
    before: beforeLineId === "" ? undefined : beforeOf(beforeLineId),
    call: rid === "" ? undefined : { rid, day: dayOfMs(requireUuidTimeMs("rid", rid)) },
    kind: kind || undefined,
  };
  const filter = readFilter(request);
  if (!filter) return { lines: (await readLines(pool, query)).map(toLedgerLine) };
  if (query.call) throw badRequest("rid names one call: no key_id, model or result can be asked for beside it");
  const { lines, lookedUpTo } = await findLines(pool, query, filter);
  return { lines: lines.map(toLedgerLine), nextBeforeLineId: lookedUpTo ?? "" };
}

const endedAs: Record<CallResult, CallFilter["ended"]> = {
  [CallResult.UNSPECIFIED]: undefined,
  [CallResult.WHOLE]: { isOf: true, cause: EndCause.COMPLETE },
  [CallResult.OTHER]: { isOf: false, cause: EndCause.COMPLETE },
};

function readFilter({ keyId, model, result }: ListLedgerLinesRequest): CallFilter | undefined {
  if (!(result in endedAs)) throw badRequest("result is unknown");
  const filter = {
    keyId: keyId === "" ? undefined : requireId("key_id", keyId),
    model: model === "" ? undefined : requireText("model", model, { min: 1, max: 1_000 }),
    ended: endedAs[result],
  };
  return Object.values(filter).some((one) => one !== undefined) ? filter : undefined;
}

// A line can be on a day after that of its booking only when the clock of a relay is ahead, by at most a day.
function beforeOf(lineId: string): { lineId: string; day: string } {
  return { lineId, day: dayOfMs(requireUuidTimeMs("before_line_id", lineId) + dayMs) };
}
