import type { Pool } from "#shared/stores/postgres.ts";

const dayMs = 86_400_000;
const rowsAtOnce = 1_000;
const firstRid = "00000000-0000-7000-8000-000000000000";

/** The rid below which all of an earlier time are. */
function ridAt(timeMs: number): string {
  const hex = Math.max(0, timeMs).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
}

/**
 * Creates the pass that forgets prompts of submissions older than so many days, all of which have ended by then. It
 * goes through old ones once after the start, by the times in their rids, and then through those that have become old
 * since.
 */
export function createPromptPass(pool: Pool, { days, nowMs }: { days: number; nowMs: () => number }) {
  let fromRid = firstRid;
  return async (): Promise<void> => {
    const untilRid = ridAt(nowMs() - days * dayMs);
    for (;;) {
      const last = await forgetPage(pool, fromRid, untilRid);
      if (last === undefined) return;
      fromRid = last;
    }
  };
}

// The last rid of a page that is full; undefined when there is no more to do.
async function forgetPage(pool: Pool, fromRid: string, untilRid: string): Promise<string | undefined> {
  const { rows } = await pool.query<{ rid: string }>(
    `WITH page AS MATERIALIZED (
       SELECT rid FROM video_task.task WHERE rid >= $1 AND rid < $2 ORDER BY rid LIMIT ${rowsAtOnce}
     ), forgotten AS (
       UPDATE video_task.task AS t SET prompt = '' FROM page WHERE t.rid = page.rid AND t.prompt <> ''
     )
     SELECT rid FROM page ORDER BY rid OFFSET ${rowsAtOnce - 1}`,
    [fromRid, untilRid],
  );
  return rows[0]?.rid;
}
