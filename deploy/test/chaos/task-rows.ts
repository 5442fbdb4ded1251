import { query } from "#shared/testing/postgres.ts";
import type { MoneyEventRow, TaskRow } from "../e2e/task-evidence.ts";
import type { Customer } from "../e2e/world.ts";

type Rows = { rows: TaskRow[]; events: MoneyEventRow[] };

/** What video-task has written down of these accounts' tasks, read from its tables. */
export async function readTaskRows(postgresUrl: string, customers: readonly Customer[]): Promise<Rows> {
  // Ids of accounts are letters, digits and dashes: nothing to escape.
  const own = `account_id in (${customers.map(({ accountId }) => `'${accountId}'`).join(", ")})`;
  const tasks = await query(
    postgresUrl,
    `select rid, account_id as "accountId", state, idempotency_key as "idempotencyKey", model, prompt, seconds, size,
       upstream_id as "upstreamId", error_code as "errorCode", deadline_seconds * 1000 as "deadlineMs",
       ${milliseconds("created_at")} as "createdAtMs", ${milliseconds("accepted_at")} as "acceptedAtMs",
       ${milliseconds("ended_at")} as "endedAtMs", deleted_at is not null as "isDeleted"
     from video_task.task where ${own}`,
  );
  const events = await query(
    postgresUrl,
    `select rid, case kind when 1 then 'charge' else 'refund' end as kind, booked_at is not null as "isBooked"
     from video_task.money_event where ${own}`,
  );
  return { rows: tasks.rows as TaskRow[], events: events.rows as MoneyEventRow[] };
}

const milliseconds = (column: string): string => `(extract(epoch from ${column}) * 1000)::float8`;

/** How many tasks are on their way, and how much money: 0 and 0 at rest. */
export async function readUnfinished(postgresUrl: string): Promise<{ tasks: number; money: number }> {
  const found = await query(
    postgresUrl,
    `select (select count(*) from video_task.task where state in ('submitting', 'queued', 'in_progress'))::int as tasks,
       (select count(*) from video_task.money_event where booked_at is null)::int as money`,
  );
  return found.rows[0] as { tasks: number; money: number };
}
