import { query } from "#shared/testing/postgres.ts";
import { readVideoTruthFile } from "#fake-provider/videos-jobs.ts";
import type { ScriptedLedger } from "./scripted-ledger.ts";

/** What must be in the table of tasks. */
export type ExpectedTasks = { running: number; completed: number; failed: number };

// A task is charged once, and refunded when and only when it has failed; what is not booked is missing from the ledger.
const countTasks = `SELECT count(*) FILTER (WHERE state IN ('queued', 'in_progress'))::int AS running,
    count(*) FILTER (WHERE state = 'completed')::int AS completed,
    count(*) FILTER (WHERE state = 'failed')::int AS failed,
    count(*) FILTER (WHERE state IN ('submitting', 'refused', 'unknown'))::int AS "not taken",
    count(*) FILTER (WHERE charge.booked_at IS NULL)::int AS "charges not booked",
    count(*) FILTER (WHERE (refund.rid IS NOT NULL) <> (state = 'failed'))::int AS "refunds not as the states are",
    count(*) FILTER (WHERE refund.rid IS NOT NULL AND refund.booked_at IS NULL)::int AS "refunds not booked",
    count(*) FILTER (WHERE unanswered + missing > 0)::int AS "tasks that the provider did not answer for"
  FROM video_task.task AS task
  LEFT JOIN video_task.money_event AS charge ON charge.rid = task.rid AND charge.kind = 1
  LEFT JOIN video_task.money_event AS refund ON refund.rid = task.rid AND refund.kind = 2`;

/** What is wrong with the tasks of a database, in words; empty when each is charged and refunded as it must be. */
export async function auditTasks(ownerUrl: string, expected: ExpectedTasks): Promise<string[]> {
  const { rows } = await query(ownerUrl, countTasks);
  const found = rows[0] as Record<string, number>;
  const wanted: Record<string, number> = { ...expected };
  const wrong = Object.entries(found).filter(([name, count]) => count !== (wanted[name] ?? 0));
  return wrong.map(([name, count]) => `${name}: ${count} instead of ${wanted[name] ?? 0}`);
}

/** The same for tasks that all run on. */
export const auditRunning = (ownerUrl: string, running: number): Promise<string[]> =>
  auditTasks(ownerUrl, { running, completed: 0, failed: 0 });

/** Rids that were accepted in all rounds, and those of them that have failed. */
export type AcceptedTasks = { accepted: string[]; failed: string[] };

/** What is wrong between what the ledger was told and the tasks: each charged, and the failed ones refunded. */
export function auditLedger(ledger: ScriptedLedger, { accepted, failed }: AcceptedTasks): string[] {
  const { charged, refunded, wrong } = ledger;
  return [
    ...wrong,
    ...compare("charges", [...charged.keys()], { of: "tasks", rids: accepted }),
    ...compare("refunds", [...refunded.values()], { of: "failed tasks", rids: failed }),
  ];
}

function compare(what: string, found: string[], { of, rids }: { of: string; rids: string[] }): string[] {
  if (found.length !== rids.length) return [`${found.length} ${what} for ${rids.length} ${of}`];
  const known = new Set(rids);
  return found.every((rid) => known.has(rid)) ? [] : [`the ledger has other ${what} than those of the ${of}`];
}

/** What is wrong between the provider's own truth and the number of tasks that were accepted: each is taken once. */
export function auditProvider(truthFile: string, accepted: number): string[] {
  const taken = readVideoTruthFile(truthFile);
  const twice = taken.filter(({ attempt }) => attempt > 1).length;
  return [
    ...(twice === 0 ? [] : [`${twice} tasks were submitted twice`]),
    ...(taken.length === accepted ? [] : [`the provider took ${taken.length} tasks, and ${accepted} were accepted`]),
  ];
}
