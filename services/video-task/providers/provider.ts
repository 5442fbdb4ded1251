import type { RefusalReason } from "#proto/video/v1/video_pb.ts";

/** What a provider is asked to make. */
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

/** What a provider answered; `body` is undefined where it is no JSON. */
export type ProviderAnswer = { status: number; body: unknown; retryAfterSeconds: number | undefined };

/** What an answer to a submission means. Whatever is neither a clear yes nor a clear no is unknown. */
export type Submission =
  | { outcome: "accepted"; upstreamId: string }
  | { outcome: "refused"; reason: RefusalReason; retryAfterSeconds: number; cause: string };

/** What a provider says of a task. */
export type PollResult =
  | { state: "queued" }
  /** `progress` is 0 to 100, where the provider tells it. */
  | { state: "in_progress"; progress: number | undefined }
  | {
      state: "completed";
      /** Length delivered, where the provider tells it. */
      seconds: number | undefined;
      /** Unix milliseconds at which it deletes the file, where it tells them. */
      expiresAtMs: number | undefined;
      /** Where the file is, for providers that say so. */
      contentUrl: string | undefined;
    }
  | { state: "failed"; code: string; message: string }
  /** It knows of no such task. */
  | { state: "missing" }
  /** Nothing was learnt of the task. */
  | { state: "unanswered"; cause: string; retryAfterSeconds: number };

/** Files of a video, as callers name them. */
export const variants = ["video", "thumbnail", "spritesheet"] as const;

export type Variant = (typeof variants)[number];

/**
 * A provider's API for videos as three verbs, pure: what is sent and what an answer means. One more provider is one
 * more file and a line in index.ts.
 */
export type Provider = {
  submit: {
    /** The request, or why the provider cannot be asked for this: a sentence for the caller. */
    write: (job: Job, credential: string) => ProviderRequest | { reason: string };
    read: (answer: ProviderAnswer) => Submission;
  };
  poll: {
    write: (upstreamId: string, credential: string) => ProviderRequest;
    read: (answer: ProviderAnswer) => PollResult;
  };
  /** The address of a file of a completed task; undefined for one that the provider does not make. */
  locate: (task: LocatedTask, variant: Variant) => string | undefined;
};

export type LocatedTask = { upstreamId: string; contentUrl: string | undefined; baseUrl: URL };
