import type { Download, ProviderJob, Sighting, Submission, TaskEvidence, TaskRow } from "./task-evidence.ts";

const ranks: Record<string, number> = { queued: 0, in_progress: 1, completed: 2, failed: 2 };
const endRank = 2;
const isTaken = ({ state }: TaskRow): boolean => ranks[state] !== undefined;

/** What callers were told that is not so, in words. */
export function judgeCallers(evidence: TaskEvidence): string[] {
  const rows = new Map(evidence.rows.map((row) => [row.rid, row]));
  return [
    ...evidence.submissions.flatMap((submission) => judgeAnswer(submission, rows)),
    ...judgeKeys(evidence),
    ...judgeSightings(evidence.sightings, rows),
    ...evidence.downloads.flatMap((download) => judgeDownload(download, rows, evidence.jobs)),
    ...judgeListings(evidence),
  ];
}

/** What must be kept of a prompt: nothing of one whose video its caller has deleted. */
export const keptPrompt = ({ isDeleted }: TaskRow, prompt: string): string => (isDeleted ? "" : prompt);

/** The task of an id as callers know it: "video_" and the rid without dashes. */
function rowOf(taskId: string, rows: ReadonlyMap<string, TaskRow>): TaskRow | undefined {
  const rid = taskId.replace(/^video_(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  return rows.get(rid);
}

function judgeAnswer(submission: Submission, rows: ReadonlyMap<string, TaskRow>): string[] {
  const { accountId, prompt, rid, status, taskId, isOutcomeUnknown, reason } = submission;
  if (taskId === undefined) {
    const row = rid === undefined || isOutcomeUnknown ? undefined : rows.get(rid);
    return row && isTaken(row) ? [`${rid}: refused with ${status}, but taken: ${reason.slice(0, 200)}`] : [];
  }
  const row = rowOf(taskId, rows);
  if (!row || !isTaken(row))
    return [`${taskId}: accepted, but ${row ? `its task is ${row.state}` : "there is no task"}`];
  const isOwn = row.accountId === accountId && row.prompt === keptPrompt(row, prompt);
  return isOwn ? [] : [`${taskId}: the answer to another submission: ${prompt.slice(0, 100)}`];
}

// An idempotency key makes one task of however many requests.
function judgeKeys({ submissions, jobs }: TaskEvidence): string[] {
  const withKey = submissions.filter(({ idempotencyKey }) => idempotencyKey !== undefined);
  const byKey = Map.groupBy(withKey, ({ accountId, idempotencyKey }) => `${accountId} ${idempotencyKey}`);
  const jobsByPrompt = Map.groupBy(jobs, ({ prompt }) => prompt);
  return [...byKey].flatMap(([key, some]) => {
    const told = new Set(some.flatMap(({ taskId }) => taskId ?? []));
    const prompts = new Set(some.map(({ prompt }) => prompt));
    const taken = [...prompts].flatMap((prompt) => jobsByPrompt.get(prompt) ?? []);
    return [
      ...(told.size > 1 ? [`key ${key}: answered with ${told.size} tasks`] : []),
      ...(taken.length > 1 ? [`key ${key}: providers took ${taken.length} tasks`] : []),
    ];
  });
}

function judgeSightings(sightings: readonly Sighting[], rows: ReadonlyMap<string, TaskRow>): string[] {
  return [...Map.groupBy(sightings, ({ taskId }) => taskId)].flatMap(([taskId, seen]) => {
    const row = rowOf(taskId, rows);
    if (!row) return [`${taskId}: shown, but there is no task`];
    const strangers = seen.filter(({ accountId }) => accountId !== row.accountId);
    const wrongEnds = seen.filter(({ status }) => ranks[status] === endRank && status !== row.state);
    const codes = seen.filter(({ status, errorCode }) => status === "failed" && errorCode !== row.errorCode);
    return [
      ...strangers.map(({ accountId }) => `${taskId}: shown to ${accountId}, which it does not belong to`),
      ...wrongEnds.map(({ status }) => `${taskId}: shown as ${status}, but it is ${row.state}`),
      ...codes.map(({ errorCode }) => `${taskId}: shown as failed by ${errorCode}, but it is ${row.errorCode}`),
      ...stepsBack(taskId, seen),
    ];
  });
}

// Only what was asked for after an answer had arrived must not be older than that answer.
function stepsBack(taskId: string, seen: readonly Sighting[]): string[] {
  return seen.flatMap((later) => {
    const before = seen.filter(({ answeredAtMs }) => answeredAtMs < later.askedAtMs);
    const isBack = (earlier: Sighting): boolean =>
      rankOf(later) < rankOf(earlier) || (later.progress < earlier.progress && later.status !== "failed");
    const [first] = before.filter(isBack);
    if (!first) return [];
    const [from, to] = [first, later].map(({ status, progress }) => `${status} ${progress}`);
    return [`${taskId}: shown as ${from}, and later as ${to}`];
  });
}

function rankOf({ status }: Sighting): number {
  return ranks[status] ?? -1;
}

function judgeDownload(
  { taskId, status, bytes }: Download,
  rows: ReadonlyMap<string, TaskRow>,
  jobs: readonly ProviderJob[],
): string[] {
  if (status !== 200 || bytes === undefined) return [];
  const row = rowOf(taskId, rows);
  if (row?.state !== "completed") return [`${taskId}: downloaded, but it is ${row?.state ?? "no task"}`];
  const job = jobs.find(({ rid }) => rid === row.rid);
  return bytes === job?.fileBytes ? [] : [`${taskId}: ${bytes} bytes of a file of ${job?.fileBytes}`];
}

function judgeListings({ listings, rows }: TaskEvidence): string[] {
  return listings.flatMap(({ accountId, taskIds }) => {
    const own = rows.filter((row) => row.accountId === accountId && isTaken(row) && !row.isDeleted);
    const listed = new Set(taskIds);
    const wanted = new Set(own.map(({ rid }) => `video_${rid.replaceAll("-", "")}`));
    const missing = [...wanted].filter((taskId) => !listed.has(taskId));
    const strange = [...listed].filter((taskId) => !wanted.has(taskId));
    return [
      ...(listed.size === taskIds.length ? [] : [`${accountId}: a task is listed twice`]),
      ...missing.map((taskId) => `${taskId}: a task of ${accountId} that is not listed`),
      ...strange.map((taskId) => `${taskId}: listed for ${accountId}, which has no such task`),
    ];
  });
}
