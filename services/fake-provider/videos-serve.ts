import type { ServerResponse } from "node:http";
import { setTimeout } from "node:timers/promises";
import { renderError } from "./errors.ts";
import type { ReceivedRequest } from "./receive.ts";
import type { Refusal } from "./request.ts";
import type { VideoBehaviour } from "./videos-behaviour.ts";
import type { FakeVideoApi } from "./videos-dialect.ts";
import { sendVideoFile, type VideoVariant, variantTypes } from "./videos-file.ts";
import { geminiVideoApi } from "./videos-gemini.ts";
import type { VideoRequest, VideoJob, VideoJobs } from "./videos-jobs.ts";
import { openaiVideoApi } from "./videos-openai.ts";

type Exchange = { jobs: VideoJobs; received: ReceivedRequest; response: ServerResponse; api: FakeVideoApi };

const apis = [openaiVideoApi, geminiVideoApi];
const elsewherePath = /^\/elsewhere\/([^/?]+)\/(video|thumbnail|spritesheet)$/;
const verbs = [
  { method: "POST", path: "submit", serve: serveSubmission },
  { method: "GET", path: "poll", serve: servePoll },
  { method: "GET", path: "file", serve: serveFile },
] as const;

/** Serves a request to an API for videos; false when it is none. */
export async function serveVideos(
  jobs: VideoJobs,
  received: ReceivedRequest,
  response: ServerResponse,
): Promise<boolean> {
  const [, elsewhere, variant] = elsewherePath.exec(received.path) ?? [];
  if (elsewhere !== undefined) {
    const exchange = { jobs, received, response, api: openaiVideoApi };
    await serveElsewhere(exchange, decodeURIComponent(elsewhere), variant as VideoVariant);
    return true;
  }
  for (const api of apis) {
    for (const { method, path, serve } of verbs) {
      const [, name] = received.method === method ? (api.paths[path].exec(received.path) ?? []) : [];
      if (name === undefined) continue;
      const exchange = { jobs, received, response, api };
      if (!api.hasCredential(received)) refuse(exchange, { status: 401, message: "You did not provide an API key." });
      else await serve(exchange, decodeURIComponent(name));
      return true;
    }
  }
  return false;
}

/** The scheme, host and port by which the caller knows this server. */
const originOf = ({ headers }: ReceivedRequest): string => `http://${String(headers["host"])}`;

async function serveSubmission(exchange: Exchange, model: string): Promise<void> {
  const { api, received, jobs } = exchange;
  const asked = api.read(received, model);
  if (!("prompt" in asked)) return refuse(exchange, asked);
  try {
    await submit(exchange, asked, jobs.behaviourOf(asked));
  } catch (error) {
    refuse(exchange, { status: 500, message: `the fake provider cannot behave like that: ${String(error)}` });
  }
}

const refusals: Record<string, number> = { reject: 400, rate: 429, account: 401, unavailable: 503, error: 500 };

async function submit(exchange: Exchange, asked: VideoRequest, behaviour: VideoBehaviour): Promise<void> {
  const { api, response, jobs } = exchange;
  const { submit: kind = "accept" } = behaviour;
  const status = refusals[kind];
  const job = status === undefined && kind !== "cut" ? jobs.accept(asked, api.makeId(asked)) : undefined;
  await pause(response, behaviour.submitMs ?? (kind === "slow" ? 5_000 : 0));
  if (status !== undefined) return refuse(exchange, { status });
  if (kind === "cut" || kind === "accept-then-cut" || !job) return void response.socket?.resetAndDestroy();
  if (kind === "garbage") return send(exchange, 200, "<html>Welcome</html>");
  send(exchange, 200, JSON.stringify(api.renderTaken(job)));
}

async function servePoll(exchange: Exchange, id: string): Promise<void> {
  const { api, received, response, jobs } = exchange;
  const job = jobs.find(id);
  if (!job) return refuse(exchange, { status: 404, message: `Task '${id}' was not found.` });
  const behaviour = jobs.behaviourOf(job);
  const stage = jobs.poll(job);
  await pause(response, behaviour.pollMs ?? 0);
  if (stage.kind === "fault")
    return stage.status === 0 ? void response.socket?.resetAndDestroy() : refuse(exchange, stage);
  if (stage.kind === "lost") return refuse(exchange, { status: 404, message: `Task '${id}' was not found.` });
  send(exchange, 200, JSON.stringify(api.renderPoll({ job, stage, behaviour, origin: originOf(received) })));
}

async function serveFile(exchange: Exchange, name: string): Promise<void> {
  const { api, received, response, jobs } = exchange;
  const job = jobs.find(api.jobIdOfFile(name));
  const { searchParams } = new URL(received.path, originOf(received));
  const variant = searchParams.get("variant") ?? "video";
  if (!job || !(variant in variantTypes)) return refuse(exchange, { status: 404, message: "The file was not found." });
  if (job.end !== "completed") return refuse(exchange, { status: 400, message: "The video is not ready yet." });
  const behaviour = jobs.behaviourOf(job);
  if (behaviour.goneAfter) return refuse(exchange, { status: 404, message: "The file was not found." });
  const isRedirected = received.path.startsWith("/download/") || searchParams.has("redirected");
  if (behaviour.redirect === undefined || isRedirected)
    return sendContent(exchange, { job, variant: variant as VideoVariant });
  const { port } = new URL(originOf(received));
  // The same server under another name, which makes it another origin.
  const elsewhere = `http://localhost:${port}/elsewhere/${encodeURIComponent(job.id)}/${variant}`;
  const location = behaviour.redirect === "own" ? originOf(received) + api.ownRedirect(received.path) : elsewhere;
  response.writeHead(302, { location, "content-length": 0 }).end();
}

// As storage does that is addressed by signed links: a credential besides the signature is refused.
async function serveElsewhere(exchange: Exchange, id: string, variant: VideoVariant): Promise<void> {
  const { jobs, received } = exchange;
  const job = jobs.find(id);
  if (!job) return refuse(exchange, { status: 404, message: "The file was not found." });
  if (apis.some((api) => api.hasCredential(received))) {
    jobs.note(job, "leaks");
    return refuse(exchange, { status: 400, message: "Only one way to authenticate is allowed." });
  }
  await sendContent(exchange, { job, variant });
}

async function sendContent(exchange: Exchange, file: { job: VideoJob; variant: VideoVariant }): Promise<void> {
  const { jobs, received, response } = exchange;
  jobs.note(file.job, "downloads");
  const size = file.variant === "video" ? (jobs.behaviourOf(file.job).bytes ?? 65_536) : 1_024;
  await sendVideoFile(response, received.headers, { ...file, size });
}

async function pause(response: ServerResponse, waitMs: number): Promise<void> {
  if (waitMs === 0) return;
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  await setTimeout(waitMs, undefined, { signal: gone.signal }).catch(() => undefined);
}

function refuse(exchange: Exchange, { status, message, param, code }: Partial<Refusal> & { status: number }): void {
  const { api, response } = exchange;
  const override = message === undefined ? undefined : { message, code: code ?? null, param: param ?? null };
  if (status === 429) response.setHeader("retry-after", 7);
  send(exchange, status, renderError(api.errors, { status, override, requestId: "" }));
}

function send({ response }: Exchange, status: number, body: string): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}
