import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ExportLinesRequest, ExportLinesResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { detached, requireDays, requireId } from "./check-request.ts";
import { toLedgerLine } from "./ledger-line.ts";
import { readDayLines } from "../store/export.ts";
import type { LineRow } from "../store/lines.ts";
import { findDetachedDay, readLedgerDays } from "../store/partitions.ts";
import type { Pool } from "#shared/stores/postgres.ts";

// The first page is short: a browser shows that a file has begun.
const firstLines = 50;
const linesPerPage = 500;

/**
 * The lines of whole days in the order of day, account and line, a page per response. Each page is read when the one
 * before has found room on its way: a slow reader holds neither memory nor a connection, and may take any time. Days
 * that never had lines are empty; a day whose partition was detached is `failed_precondition`. A line that is booked
 * meanwhile, which only happens on days that late events still reach, may be in it or not.
 */
export async function* exportLines(
  pool: Pool,
  request: ExportLinesRequest,
): AsyncGenerator<MessageInitShape<typeof ExportLinesResponseSchema>> {
  requireDays(request);
  const accountId = request.accountId === "" ? undefined : requireId("account_id", request.accountId);
  const { fromDay, untilDay } = request;
  const missing = await findDetachedDay(pool, fromDay, untilDay);
  if (missing !== undefined && missing < untilDay) throw detached(missing);
  let limit = firstLines;
  for (const day of await readLedgerDays(pool, fromDay, untilDay)) {
    for (let after: LineRow | undefined; ;) {
      const rows = await readDayLines(pool, { day, accountId, after, limit });
      const isLast = rows.length < limit;
      if (rows.length > 0) {
        yield { lines: rows.map(toLedgerLine) };
        limit = linesPerPage;
      }
      after = rows.at(-1);
      if (isLast) break;
    }
  }
}
