import type { Queryable } from "#shared/stores/postgres.ts";
import { lineTimeMs } from "../records/line-id.ts";
import { firstDayOfBooked } from "./sum-state.ts";

export type UnnumberedCharge = { lineId: string; record: Buffer; refundedNanos: bigint };

/**
 * Charges that no relay process has numbered, which are those of videos: booked behind one line and before another, in
 * that order, each with what was given back for its call. The partitions' small indexes tell where lines of a time lie.
 */
export async function readUnnumberedCharges(
  db: Queryable,
  { afterLineId, untilLineId, limit }: { afterLineId: string; untilLineId: string; limit: number },
): Promise<UnnumberedCharge[]> {
  const { rows } = await db.query<UnnumberedCharge>(
    `SELECT l.line_id AS "lineId", l.event AS record, coalesce((
       SELECT sum(r.amount_nanos) FROM billing.ledger_line AS r
       WHERE r.rid = l.rid AND r.kind = 6 AND r.day >= l.day - 1
     ), 0)::bigint AS "refundedNanos"
     FROM billing.ledger_line AS l
     WHERE l.kind = 1 AND coalesce(l.relay_session, '') = '' AND l.line_id > $1 AND l.line_id < $2 AND l.day >= $3
     ORDER BY l.line_id LIMIT $4`,
    [afterLineId, untilLineId, firstDayOfBooked(lineTimeMs(afterLineId)), limit],
  );
  return rows;
}
