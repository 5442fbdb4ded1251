import { isObject } from "./dialect.ts";
import type { ReceivedRequest } from "./receive.ts";
import type { Refusal } from "./request.ts";
import type { FakeVideoApi, JobView } from "./videos-dialect.ts";
import { randomJobId, type VideoRequest, type VideoJob } from "./videos-jobs.ts";

/** Videos as OpenAI serves them. */
export const openaiVideoApi: FakeVideoApi = {
  errors: "chat",
  hasCredential: ({ headers }) => /^Bearer \S/.test(String(headers["authorization"])),
  paths: {
    submit: /^(\/v1\/videos)$/,
    poll: /^\/v1\/videos\/([^/?]+)$/,
    file: /^\/v1\/videos\/([^/?]+)\/content(?:\?.*)?$/,
  },
  read: readSubmission,
  makeId: () => `video_${randomJobId()}`,
  renderTaken: (job) => renderVideo(job, { status: "queued", progress: 0 }),
  renderPoll,
  jobIdOfFile: (name) => name,
  ownRedirect: (address) => `${address}${address.includes("?") ? "&" : "?"}redirected=1`,
};

function readSubmission({ headers, body }: ReceivedRequest): VideoRequest | Refusal {
  if (!body) return { status: 400, message: "The request body is neither a form nor a JSON object." };
  const { prompt, model = "sora-2", seconds = "4", size = "720x1280", input_reference: reference } = body;
  if (typeof prompt !== "string" || prompt === "") return wrongField("prompt");
  if (typeof model !== "string" || model === "") return wrongField("model");
  // A text, also in JSON: the number is refused.
  if (typeof seconds !== "string" || !/^[1-9]\d{0,2}$/.test(seconds)) return wrongField("seconds");
  if (typeof size !== "string" || !/^\d+x\d+$/.test(size)) return wrongField("size");
  const isPicture = isObject(reference) && ["bytes", "file_id", "image_url"].some((field) => field in reference);
  if (reference !== undefined && !isPicture) return wrongField("input_reference");
  const rid = headers["x-request-id"]?.toString() ?? null;
  return { api: "openai", model, prompt, seconds: Number(seconds), size, hasReference: isPicture, rid };
}

function wrongField(param: string): Refusal {
  return { status: 400, message: `Invalid value for '${param}'.`, param, code: "invalid_value" };
}

type JobFields = { status: string; progress: number; endedAt?: number; error?: object; seconds?: number };

function renderVideo(job: VideoJob, { status, progress, endedAt, error, seconds }: JobFields): object {
  const endedSeconds = endedAt === undefined ? null : Math.floor(endedAt / 1000);
  return {
    id: job.id,
    object: "video",
    created_at: Math.floor(job.acceptedAt / 1000),
    status,
    completed_at: status === "completed" ? endedSeconds : null,
    error: error ?? null,
    expires_at: status === "completed" && endedSeconds !== null ? endedSeconds + 3_600 : null,
    model: job.model,
    progress,
    prompt: job.prompt,
    remixed_from_video_id: null,
    seconds: String(seconds ?? job.seconds),
    size: job.size,
  };
}

function renderPoll({ job, stage, behaviour }: JobView): object {
  const endedAt = job.endedAt ?? Date.now();
  if (stage.kind === "running") return renderVideo(job, stage);
  if (stage.kind === "completed") {
    const seconds = behaviour.deliveredSeconds ?? job.seconds;
    return renderVideo(job, { status: "completed", progress: 100, endedAt, seconds });
  }
  const error = stage.isFiltered
    ? { code: "moderation_blocked", message: "Your request was blocked by our moderation system." }
    : { code: behaviour.failureCode ?? "video_generation_failed", message: "The video could not be generated." };
  return renderVideo(job, { status: "failed", progress: 0, endedAt, error });
}
