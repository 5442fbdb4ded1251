import { typesByStatus } from "../../../services/relay/testing/spec-errors.ts";
import assert from "node:assert/strict";
import { type LedgerLine, LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { type VideoBehaviour, videoPrompt } from "#fake-provider/videos-behaviour.ts";
import type { VideoJob } from "#fake-provider/videos-jobs.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { ask, chat, errorOf, type Json, type Reply, ridOf } from "./ask.ts";
import { answerProblems } from "./openapi.ts";
import type { Refusal } from "./refusal.ts";
import { type PricedVideo, videoCost } from "./video-catalog.ts";
import type { Customer, World } from "./world.ts";

/** A video task as its account sees it. */
export type VideoObject = {
  id: string;
  object: "video";
  model: string;
  status: "queued" | "in_progress" | "completed" | "failed";
  progress: number;
  created_at: number;
  completed_at: number | null;
  expires_at: number | null;
  error: { code: string; message: string } | null;
  prompt: string;
  seconds: string;
  size: string;
  remixed_from_video_id: null;
};

export type VideoCall = {
  /** Left out: `sora-model`. */
  model?: string;
  /** What the provider shall do. */
  behaviour?: VideoBehaviour;
  /** More fields of the body. */
  more?: Json;
  headers?: Record<string, string>;
};

export type Caller = { relayUrl: string; secret: string };

const path = "/v1/videos";
// Longer than the 30 s for which a charge or refund waits whose video-task was killed while it tried.
const bookedTimeoutMs = 60_000;

/** Submits a video; its prompt tells the fake provider how to behave. */
export function submitVideo({ relayUrl, secret }: Caller, call: VideoCall = {}): Promise<Reply> {
  const { model = "sora-model", behaviour = {}, more = {}, headers = {} } = call;
  const body = JSON.stringify({ model, prompt: videoPrompt(behaviour), ...more });
  return ask(`${relayUrl}${path}`, { headers: { ...chat.headers(secret), ...headers }, body });
}

/** Asks for a task, or for a page of them when `place` is a query. */
export function getVideo({ relayUrl, secret }: Caller, place: string): Promise<Reply> {
  const url = `${relayUrl}${path}${place.startsWith("?") ? "" : "/"}${place}`;
  return ask(url, { method: "GET", headers: { authorization: `Bearer ${secret}` } });
}

export function deleteVideo({ relayUrl, secret }: Caller, id: string): Promise<Reply> {
  return ask(`${relayUrl}${path}/${id}`, { method: "DELETE", headers: { authorization: `Bearer ${secret}` } });
}

export const videoOf = (reply: Reply): VideoObject => {
  assert.equal(reply.status, 200, reply.text);
  return reply.json() as VideoObject;
};

export type File = { status: number; headers: Headers; bytes: Buffer };

/** Asks for a file of a task; for a refusal, `getVideo` reads the answer. */
export async function getFile(
  { relayUrl, secret }: Caller,
  id: string,
  headers: Record<string, string> = {},
  variant?: string,
): Promise<File> {
  const url = `${relayUrl}${path}/${id}/content${variant === undefined ? "" : `?variant=${variant}`}`;
  const response = await fetch(url, { headers: { authorization: `Bearer ${secret}`, ...headers } });
  const bytes = Buffer.from(await response.arrayBuffer());
  ridOf(response);
  const { status, headers: answered } = response;
  const answer = { method: "GET", path: new URL(url).pathname, status, headers: answered, text: "" };
  assert.deepEqual(answerProblems(answer), [], `${status} ${bytes.toString("latin1", 0, 200)}`);
  return { status, headers: answered, bytes };
}

/** Waits until a task has ended and gives it. */
export async function untilEnded(caller: Caller, id: string): Promise<VideoObject> {
  const ended = await until(`${id} has ended`, async () => {
    const video = videoOf(await getVideo(caller, id));
    return (video.status === "completed" || video.status === "failed") && video;
  });
  return ended as VideoObject;
}

/** A customer with what it takes to call as it. */
export type VideoCustomer = Customer & Caller;

export async function createVideoCustomer(
  world: World,
  options?: Parameters<World["createCustomer"]>[0],
): Promise<VideoCustomer> {
  return { ...(await world.createCustomer(options)), relayUrl: world.relayUrl };
}

export type CompletedVideo = { rid: string; submitted: VideoObject; ended: VideoObject; job: VideoJob };

/** Submits a video, which must be accepted, and waits until it has ended. */
export async function makeVideo(world: World, customer: VideoCustomer, call: VideoCall = {}): Promise<CompletedVideo> {
  const reply = await submitVideo(customer, call);
  const submitted = videoOf(reply);
  const ended = await untilEnded(customer, submitted.id);
  return { rid: reply.rid, submitted, ended, job: onlyJob(world, reply.rid) };
}

/** The one task that the provider took for a submission; fails when there is none, or more than one. */
export function onlyJob({ videos }: World, rid: string): VideoJob {
  const [job, ...more] = videos.jobs.filter((one) => one.rid === rid);
  assert.ok(job && more.length === 0, `the provider took ${more.length + (job ? 1 : 0)} tasks for ${rid}`);
  return job;
}

/** What a task must have cost: the video that was charged, and what was given back of it. */
export type VideoMoney = { rid: string; charged: PricedVideo; refundedNanos?: bigint };

/**
 * Waits until nothing of a customer's money is on its way and checks that its ledger has for a task one charge, one
 * refund if there must be any, and nothing else; then that the balance is what the lines add up to.
 */
export async function checkVideoMoney(world: World, { accountId }: Customer, money: VideoMoney): Promise<void> {
  const { rid, charged, refundedNanos = 0n } = money;
  const wanted = [
    { kind: LineKind.CHARGE, amountNanos: -videoCost(charged) },
    ...(refundedNanos > 0n ? [{ kind: LineKind.REFUND, amountNanos: refundedNanos }] : []),
  ];
  await untilMoneyRests(world, accountId);
  const lines = await world.ledgerOf(accountId);
  const own = lines.filter((line) => line.rid === rid);
  assert.deepEqual(
    own.map(({ kind, amountNanos }) => ({ kind, amountNanos })),
    wanted,
  );
  checkRecord(own[0], charged);
  await checkBalance(world, accountId, lines);
}

function checkRecord(line: LedgerLine | undefined, { model, seconds }: PricedVideo): void {
  const { endpoint, modelRequested, usage, usageSource, endCause } = line?.usage ?? {};
  assert.deepEqual([endpoint, modelRequested, usage?.mediaMs], ["/v1/videos", model, BigInt(seconds) * 1_000n]);
  assert.deepEqual([usageSource, endCause], [UsageSource.REQUEST, EndCause.COMPLETE]);
}

async function checkBalance(world: World, accountId: string, lines: LedgerLine[]): Promise<void> {
  const { balanceNanos, availableNanos } = await world.moneyOf(accountId);
  const { creditedNanos } = await world.billing.getBalance({ accountId });
  const moved = lines.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
  assert.deepEqual([balanceNanos, availableNanos], [creditedNanos + moved, creditedNanos + moved]);
}

/** Waits until every charge and refund of an account's tasks is booked, nothing is held and nothing is unconfirmed. */
async function untilMoneyRests(world: World, accountId: string): Promise<void> {
  const open = `select count(*)::int as open from video_task.money_event
    where account_id = '${accountId}' and booked_at is null`;
  const poll = async (): Promise<boolean> => {
    const { rows } = await query(world.stack.stores.urls.postgres, open);
    assert.equal(rows[0].open, 0, "money events that are not booked");
    const { openHolds, unpostedCalls } = await world.holdsOf(accountId);
    assert.deepEqual([openHolds, unpostedCalls], [0n, 0n], "open holds, unconfirmed charges");
    return true;
  };
  await until(`the money of ${accountId} is at rest`, poll, bookedTimeoutMs);
}

/** Checks that submitting came to nothing: no line in the ledger, and all that was held is available again. */
export async function checkFree(world: World, { accountId }: Customer): Promise<void> {
  await untilMoneyRests(world, accountId);
  assert.deepEqual(await world.ledgerOf(accountId), []);
  await checkBalance(world, accountId, []);
}

/** Checks an answer against a row of the spec, with the type that errors of videos have. */
export function checkVideoRefusal(reply: Reply, wanted: Refusal): void {
  assert.equal(reply.status, wanted.status, reply.text);
  const { message, type, code } = errorOf(chat, reply);
  assert.deepEqual([message, code, type], [wanted.message, wanted.code, typesByStatus[wanted.status] ?? "api_error"]);
  assert.equal(reply.headers.get("retry-after"), wanted.retryAfter ?? null);
  assert.equal(reply.headers.get("x-should-retry"), wanted.shouldRetry ?? null);
}

/** What the spec says of videos, and of a request that cannot be completed because nobody knows what became of it. */
export const videoRows = {
  unknown: {
    status: 400,
    message:
      "The request could not be completed: it is not known whether the model service took the video, " +
      "look for it in the list before you submit another",
    code: "",
    shouldRetry: "false",
  },
  rejected: {
    status: 400,
    message: "The model service rejected the request, check the parameters and try again",
    code: "upstream_error",
  },
  notFound: { status: 400, message: "Task not found", code: "task_not_found" },
  fileNotFound: { status: 404, message: "Task not found", code: "task_not_found" },
  notReady: { status: 400, message: "The video is not ready yet", code: "task_not_ready" },
  failed: { status: 400, message: "The video generation failed", code: "task_failed" },
  gone: { status: 410, message: "Artifact content is no longer available", code: "artifact_gone" },
} satisfies Record<string, Refusal>;
