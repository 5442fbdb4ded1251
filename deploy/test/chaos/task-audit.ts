import assert from "node:assert/strict";
import { Finding } from "#proto/billing/v1/billing_pb.ts";
import { until } from "#shared/testing/until.ts";
import { readVideoBehaviour } from "#fake-provider/videos-behaviour.ts";
import type { VideoJob } from "#fake-provider/videos-jobs.ts";
import { readMetric, toChecked } from "../e2e/kills.ts";
import { checkTasks, type TaskFindings } from "../e2e/task-checker.ts";
import type { HarmTime, Listing, ProviderJob, ProviderSend, Submission } from "../e2e/task-evidence.ts";
import { listTasks, type TaskLog } from "../e2e/task-requests.ts";
import type { Customer, World } from "../e2e/world.ts";
import { isAnswerLost } from "./task-mix.ts";
import { taskPriceNanos } from "./task-models.ts";
import { readTaskRows, readUnfinished } from "./task-rows.ts";

export type TaskCustomer = Customer & { creditNanos: bigint };

/** What was seen in a round of tasks. */
export type TaskOutcomes = {
  log: TaskLog;
  sends: readonly ProviderSend[];
  harms: readonly HarmTime[];
  overspendBoundNanos: bigint;
  quietTimeoutMs: number;
};

/**
 * Waits until no task runs and no money is on its way, or for the timeout, and holds what callers saw, what the
 * provider did, the ledger and video-task's rows against each other. What never came to rest is a problem, too.
 */
export async function auditTasks(
  world: World,
  customers: readonly TaskCustomer[],
  { quietTimeoutMs, log, ...outcomes }: TaskOutcomes,
): Promise<TaskFindings & { restSeconds: number }> {
  const startedAtMs = performance.now();
  const restless = await untilTasksRest(world, customers, quietTimeoutMs).then(
    () => [],
    (error: unknown) => [String(error)],
  );
  const restSeconds = Math.round((performance.now() - startedAtMs) / 1_000);
  const listings = await listAll(world.relayUrl, customers, log);
  const accounts = [];
  const lines = [];
  for (const { accountId, creditNanos: creditedNanos } of customers) {
    accounts.push({ accountId, creditedNanos, ...(await world.moneyOf(accountId)) });
    lines.push(...(await world.ledgerOf(accountId)).map(toChecked));
  }
  const jobs = world.videos.jobs.map(toProviderJob);
  const { rows, events } = await readTaskRows(world.stack.stores.urls.postgres, customers);
  const findings = checkTasks({
    ...log,
    ...outcomes,
    rows: rows.map((row) => ({ ...row, prompt: asSubmitted(row.prompt) })),
    events,
    listings,
    jobs,
    lines,
    accounts,
    priceNanos: taskPriceNanos,
  });
  findings.report.problems.unshift(...restless, ...log.problems, ...(await wrongBooks(world)));
  return { ...findings, restSeconds };
}

/** What billing itself finds wrong with its books, in words. */
async function wrongBooks({ billing }: World): Promise<string[]> {
  const { records } = await billing.listQuarantine({});
  const { report } = await billing.reconcile({});
  const wrong = report?.lines.filter(({ finding }) => finding === Finding.WRONG) ?? [];
  return [
    ...records.map(({ reason }) => `in quarantine: ${reason}`),
    ...wrong.map(({ check, summary, items }) => `${check}: ${summary}: ${items.slice(0, 5).join(", ")}`),
  ];
}

async function untilTasksRest(world: World, customers: readonly Customer[], timeoutMs: number): Promise<void> {
  const { stores, services } = world.stack;
  const poll = async (): Promise<boolean> => {
    assert.deepEqual(await readUnfinished(stores.urls.postgres), { tasks: 0, money: 0 }, "unfinished");
    const { openHolds, unpostedCalls } = await world.authQuota.getHolds({});
    assert.deepEqual([openHolds, unpostedCalls], [0n, 0n], "open holds, unconfirmed charges");
    assert.equal(await readMetric(services.relay.opsUrl, "relay_spool_records"), 0, "in the spool");
    for (const { accountId } of customers) {
      const { balanceNanos, availableNanos } = await world.moneyOf(accountId);
      assert.equal(availableNanos, balanceNanos, "available");
    }
    return true;
  };
  await until("no task runs, no money is on its way, no hold is open", poll, timeoutMs);
}

async function listAll(url: string, customers: readonly Customer[], log: TaskLog): Promise<Listing[]> {
  const listings: Listing[] = [];
  for (const customer of customers) {
    const taskIds = await listTasks(url, { customer, pages: Number.POSITIVE_INFINITY }, log);
    if (taskIds) listings.push({ accountId: customer.accountId, taskIds });
    else log.problems.push(`${customer.accountId}: its tasks cannot be listed, though nothing is away`);
  }
  return listings;
}

/** Forms carry line ends as CR LF (https://html.spec.whatwg.org/#multipart-form-data). */
const asSubmitted = (prompt: string): string => prompt.replaceAll("\r\n", "\n");

const fileBytes = 65_536;

function toProviderJob({ id, rid, model, prompt, api, seconds, acceptedAt, end }: VideoJob): ProviderJob {
  const behaviour = readVideoBehaviour(prompt);
  return {
    id,
    rid,
    prompt: asSubmitted(prompt),
    acceptedAtMs: acceptedAt,
    end,
    // Gemini does not tell it.
    deliveredSeconds: (api === "openai" ? behaviour.deliveredSeconds : undefined) ?? seconds,
    fileBytes: behaviour.bytes ?? fileBytes,
    isAnswerLost: isAnswerLost(behaviour, model),
    isForgotten: behaviour.lost === true,
  };
}

/**
 * Refusals that infrastructure must not cause, in words: of a sound submission of an account with money only 503 with
 * Retry-After, and what says that the outcome is unknown (API spec, error table).
 */
export function wrongTaskRefusals(submissions: readonly Submission[], richIds: ReadonlySet<string>): string[] {
  return submissions.flatMap(({ accountId, prompt, isSound, status, retryAfter, reason, taskId, ...rest }) => {
    if (!isSound || taskId !== undefined || rest.isOutcomeUnknown || status === undefined) return [];
    if (status === 503 && Number(retryAfter) > 0) return [];
    if (status === 403 && !richIds.has(accountId)) return [];
    return [`${prompt}: ${status} with Retry-After ${retryAfter}: ${reason.slice(0, 200)}`];
  });
}
