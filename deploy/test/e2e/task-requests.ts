import { answerProblems } from "./openapi.ts";
import { silenceReason } from "./caller.ts";
import type { Download, Sighting, Submission } from "./task-evidence.ts";
import type { Customer } from "./world.ts";

/** A video as a caller asks for it. */
export type TaskPlan = {
  customer: Customer;
  prompt: string;
  model: string;
  seconds: number;
  size: string;
  /** Official clients send forms; others JSON. */
  isForm: boolean;
  hasPicture: boolean;
  idempotencyKey: string | undefined;
  /** See Submission. */
  isSound: boolean;
};

/** What came back for a request; the status is undefined when not even a head arrived. */
type TaskReply = { status: number | undefined; headers: Headers; body: Buffer | undefined; reason: string };

type TaskRequest = { method: string; url: string; headers: Record<string, string>; body?: Buffer };

/** A video object, as far as the tests read it. */
type Video = { id: string; status: string; progress: number; error: { code: string } | null };

/** What a caller notes of what it was told. */
export type TaskLog = {
  submissions: Submission[];
  sightings: Sighting[];
  downloads: Download[];
  /** Answers that are not as the public API's document describes them, and requests left without a word. */
  problems: string[];
};

export const emptyTaskLog = (): TaskLog => ({ submissions: [], sightings: [], downloads: [], problems: [] });

const silentMs = 30_000;
const pageLength = 20;
// The smallest picture that is one: https://www.w3.org/TR/png/, signature and an empty head.
const picture = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

/** Submits a task and notes the answer. */
export async function submitTask(url: string, plan: TaskPlan, log: TaskLog): Promise<Submission> {
  const { customer, prompt, idempotencyKey, isSound } = plan;
  const { contentType, body } = await write(plan);
  const key: Record<string, string> = idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey };
  const headers = { authorization: `Bearer ${customer.secret}`, "content-type": contentType, ...key };
  const got = await ask({ method: "POST", url: `${url}/v1/videos`, headers, body }, log);
  const isAccepted = got.status === 200 && got.body !== undefined;
  const submission: Submission = {
    accountId: customer.accountId,
    prompt,
    isSound,
    idempotencyKey,
    rid: got.headers.get("x-request-id") ?? undefined,
    status: got.status,
    retryAfter: got.headers.get("retry-after") ?? undefined,
    isOutcomeUnknown: got.status === undefined || got.headers.get("x-should-retry") === "false",
    taskId: isAccepted ? (JSON.parse(String(got.body)) as Video).id : undefined,
    reason: isAccepted ? "" : got.reason || String(got.body),
  };
  log.submissions.push(submission);
  return submission;
}

async function write({ prompt, model, seconds, size, isForm, hasPicture }: TaskPlan) {
  const fields = { prompt, model, seconds: String(seconds), size };
  if (!isForm) {
    const reference = hasPicture && {
      input_reference: { image_url: `data:image/png;base64,${picture.toString("base64")}` },
    };
    return { contentType: "application/json", body: Buffer.from(JSON.stringify({ ...fields, ...reference })) };
  }
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  if (hasPicture) form.set("input_reference", new Blob([picture], { type: "image/png" }), "first.png");
  const encoded = new Response(form);
  const contentType = String(encoded.headers.get("content-type"));
  return { contentType, body: Buffer.from(await encoded.arrayBuffer()) };
}

/** Polls a task; undefined when it was not shown. */
export async function pollTask(
  url: string,
  { customer, taskId }: { customer: Customer; taskId: string },
  log: TaskLog,
): Promise<Sighting | undefined> {
  const askedAtMs = performance.now();
  const got = await ask(asked("GET", `${url}/v1/videos/${taskId}`, customer), log);
  if (got.status !== 200 || !got.body) return undefined;
  return note(log, JSON.parse(String(got.body)) as Video, { customer, askedAtMs });
}

function note(
  log: TaskLog,
  { id: taskId, status, progress, error }: Video,
  { customer, askedAtMs }: { customer: Customer; askedAtMs: number },
): Sighting {
  const what = { accountId: customer.accountId, taskId, status, progress, errorCode: error?.code };
  const sighting = { ...what, askedAtMs, answeredAtMs: performance.now() };
  log.sightings.push(sighting);
  return sighting;
}

/** Asks for the file of a task and notes what came; `status` is 0 when nothing did. */
export async function downloadTask(
  url: string,
  { customer, taskId }: { customer: Customer; taskId: string },
  log: TaskLog,
): Promise<Download> {
  const got = await ask(asked("GET", `${url}/v1/videos/${taskId}/content`, customer), log);
  const download = { accountId: customer.accountId, taskId, status: got.status ?? 0, bytes: got.body?.length };
  log.downloads.push(download);
  return download;
}

/** Deletes a task; gives the status of the answer. */
export async function deleteTask(
  url: string,
  { customer, taskId }: { customer: Customer; taskId: string },
  log: TaskLog,
): Promise<number | undefined> {
  return (await ask(asked("DELETE", `${url}/v1/videos/${taskId}`, customer), log)).status;
}

/** Lists the tasks of an account, at most `pages` pages of 20; undefined when a page did not come. */
export async function listTasks(
  url: string,
  { customer, pages }: { customer: Customer; pages: number },
  log: TaskLog,
): Promise<string[] | undefined> {
  const taskIds: string[] = [];
  for (let page = 0; page < pages; page += 1) {
    const askedAtMs = performance.now();
    const after = taskIds.length > 0 ? `&after=${taskIds.at(-1)}` : "";
    const got = await ask(asked("GET", `${url}/v1/videos?limit=${pageLength}${after}`, customer), log);
    if (got.status !== 200 || !got.body) return undefined;
    const { data, has_more: hasMore } = JSON.parse(String(got.body)) as { data: Video[]; has_more: boolean };
    for (const video of data) taskIds.push(note(log, video, { customer, askedAtMs }).taskId);
    if (!hasMore) break;
  }
  return taskIds;
}

function asked(method: string, url: string, { secret }: Customer): TaskRequest {
  return { method, url, headers: { authorization: `Bearer ${secret}` } };
}

// Resolves whatever happens: what breaks is part of what a caller sees.
async function ask({ method, url, headers, body }: TaskRequest, log: TaskLog): Promise<TaskReply> {
  const signal = AbortSignal.timeout(silentMs);
  try {
    const response = await fetch(url, { method, headers, body: body ?? null, signal });
    const got = { status: response.status, headers: response.headers };
    const broken = (error: unknown): string => String(error);
    const read = await response.arrayBuffer().then((bytes) => Buffer.from(bytes), broken);
    if (typeof read === "string") return { ...got, body: undefined, reason: read };
    const { pathname: path } = new URL(url);
    const isFile = path.endsWith("/content") && response.status === 200;
    const text = read.toString(isFile ? "latin1" : "utf8");
    for (const problem of answerProblems({ method, path, ...got, text })) {
      log.problems.push(`${method} ${path}: ${response.status}: ${problem}: ${text.slice(0, 300)}`);
    }
    return { ...got, body: read, reason: "" };
  } catch (error) {
    if (signal.aborted) log.problems.push(`${method} ${url}: ${silenceReason}`);
    return { status: undefined, headers: new Headers(), body: undefined, reason: String(error) };
  }
}
