import type { IncomingMessage } from "node:http";
import type { Task } from "#proto/video/v1/video_pb.ts";
import type { BodyShare } from "../http/body-budget.ts";
import type { LiveCatalog } from "../catalog/catalog.ts";
import type { Model } from "../catalog/models.ts";
import { findModel } from "../catalog/choose.ts";
import { isStrict } from "../conversion/convert.ts";
import { refuseEndpoint } from "../http/endpoints.ts";
import { CallFailure } from "../failures.ts";
import { fetchGuarded } from "../conversion/fetch-guarded.ts";
import { refuseLosses } from "../conversion/prepare.ts";
import { fitVideo, hashVideo, readIdempotencyKey, readVideo } from "./read.ts";
import type { CheckKey } from "../http/take-body.ts";
import { readReference, type Reference } from "./reference.ts";
import { answerOf, type VideoTasks } from "./tasks.ts";
import { videosPath } from "../http/paths.ts";
import type { Videos } from "./videos.ts";

/** A video that can be made as far as the relay knows, and where it is submitted. */
export type WantedVideo = {
  tasks: VideoTasks;
  model: Model;
  deadlineSeconds: number;
  prompt: string;
  seconds: number;
  size: string;
  reference: Reference | undefined;
  /** "": none. */
  idempotencyKey: string;
  requestHash: Uint8Array;
  dropped: readonly string[];
};

/** A task that was submitted before. */
export type EarlierVideo = { earlier: Task; dropped: readonly string[] };

export type VideoSubmission = { request: IncomingMessage; body: Buffer; checkKey: CheckKey; share: BodyShare };

/** What making videos needs of its process. */
export type VideoDeps = { catalog: LiveCatalog; videos: Pick<Videos, "tasks" | "fetchRules"> };

/**
 * Reads what is wanted and checks it against the catalog, before money. Gives the task instead that was submitted
 * before under the same Idempotency-Key. Throws a CallFailure.
 */
export async function wantVideo(
  { request, body, checkKey, share }: VideoSubmission,
  { catalog, videos }: VideoDeps,
): Promise<WantedVideo | EarlierVideo> {
  const asked = readVideo(body, request.headers["content-type"]);
  const idempotencyKey = readIdempotencyKey(request.headers);
  const { tasks } = videos;
  const model = findModel(catalog.current(), asked.model);
  const { video: limits } = model;
  if (!tasks || !limits) {
    return refuseEndpoint({ model, path: videosPath, offersVideos: tasks !== undefined, checkKey });
  }
  const { seconds, size } = fitVideo(asked, limits);
  if (isStrict(request.headers)) refuseLosses(asked);
  const fetchUrl: typeof fetchGuarded = (url, fetchLimits) => fetchGuarded(url, fetchLimits, videos.fetchRules);
  const reference = asked.reference && (await readReference(asked.reference, { share, checkKey, fetchUrl }));
  const { prompt, dropped } = asked;
  const requestHash = hashVideo({ model: model.id, prompt, seconds, size }, reference?.content);
  if (idempotencyKey !== "") {
    const { accountId } = await checkKey();
    const earlier = await findEarlier(tasks, { accountId, idempotencyKey, requestHash });
    if (earlier) return { earlier, dropped };
  }
  // Also before money: a service that is away has taken nothing, and everybody may be told so.
  await answerOf(tasks.ready());
  const { deadlineSeconds } = limits;
  return { tasks, model, deadlineSeconds, prompt, seconds, size, reference, idempotencyKey, requestHash, dropped };
}

/** The task that was submitted before under an Idempotency-Key; undefined when the key is new. */
async function findEarlier(
  tasks: VideoTasks,
  asked: { accountId: string; idempotencyKey: string; requestHash: Uint8Array },
): Promise<Task | undefined> {
  const { found } = await answerOf(tasks.findSubmission(asked));
  switch (found.case) {
    case "task":
      return found.value;
    case "keyReused":
      throw new CallFailure({ name: "idempotency_key_reused" });
    case "refused":
      throw new CallFailure({ name: "submission_unknown", cause: found.value.cause });
    case undefined:
      return undefined;
  }
}
