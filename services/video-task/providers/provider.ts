import type { RefusalReason } from "#proto/video/v1/video_pb.ts";

/** The video to request from a provider. */
export type Job = {
  /** The model's name at the provider. */
  model: string;
  prompt: string;
  seconds: number;
  /** Width and height, such as "1280x720". */
  size: string;
  reference: { content: Uint8Array; mediaType: string } | undefined;
};

/** A request to a provider; `path` follows the upstream's base URL. */
export type ProviderRequest = {
  method: "GET" | "POST";
  path: string;
  /** The credential's among them: name, value, name, value. */
  headers: string[];
  body: Buffer | undefined;
};

/** A provider's answer; `body` is undefined when it is not JSON. */
export type ProviderAnswer = { status: number; body: unknown; retryAfterSeconds: number | undefined };

/** The meaning of an answer to a submission. Anything but a definite acceptance or refusal is unknown. */
export type Submission =
  | { outcome: "accepted"; upstreamId: string }
  | { outcome: "refused"; reason: RefusalReason; retryAfterSeconds: number; cause: string };

/** A task's status as reported by its provider. */
export type PollResult =
  | { state: "queued" }
  /** `progress` is 0 to 100, if reported. */
  | { state: "in_progress"; progress: number | undefined }
  | {
      state: "completed";
      /** Delivered length, if reported. */
      seconds: number | undefined;
      /** Delivered size, if reported. */
      size: string | undefined;
      /** Unix milliseconds at which the provider deletes the file, if reported. */
      expiresAtMs: number | undefined;
      /** URL of the file, if reported. */
      contentUrl: string | undefined;
    }
  | { state: "failed"; code: string; message: string }
  /** The provider knows no such task. */
  | { state: "missing" }
  /** The poll gave no status. */
  | { state: "unanswered"; cause: string; retryAfterSeconds: number };

/** Files of a video, as callers name them. */
export const variants = ["video", "thumbnail", "spritesheet"] as const;

export type Variant = (typeof variants)[number];

/**
 * A provider's video API as pure functions: the requests to send and the meaning of answers. Another provider is
 * another file and a line in index.ts.
 */
export type Provider = {
  submit: {
    /** The request, or why the provider does not support it: a sentence for the caller. */
    write: (job: Job, credential: string) => ProviderRequest | { reason: string };
    read: (answer: ProviderAnswer) => Submission;
  };
  poll: {
    write: (upstreamId: string, credential: string) => ProviderRequest;
    read: (answer: ProviderAnswer) => PollResult;
  };
  /** The URL of a file of a completed task; undefined for a variant that the provider does not offer. */
  locate: (task: LocatedTask, variant: Variant) => string | undefined;
};

export type LocatedTask = { upstreamId: string; contentUrl: string | undefined; baseUrl: URL };
