import type { Refusal } from "./request.ts";
import type { ReceivedRequest } from "./receive.ts";
import type { VideoBehaviour } from "./videos-behaviour.ts";
import type { VideoRequest, VideoJob, VideoStage } from "./videos-jobs.ts";

/** A stage that is told in an answer of its own. */
export type VisibleStage = Exclude<VideoStage, { kind: "fault" } | { kind: "lost" }>;

/** What a poll tells. */
export type JobView = {
  job: VideoJob;
  stage: VisibleStage;
  behaviour: VideoBehaviour;
  /** Scheme, host and port that the caller knows this server by. */
  origin: string;
};

/** One provider's API for videos: where it listens, what it reads and what it says. */
export type FakeVideoApi = {
  /** Shape of its errors. */
  errors: "chat" | "gemini";
  hasCredential: (received: ReceivedRequest) => boolean;
  /** Each matches an address with its query; the first group names the model, the task or the task's file. */
  paths: { submit: RegExp; poll: RegExp; file: RegExp };
  /** Reads a submission; refuses what the provider refuses. */
  read: (received: ReceivedRequest, model: string) => VideoRequest | Refusal;
  makeId: (asked: VideoRequest) => string;
  renderTaken: (job: VideoJob) => object;
  renderPoll: (told: JobView) => object;
  /** The task that a file's address names. */
  jobIdOfFile: (name: string) => string;
  /** Where a file of a redirect is, which wants the credential too. */
  ownRedirect: (address: string) => string;
};
