import type { Pool } from "#shared/stores/postgres.ts";

const tasksAtOnce = 1_000;

/** Creates the pass that forgets submissions that were made more than 400 days ago and whose money is booked. */
export function createForgetPass(pool: Pool): () => Promise<void> {
  return async () => {
    for (;;) {
      const statement = "SELECT video_task.forget_tasks($1) AS forgotten";
      const { rows } = await pool.query<{ forgotten: bigint }>(statement, [tasksAtOnce]);
      if ((rows[0]?.forgotten ?? 0n) < tasksAtOnce) return;
    }
  };
}
