import { isObject } from "./dialect.ts";
import type { ReceivedRequest } from "./receive.ts";
import type { Refusal } from "./request.ts";
import type { FakeVideoApi, JobView } from "./videos-dialect.ts";
import { randomJobId, type VideoRequest } from "./videos-jobs.ts";

const sizes: Record<string, Record<string, string>> = {
  "16:9": { "720p": "1280x720", "1080p": "1920x1080", "4k": "3840x2160" },
  "9:16": { "720p": "720x1280", "1080p": "1080x1920", "4k": "2160x3840" },
};

// google.rpc.Code, of which an operation tells the number.
const codeNumbers: Record<string, number> = {
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  INTERNAL: 13,
  UNAVAILABLE: 14,
};

/** Videos as Gemini serves them: an operation that is polled until it is done, and a file with an address. */
export const geminiVideoApi: FakeVideoApi = {
  errors: "gemini",
  hasCredential: ({ headers, path }) => Boolean(headers["x-goog-api-key"]) || /[?&]key=[^&]/.test(path),
  paths: {
    submit: /^\/v1beta\/models\/([^/:?]+):predictLongRunning(?:\?.*)?$/,
    poll: /^\/v1beta\/(models\/[^/:?]+\/operations\/[^/:?]+)(?:\?.*)?$/,
    file: /^(?:\/download)?\/v1beta\/files\/([^/:?]+):download\?(?=.*alt=media)/,
  },
  read: readSubmission,
  makeId: ({ model }) => `models/${model}/operations/${randomJobId()}`,
  renderTaken: ({ id }) => ({ name: id }),
  renderPoll,
  jobIdOfFile: (name) => Buffer.from(name, "base64url").toString(),
  ownRedirect: (address) => `/download${address}`,
};

function readSubmission({ headers, body }: ReceivedRequest, model: string): VideoRequest | Refusal {
  const instances: unknown[] = Array.isArray(body?.["instances"]) ? body["instances"] : [];
  const [instance] = instances;
  const parameters = isObject(body?.["parameters"]) ? body["parameters"] : {};
  const { durationSeconds = 8, aspectRatio = "16:9", resolution = "720p", sampleCount = 1 } = parameters;
  if (instances.length !== 1 || !isObject(instance) || typeof instance["prompt"] !== "string") return wrong("prompt");
  if (!Number.isInteger(durationSeconds)) return wrong("durationSeconds");
  const size = sizes[String(aspectRatio)]?.[String(resolution)];
  if (size === undefined) return wrong("aspectRatio or resolution");
  if (sampleCount !== 1) return wrong("sampleCount");
  const { prompt, image } = instance;
  const isPicture = isObject(image) && typeof image["bytesBase64Encoded"] === "string" && "mimeType" in image;
  if (image !== undefined && !isPicture) return wrong("image");
  const rid = headers["x-request-id"]?.toString() ?? null;
  return { api: "gemini", model, prompt, seconds: Number(durationSeconds), size, hasReference: isPicture, rid };
}

function wrong(field: string): Refusal {
  return { status: 400, message: `Invalid value for ${field}.` };
}

function renderPoll({ job, stage, behaviour, origin }: JobView): object {
  const name = job.id;
  if (stage.kind === "running") return { name };
  if (stage.kind === "failed" && !stage.isFiltered) {
    const code = codeNumbers[behaviour.failureCode ?? "INTERNAL"] ?? 13;
    return { name, done: true, error: { code, message: "The video could not be generated." } };
  }
  const type = "type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningResponse";
  const file = Buffer.from(job.id).toString("base64url");
  const generateVideoResponse =
    stage.kind === "completed"
      ? { generatedSamples: [{ video: { uri: `${origin}/v1beta/files/${file}:download?alt=media` } }] }
      : {
          raiMediaFilteredCount: 1,
          raiMediaFilteredReasons: ["The prompt was refused by the safety rules.", "Support codes: 58061214"],
        };
  return { name, done: true, response: { "@type": type, generateVideoResponse } };
}
