import type { IncomingMessage, ServerResponse } from "node:http";
import { TaskState } from "#proto/video/v1/video_pb.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { videoDialectOf } from "#shared/catalog/video-dialects.ts";
import { upstreamsOf } from "../catalog/catalog.ts";
import { upstreamDialects } from "../dialects/conversions.ts";
import { CallFailure, type Failure, type FailureName } from "../failures.ts";
import { isFileGone } from "./file-gone.ts";
import { openFile, type FilePlace, type OpenFile } from "./open-file.ts";
import { passFile, type FileEnd } from "./pass-file.ts";
import { createSendSignal, type SendSignal } from "../upstream/send.ts";
import { upstreamFailure } from "../upstream/failure.ts";
import { answerOf, type VideoTasks } from "./tasks.ts";
import type { Download, VideoRelay } from "./videos.ts";
import { readErrorBody } from "../upstream/whole.ts";

/** A file that is asked for, by a caller whose key was checked. */
export type AskedFile = {
  accountId: string;
  taskId: string;
  /** "video", "thumbnail" or "spritesheet". */
  variant: string;
};

export type GivingFile = { request: IncomingMessage; response: ServerResponse; rid: string };

/** Why there is no file to give of a task that is there. */
async function reasonOf({ accountId, taskId }: AskedFile, tasks: VideoTasks): Promise<FailureName> {
  const notFound = { not_found: { name: "task_file_not_found" } } as const;
  const { task } = await answerOf(tasks.getTask({ accountId, taskId }), notFound);
  return task?.state === TaskState.FAILED ? "task_failed" : "task_not_ready";
}

/** Where the file is. Throws what its absence is told. */
async function locate(asked: AskedFile, tasks: VideoTasks, relay: VideoRelay): Promise<FilePlace> {
  const { variant } = asked;
  const located = await answerOf(tasks.locateContent(asked), {
    not_found: { name: "task_file_not_found" },
    failed_precondition: { name: "task_not_ready" },
    invalid_argument: { name: "field_invalid", detail: `the provider of this video makes no ${variant}` },
  }).catch(async (error: unknown) => {
    if (!(error instanceof CallFailure) || error.failure.name !== "task_not_ready") throw error;
    throw new CallFailure({ name: await reasonOf(asked, tasks) });
  });
  const upstream = upstreamsOf(relay.catalog.current()).find(({ name }) => name === located.upstream);
  if (upstream) return { upstream, url: located.url };
  throw new CallFailure({ name: "service_unavailable", cause: `the catalog has no upstream ${located.upstream}` });
}

// Of the provider's answers those that are the caller's.
const passedStatuses = new Set([200, 206, 416]);

/** What an answer without a file means that is not gone. */
async function failureOfAnswer({ answer, isOwn }: OpenFile, { upstream }: FilePlace): Promise<Failure> {
  const { status } = answer;
  const cause = { status };
  if (status === 429) return { name: "upstream_rate", cause };
  // Elsewhere it is an address that was good for a while; the next try gets another.
  if (status === 401 || status === 403) return { name: isOwn ? "upstream_account" : "upstream_unavailable", cause };
  if (status < 500) return { name: "upstream_invalid", cause };
  const spoken = videoDialectOf(upstream) === "gemini-videos" ? "gemini-generate" : "openai-chat";
  return upstreamFailure(status, await readErrorBody(answer), upstreamDialects[spoken], upstream);
}

async function checkAnswer(file: OpenFile, place: FilePlace): Promise<void> {
  const { status, headers } = file.answer;
  if (!passedStatuses.has(status)) {
    if (await isFileGone(file, place)) throw new CallFailure({ name: "artifact_gone", cause: { status } });
    throw new CallFailure(await failureOfAnswer(file, place));
  }
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") throw new CallFailure({ name: "upstream_invalid", cause: { status, encoding } });
}

/**
 * Takes one of the places for downloads: of this process, of the upstream, and of the account, whose slow readers must
 * not keep everybody else out. Throws `service_unavailable`.
 */
function enter({ accountId }: AskedFile, upstream: Upstream, signal: SendSignal, { videos }: VideoRelay): Download {
  const { downloads, bounds } = videos;
  const there = [...downloads].filter(({ upstreamId }) => upstreamId === upstream.id).length;
  const own = [...downloads].filter((download) => download.accountId === accountId).length;
  const isFull = downloads.size >= bounds.maxDownloads || there >= upstream.maxConcurrent;
  if (isFull || own >= bounds.maxDownloadsOfAccount)
    throw new CallFailure({ name: "service_unavailable", cause: "too many files are being downloaded" });
  const download: Download = { upstreamId: upstream.id, accountId, cut: () => signal.abort() };
  downloads.add(download);
  return download;
}

const rangeHeaders = ["range", "if-range"] as const;

function headersOf({ headers }: IncomingMessage, rid: string): string[] {
  const ranges = rangeHeaders.flatMap((name) => (typeof headers[name] === "string" ? [name, headers[name]] : []));
  return [...ranges, "x-request-id", rid];
}

/**
 * Gives the file of a completed task to its caller as it comes from the provider, the range that was asked for. Tells
 * how that ended. Throws a CallFailure or a SendError before the head went out.
 */
export async function giveFile(asked: AskedFile, giving: GivingFile, relay: VideoRelay): Promise<FileEnd> {
  const { videos } = relay;
  const { request, response, rid } = giving;
  if (!videos.tasks) throw new CallFailure({ name: "task_file_not_found" });
  const signal = createSendSignal();
  response.once("close", () => signal.abort());
  const place = await locate(asked, videos.tasks, relay);
  const download = enter(asked, place.upstream, signal, relay);
  let file: OpenFile | undefined;
  try {
    file = await openFile({ place, headers: headersOf(request, rid), signal }, videos);
    await checkAnswer(file, place);
    if (response.destroyed) return "client_gone";
    const { cut, over } = passFile({ answer: file.answer, response, rid, idleMs: videos.bounds.idleMs });
    download.cut = () => cut("drained");
    return await over;
  } finally {
    videos.downloads.delete(download);
    file?.answer.abort();
    await file?.close();
  }
}
