import type { Job, PollResult, Provider, ProviderAnswer } from "./provider.ts";
import { fieldOf, numberOf, textOf } from "./read-json.ts";
import { isMissing, type ProviderError, refusalOf, unansweredBy } from "./refusal.ts";
import { failureOf } from "./wording.ts";

// The only sizes that Veo makes: a shape and the length of the shorter side.
const shapes = new Map([
  ["1280x720", { aspectRatio: "16:9", resolution: "720p" }],
  ["720x1280", { aspectRatio: "9:16", resolution: "720p" }],
  ["1920x1080", { aspectRatio: "16:9", resolution: "1080p" }],
  ["1080x1920", { aspectRatio: "9:16", resolution: "1080p" }],
  ["3840x2160", { aspectRatio: "16:9", resolution: "4k" }],
  ["2160x3840", { aspectRatio: "9:16", resolution: "4k" }],
]);

// By number, as google.rpc.Code has them: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
const codeNames = [
  // OK, which no failure is.
  "UNKNOWN",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

// "models/…/operations/…" at Google; those who speak its API may leave out the model. Nothing that could leave its
// place in a path.
const operationPattern = /^(?:models\/\w[\w.-]{0,199}\/)?operations\/\w[\w-]{0,199}$/;

// The longest that the relay fetches.
const maxAddressLength = 8_192;

/** Veo by the Gemini API, https://ai.google.dev/gemini-api/docs/video: a long-running operation and a file. */
export const geminiVideos: Provider = {
  submit: {
    write: (job, credential) => {
      const shape = shapes.get(job.size);
      if (!shape) return { reason: `The model makes videos of these sizes only: ${[...shapes.keys()].join(", ")}` };
      return {
        method: "POST",
        path: `/v1beta/models/${encodeURIComponent(job.model)}:predictLongRunning`,
        headers: [...headersOf(credential), "content-type", "application/json"],
        body: Buffer.from(JSON.stringify(bodyOf(job, shape))),
      };
    },
    read: (answer) => {
      const { status, body } = answer;
      const name = textOf(fieldOf(body, "name"));
      const isTaken = status >= 200 && status < 300 && name !== undefined && operationPattern.test(name);
      return isTaken ? { outcome: "accepted", upstreamId: name } : refusalOf(answer, readError(body));
    },
  },
  poll: {
    write: (upstreamId, credential) => ({
      method: "GET",
      path: `/v1beta/${upstreamId}`,
      headers: headersOf(credential),
      body: undefined,
    }),
    read: readPoll,
  },
  locate: ({ contentUrl }, variant) => (variant === "video" ? contentUrl : undefined),
};

// In a header, because addresses stand in logs.
const headersOf = (credential: string): string[] => ["x-goog-api-key", credential, "accept", "application/json"];

function bodyOf({ prompt, seconds, reference }: Job, shape: object): object {
  const image = reference && {
    bytesBase64Encoded: Buffer.from(reference.content).toString("base64"),
    mimeType: reference.mediaType,
  };
  return {
    instances: [{ prompt, ...(image && { image }) }],
    parameters: { sampleCount: 1, durationSeconds: seconds, ...shape },
  };
}

/** Reads `{error: {code, message, status, details}}`: ErrorInfo has a reason, RetryInfo a wait such as "7s". */
function readError(body: unknown): ProviderError {
  const error = fieldOf(body, "error");
  const found = fieldOf(error, "details");
  const details: unknown[] = Array.isArray(found) ? found : [];
  const reasons = details.map((detail) => textOf(fieldOf(detail, "reason")));
  const waits = details.map(
    (detail) => /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(textOf(fieldOf(detail, "retryDelay")) ?? "")?.[1],
  );
  const wait = waits.find((seconds) => seconds !== undefined);
  return {
    codes: [textOf(fieldOf(error, "status")), reasons.find((reason) => reason !== undefined)],
    message: fieldOf(error, "message"),
    retryAfterSeconds: wait === undefined ? undefined : Math.ceil(Number(wait)),
  };
}

function readPoll(answer: ProviderAnswer): PollResult {
  const { status, body } = answer;
  if (isMissing(answer)) return { state: "missing" };
  const isDone = fieldOf(body, "done") === true;
  const isOperation = isDone || operationPattern.test(textOf(fieldOf(body, "name")) ?? "");
  if (status < 200 || status > 299 || !isOperation) return unansweredBy(answer, readError(body));
  // The operation of a video tells neither whether it has begun nor how far it is.
  if (!isDone) return { state: "in_progress", progress: undefined };
  const error = fieldOf(body, "error");
  if (typeof error !== "object" || error === null) return readResult(fieldOf(body, "response"));
  const code = codeNames[numberOf(fieldOf(error, "code"))] ?? "UNKNOWN";
  return failureOf(code, fieldOf(error, "message"));
}

// It tells neither how long a video is nor its size.
const completed = { state: "completed", seconds: undefined, size: undefined, expiresAtMs: undefined } as const;

function readResult(response: unknown): PollResult {
  const result = fieldOf(response, "generateVideoResponse");
  const found = fieldOf(result, "generatedSamples");
  const videos = (Array.isArray(found) ? found : []).map((sample) => fieldOf(sample, "video"));
  const contentUrl = videos.map((video) => addressOf(fieldOf(video, "uri"))).find((address) => address !== undefined);
  if (contentUrl !== undefined) return { ...completed, contentUrl };
  const reasons = filterReasonsOf(result) ?? filterReasonsOf(response);
  if (reasons !== undefined) return failureOf("content_policy_violation", reasons);
  // A file that nobody keeps cannot be fetched, and must not be paid for.
  if (videos.some((video) => fieldOf(video, "encodedVideo") !== undefined))
    return failureOf("inline_video", "The model service delivered the video in a form that is not supported");
  return failureOf("no_video", "The model service delivered no video");
}

function addressOf(value: unknown): string | undefined {
  const url = typeof value === "string" && value.length <= maxAddressLength ? URL.parse(value) : null;
  return url && /^https?:$/.test(url.protocol) && url.href.length <= maxAddressLength ? url.href : undefined;
}

/** Why the safety rules let nothing through; undefined when it was not they. */
function filterReasonsOf(result: unknown): string | undefined {
  const found = fieldOf(result, "raiMediaFilteredReasons");
  const reasons = (Array.isArray(found) ? found : []).filter((reason) => typeof reason === "string");
  const isFiltered = numberOf(fieldOf(result, "raiMediaFilteredCount")) > 0 || reasons.length > 0;
  return isFiltered ? reasons.join(" ") || "The safety rules of the model service let nothing through" : undefined;
}
