import type { Window } from "../records/finding.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { askLong, ofWindow, windowValues } from "./reconcile-query.ts";

/** A line of a call, as far as it is held against its event on the stream. */
export type EventLine = { rid: string; kind: number; hash: string; costNanos: bigint; bookedAt: Date };

const linesPerPage = 20_000;

/** Lines of the window's calls that were booked before `bookedBeforeMs`, page by page, in the order of rids. */
export async function* readEventLines(pool: Pool, window: Window, bookedBeforeMs: number): AsyncGenerator<EventLine[]> {
  let after = { rid: "00000000-0000-0000-0000-000000000000", kind: 0 };
  for (;;) {
    const page = await askLong<EventLine>(
      pool,
      `SELECT rid, kind, encode(payload_hash, 'hex') AS hash, coalesce(cost_nanos, -amount_nanos) AS "costNanos",
         booked_at AS "bookedAt"
       FROM billing.ledger_line
       WHERE ${ofWindow} AND kind <= 3 AND (rid, kind) > ($5, $6) AND booked_at < $7 ORDER BY rid, kind LIMIT $8`,
      [...windowValues(window), after.rid, after.kind, new Date(bookedBeforeMs), linesPerPage],
    );
    if (page.length > 0) yield page;
    const last = page.at(-1);
    if (!last || page.length < linesPerPage) return;
    after = last;
  }
}
