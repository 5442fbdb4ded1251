import { type FormPart, writeForm } from "./multipart.ts";
import type { Job, PollResult, Provider, ProviderAnswer } from "./provider.ts";
import { fieldOf, numberOf, textOf } from "./read-json.ts";
import { isMissing, type ProviderError, refusalOf, unansweredBy } from "./refusal.ts";
import { failureOf } from "./wording.ts";

// "video_…" at OpenAI; others who speak this API have UUIDs and the like. Nothing that could leave its place in a path.
const taskIdPattern = /^\w[\w.:=~-]{0,499}$/;

/** The API for videos of OpenAI, https://platform.openai.com/docs/api-reference/videos, and of those who speak it. */
export const openaiVideos: Provider = {
  submit: {
    write: (job, credential) => {
      if (job.reference && !/^[\w.+-]+\/[\w.+-]+$/.test(job.reference.mediaType))
        return { reason: "The reference picture is of no usable media type" };
      const { contentType, body } = writeForm(partsOf(job));
      const headers = [...headersOf(credential), "content-type", contentType];
      return { method: "POST", path: "/v1/videos", headers, body };
    },
    read: (answer) => {
      const { status, body } = answer;
      const id = textOf(fieldOf(body, "id"));
      const isTaken = status >= 200 && status < 300 && id !== undefined && taskIdPattern.test(id);
      return isTaken ? { outcome: "accepted", upstreamId: id } : refusalOf(answer, readError(body));
    },
  },
  poll: {
    write: (upstreamId, credential) => ({
      method: "GET",
      path: pathOf(upstreamId),
      headers: headersOf(credential),
      body: undefined,
    }),
    read: readPoll,
  },
  locate: ({ upstreamId, baseUrl }, variant) => {
    const query = variant === "video" ? "" : `?variant=${variant}`;
    return `${baseUrl.href.replace(/\/$/, "")}${pathOf(upstreamId)}/content${query}`;
  },
};

const headersOf = (credential: string): string[] => [
  "authorization",
  `Bearer ${credential}`,
  "accept",
  "application/json",
];

const pathOf = (upstreamId: string): string => `/v1/videos/${encodeURIComponent(upstreamId)}`;

// A form also without a file, and the length as a text, as the official client sends them.
function partsOf({ prompt, model, seconds, size, reference }: Job): FormPart[] {
  const texts = { prompt, model, seconds: String(seconds), size };
  const parts: FormPart[] = Object.entries(texts).map(([name, value]) => ({ name, value }));
  if (!reference) return parts;
  const { mediaType, content } = reference;
  const fileName = `reference.${mediaType.split("/")[1]}`;
  return [...parts, { name: "input_reference", value: { fileName, mediaType, content } }];
}

function readError(body: unknown): ProviderError {
  const error = fieldOf(body, "error");
  const codes = [textOf(fieldOf(error, "type")), textOf(fieldOf(error, "code"))];
  return { codes, message: fieldOf(error, "message"), retryAfterSeconds: undefined };
}

function readPoll(answer: ProviderAnswer): PollResult {
  const { status, body } = answer;
  if (isMissing(answer)) return { state: "missing" };
  const word = textOf(fieldOf(body, "status"));
  if (status < 200 || status > 299 || word === undefined) return unansweredBy(answer, readError(body));
  switch (word) {
    case "queued":
      return { state: "queued" };
    case "completed":
      return readCompleted(body);
    case "failed": {
      const error = fieldOf(body, "error");
      return failureOf(fieldOf(error, "code"), fieldOf(error, "message"));
    }
    // "in_progress", and words that are not known: one that means an end is followed by none that does, and the
    // deadline ends the task; one that means no end must not end it, because its price would be paid back for a video
    // that comes.
    default:
      return { state: "in_progress", progress: readProgress(fieldOf(body, "progress")) };
  }
}

function readCompleted(body: unknown): PollResult {
  const seconds = numberOf(fieldOf(body, "seconds"));
  const expiresAtMs = numberOf(fieldOf(body, "expires_at")) * 1_000;
  return {
    state: "completed",
    // Longer than a day is no length of a video but a number of something else.
    seconds: seconds > 0 && seconds <= 86_400 ? seconds : undefined,
    size: textOf(fieldOf(body, "size")),
    // To the year 9999, the last that dates are written with.
    expiresAtMs: expiresAtMs > 0 && expiresAtMs < 253_402_300_800_000 ? Math.trunc(expiresAtMs) : undefined,
    contentUrl: undefined,
  };
}

function readProgress(value: unknown): number | undefined {
  const progress = numberOf(value);
  return progress >= 0 && progress <= 100 ? Math.trunc(progress) : undefined;
}
