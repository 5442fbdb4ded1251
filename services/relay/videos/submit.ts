import type { VideoRelay } from "./videos.ts";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Writable } from "node:stream";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Task } from "#proto/video/v1/video_pb.ts";
import { createStop, type Stop } from "#shared/process/stop.ts";
import { admitAtPrice, type Caller } from "../charge/admit.ts";
import { askForVideo, closeByOutcome } from "./request.ts";
import type { CallTimes } from "../call-times.ts";
import { concludeLater, concludeOnce, type Conclusion } from "./conclude.ts";
import { CallFailure } from "../failures.ts";
import { beginLiveCall, type CallTrace, type LiveCall } from "../live-call.ts";
import { countLosses } from "../conversion/prepare.ts";
import { parseFor, takeBody } from "../http/take-body.ts";
import { priceVideo, submitRequest, type PricedVideo } from "./charge.ts";
import { videosPath } from "../http/paths.ts";
import { wantVideo } from "./validate.ts";

/** A submission on its way; `call` is set once money is held for it. */
export type Submission = {
  rid: string;
  startedAtMs: number;
  times: CallTimes;
  trace: CallTrace | undefined;
  call: LiveCall | undefined;
  caller?: Caller;
};

type IncomingSubmission = {
  request: IncomingMessage;
  response: ServerResponse;
  caller: Caller;
  submission: Submission;
};

/** A task that was submitted, now or before, and the fields of the request that no provider was told of. */
export type SubmittedVideo = { task: Task; dropped: readonly string[] };

/**
 * The path of a submission: read → check → hold its full price → submit → charge. Gives undefined when the caller went
 * away while sending; one who goes away later changes nothing. Throws a CallFailure, for which nothing is
 * charged but where it says that this is not known.
 */
export async function submitVideo(
  submitting: IncomingSubmission,
  relay: VideoRelay,
): Promise<SubmittedVideo | undefined> {
  const { request, caller, submission } = submitting;
  using kept = new DisposableStack();
  const body = await takeBody(submitting, relay);
  if (!body) return undefined;
  const asked = await parseFor(caller, relay, (checkKey) => {
    // Not before: strangers who send slowly would keep everybody else out.
    takePlace(relay, kept);
    // A picture stays in memory until it is submitted, also when its caller has gone and the body's share with him.
    const memory = kept.adopt(new Writable(), (writable) => writable.destroy());
    return wantVideo({ request, body, checkKey, share: relay.bodyBudget.share(memory, caller) }, relay);
  });
  const { dropped } = asked;
  countLosses(asked, relay.metrics);
  if ("earlier" in asked) return { task: asked.earlier, dropped };
  const priced = priceVideo(asked);
  submission.call = await hold(priced, caller, submission, relay);
  return { task: await submitHeld(priced, submission.call, relay), dropped };
}

/** Takes one of the places for submissions until `kept` is disposed. Throws `service_unavailable`. */
function takePlace({ videos }: VideoRelay, kept: DisposableStack): void {
  if (videos.submissions >= videos.bounds.maxSubmissions)
    throw new CallFailure({ name: "service_unavailable", cause: "too many submissions are under way" });
  videos.submissions += 1;
  kept.defer(() => void (videos.submissions -= 1));
}

async function hold(
  { wanted, model, usage, costNanos: estimateNanos, priceFields }: PricedVideo,
  caller: Caller,
  { rid, startedAtMs, times, trace }: Submission,
  { settling: { quota } }: VideoRelay,
): Promise<LiveCall> {
  times.reservingAt = performance.now();
  const held = await admitAtPrice(quota, caller, {
    rid,
    model: model.id,
    estimateNanos,
    traceparent: trace?.traceparent ?? "",
  });
  times.reservedAt = performance.now();
  return beginLiveCall({
    ...held,
    rid,
    endpoint: videosPath,
    offered: wanted.model,
    model,
    isStream: false,
    requested: { inputTokens: 0, units: usage, priceFields },
    startedAtMs,
    times,
    trace,
  });
}

/** Submits what money is held for. Whatever happens here, the books of the call are closed, now or later. */
async function submitHeld(priced: PricedVideo, call: LiveCall, relay: VideoRelay): Promise<Task> {
  const stop = createStop();
  call.cut = () => stop.stop();
  relay.live.add(call);
  try {
    return await submitUntil(stop, priced, call, relay);
  } finally {
    if (call.endCause === EndCause.UNSPECIFIED) concludeBehind(call, stop, priced, relay);
    else relay.live.delete(call);
  }
}

const unknown = (cause: unknown): CallFailure => new CallFailure({ name: "submission_unknown", cause });

async function submitUntil(stop: Stop, priced: PricedVideo, call: LiveCall, relay: VideoRelay): Promise<Task> {
  const { settling, videos } = relay;
  const { tasks } = priced.wanted;
  const request = submitRequest(priced, call);
  call.times.sentAt = performance.now();
  const { outcome, cause } = await askForVideo({ tasks, request, stop, againMs: videos.bounds.submitAgainMs });
  call.times.answeredAt = performance.now();
  if (outcome) return closeByOutcome(outcome, call, settling);
  if (stop.isStopped()) {
    // Nobody is left to conclude it: the service charges what was taken, and auth-quota frees the hold of a dead relay.
    call.endCause = EndCause.DRAINED;
    throw unknown("the relay is stopping");
  }
  let conclusion: Conclusion;
  try {
    conclusion = await concludeOnce(call, { tasks, settling });
    if (conclusion === "charged") return await taskOf(call, priced);
  } catch (error) {
    throw unknown(cause ?? error);
  }
  if (conclusion === "unknown") throw unknown(cause);
  // Certainly submitted to nobody, and never will be.
  throw new CallFailure({ name: "service_unavailable", cause });
}

async function taskOf({ rid, accountId }: LiveCall, { wanted }: PricedVideo): Promise<Task> {
  const { task } = await wanted.tasks.getTask({ accountId, taskId: `video_${rid.replaceAll("-", "")}` });
  if (!task) throw new Error("an answer without a task");
  return task;
}

/** Goes on asking when the caller has been told that nobody knows; the hold is kept alive until then. */
function concludeBehind(call: LiveCall, stop: Stop, { wanted }: PricedVideo, relay: VideoRelay): void {
  const { videos, settling, live } = relay;
  videos.submissions += 1;
  const { tasks } = wanted;
  const concluding = concludeLater(call, { tasks, settling, bounds: videos.bounds, stop }).finally(() => {
    videos.submissions -= 1;
    videos.concluding.delete(concluding);
    live.delete(call);
  });
  videos.concluding.add(concluding);
}
