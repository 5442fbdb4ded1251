import type { IncomingMessage, ServerResponse } from "node:http";
import { createRid } from "#shared/money/rid.ts";
import { authorize, callerOf } from "../charge/admit.ts";
import { failureOf, type Relay } from "../call.ts";
import { beginTimes } from "../call-times.ts";
import { videoErrors } from "../dialects/video-error.ts";
import { CallFailure, type Failure, type FailureName } from "../failures.ts";
import { readKey } from "../http/read.ts";
import { queryOf, readListQuery, readVariant } from "../videos/read-query.ts";
import { reportCall } from "../report/report-call.ts";
import { droppedHeader, respondFailure, respondReply } from "../http/respond.ts";
import { submitVideo, type Submission } from "../videos/submit.ts";
import { beginTrace, withinTrace } from "../report/trace-call.ts";
import { giveFile } from "../videos/content.ts";
import { deletedVideo, videoList, videoObject } from "../videos/object.ts";
import { answerOf } from "../videos/tasks.ts";
import { videosPath } from "../http/paths.ts";

type HttpExchange = { request: IncomingMessage; response: ServerResponse; ip: string };

/** A request for one of the endpoints, while it is answered. */
type VideoExchange = HttpExchange & { submission: Submission; taskId: string; relay: Relay };

/** An endpoint: its name in metrics, and how it is answered. Gives how a file ended, where one was given. */
type Endpoint = { path: string; answer: (asking: VideoExchange) => Promise<string | void> };

function respond({ response, submission }: VideoExchange, value: object, dropped: readonly string[] = []): void {
  const headers = { "content-type": "application/json", ...droppedHeader(dropped) };
  respondReply(response, submission.rid, Buffer.from(JSON.stringify(value)), headers);
}

/**
 * The account of the caller's key, also of one that has used up its limit: its videos are paid for. Throws what a wrong
 * key is told, or too many requests of an address.
 */
async function accountOf({ request, ip, submission, relay }: VideoExchange): Promise<string> {
  const caller = (submission.caller = callerOf(readKey(request.headers, false), ip));
  return (await authorize(relay, caller, true)).accountId;
}

const taskIdPattern = /^video_[0-9a-f]{32}$/;

/** The id of the path, as far as it can be one of ours. Throws `absent` without asking for any other. */
function taskIdOf({ taskId, relay }: VideoExchange, absent: FailureName) {
  const { tasks } = relay.videos;
  if (!tasks || !taskIdPattern.test(taskId)) throw new CallFailure({ name: absent });
  return { tasks, taskId };
}

async function submit(asking: VideoExchange): Promise<void> {
  const { request, response, ip, submission, relay } = asking;
  const caller = (submission.caller = callerOf(readKey(request.headers, false), ip));
  const submitted = await submitVideo({ request, response, caller, submission }, relay);
  if (submitted) respond(asking, videoObject(submitted.task), submitted.dropped);
}

async function list(asking: VideoExchange): Promise<void> {
  const accountId = await accountOf(asking);
  const query = readListQuery(queryOf(asking.request.url ?? ""));
  const { tasks } = asking.relay.videos;
  if (query.afterTaskId !== "" && !taskIdPattern.test(query.afterTaskId))
    throw new CallFailure({ name: "task_not_found" });
  if (!tasks) return respond(asking, videoList([], false));
  const page = await answerOf(tasks.listTasks({ accountId, ...query }), { not_found: { name: "task_not_found" } });
  respond(asking, videoList(page.tasks, page.hasMore));
}

async function get(asking: VideoExchange): Promise<void> {
  const accountId = await accountOf(asking);
  const { tasks, taskId } = taskIdOf(asking, "task_not_found");
  const { task } = await answerOf(tasks.getTask({ accountId, taskId }), { not_found: { name: "task_not_found" } });
  if (!task) throw new CallFailure({ name: "task_not_found" });
  respond(asking, videoObject(task));
}

async function remove(asking: VideoExchange): Promise<void> {
  const accountId = await accountOf(asking);
  const { tasks, taskId } = taskIdOf(asking, "task_not_found");
  await answerOf(tasks.deleteTask({ accountId, taskId }), {
    not_found: { name: "task_not_found" },
    // It is paid for, and no provider can be told to stop.
    failed_precondition: { name: "task_not_ready" },
  });
  respond(asking, deletedVideo(taskId));
}

async function download(asking: VideoExchange): Promise<string> {
  const accountId = await accountOf(asking);
  const { request, response, submission, relay } = asking;
  const variant = readVariant(queryOf(request.url ?? ""));
  const { taskId } = taskIdOf(asking, "task_file_not_found");
  return giveFile({ accountId, taskId, variant }, { request, response, rid: submission.rid }, relay);
}

const onePath = `${videosPath}/{task_id}`;

const endpoints: Record<string, Endpoint> = {
  "POST ": { path: videosPath, answer: submit },
  "GET ": { path: videosPath, answer: list },
  "GET /{task_id}": { path: onePath, answer: get },
  "DELETE /{task_id}": { path: onePath, answer: remove },
  "GET /{task_id}/content": { path: `${onePath}/content`, answer: download },
};

/** Letters may be encoded; what encodes nothing stands for itself, and is no id of ours. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Which endpoint a path below /v1/videos is, and of which task; undefined when it is none. */
function endpointOf(method: string, path: string): { endpoint: Endpoint; taskId: string } | undefined {
  const [taskId, ...more] = path.split("/").slice(3).map(decoded);
  if (taskId === "") return undefined;
  const shape = [...(taskId === undefined ? [] : ["{task_id}"]), ...more].map((segment) => `/${segment}`).join("");
  const endpoint = endpoints[`${method} ${shape}`];
  return endpoint && { endpoint, taskId: taskId ?? "" };
}

/**
 * Answers the endpoints of videos; false when the path is none of them. Every step that cannot go on throws, which is
 * answered here, once.
 */
export function answerVideos(answering: HttpExchange, path: string, relay: Relay): boolean {
  const found = endpointOf(answering.request.method ?? "", path);
  if (found) void answerAt(found.endpoint, found.taskId, answering, relay);
  return found !== undefined;
}

async function answerAt(endpoint: Endpoint, taskId: string, answering: HttpExchange, relay: Relay): Promise<void> {
  const times = beginTimes(performance.now());
  const trace = beginTrace(answering.request, relay.tracing);
  const submission: Submission = { rid: createRid(), startedAtMs: Date.now(), times, trace, call: undefined };
  const { response, ip } = answering;
  let failure: Failure | undefined;
  let end: string | undefined;
  try {
    const asking = { ...answering, submission, taskId, relay };
    end = (await withinTrace(trace, () => endpoint.answer(asking))) ?? undefined;
  } catch (thrown) {
    failure = failureOf(thrown);
    respondFailure(response, { rid: submission.rid, failure, dialect: videoErrors });
  } finally {
    const method = answering.request.method ?? "";
    reportCall({ ...submission, method, endpoint: endpoint.path, response, ip, failure, end }, relay);
  }
}
