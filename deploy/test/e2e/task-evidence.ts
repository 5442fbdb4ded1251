import type { CheckedAccount, CheckedLine } from "./checker.ts";

/** A request for a new task and what its caller was answered. */
export type Submission = {
  accountId: string;
  /** What to show; another text for each task that a caller means, so that it names the task on every side. */
  prompt: string;
  /** Whether nothing is wrong with it and its provider serves it. */
  isSound: boolean;
  idempotencyKey: string | undefined;
  /** The request id of the answer; undefined: there was no answer. */
  rid: string | undefined;
  status: number | undefined;
  retryAfter: string | undefined;
  /** Whether the answer says that nobody knows what became of the task: x-should-retry is false. */
  isOutcomeUnknown: boolean;
  /** The task that was named; undefined: none was. */
  taskId: string | undefined;
  /** The body of a refusal, or what broke. */
  reason: string;
};

/** A task as its account was shown it at some time between two moments. */
export type Sighting = {
  accountId: string;
  taskId: string;
  status: string;
  progress: number;
  errorCode: string | undefined;
  askedAtMs: number;
  answeredAtMs: number;
};

/** A file that was asked for. */
export type Download = {
  accountId: string;
  taskId: string;
  status: number;
  /** Bytes that arrived; of an answer that broke off undefined. */
  bytes: number | undefined;
};

/** All tasks that an account was shown when everything had come to rest. */
export type Listing = { accountId: string; taskIds: readonly string[] };

/** A task that a provider has accepted. */
export type ProviderJob = {
  id: string;
  /** The request id under which it was submitted. */
  rid: string | null;
  prompt: string;
  /** Unix milliseconds. */
  acceptedAtMs: number;
  end: "completed" | "failed" | undefined;
  /** Length of what it delivers. */
  deliveredSeconds: number;
  fileBytes: number;
  /** Whether the provider itself kept its answer to the submission back, so that nobody could know of it. */
  isAnswerLost: boolean;
  /** Whether the provider forgets it before its end. */
  isForgotten: boolean;
};

/** A submission that a provider has read, whatever it answered. */
export type ProviderSend = { rid: string | null; api: string };

/** A row of video_task.task. */
export type TaskRow = {
  rid: string;
  accountId: string;
  state: string;
  idempotencyKey: string | null;
  model: string;
  prompt: string;
  seconds: number;
  size: string;
  upstreamId: string | null;
  errorCode: string | null;
  deadlineMs: number;
  createdAtMs: number;
  acceptedAtMs: number | null;
  endedAtMs: number | null;
  isDeleted: boolean;
};

/** A row of video_task.money_event. */
export type MoneyEventRow = { rid: string; kind: "charge" | "refund"; isBooked: boolean };

/** A time in which something was killed, paused or away without which a submission under way may be lost. */
export type HarmTime = { fromMs: number; toMs: number };

/** What was seen of tasks on three sides, and the service's own rows. */
export type TaskEvidence = {
  submissions: readonly Submission[];
  sightings: readonly Sighting[];
  downloads: readonly Download[];
  listings: readonly Listing[];
  jobs: readonly ProviderJob[];
  sends: readonly ProviderSend[];
  rows: readonly TaskRow[];
  events: readonly MoneyEventRow[];
  lines: readonly CheckedLine[];
  accounts: readonly CheckedAccount[];
  /** What a video costs in nano-USD. */
  priceNanos: (asked: { model: string; size: string; seconds: number }) => bigint;
  harms: readonly HarmTime[];
  /** Nano-USD by which an account may be below zero; left out: 0. */
  overspendBoundNanos?: bigint;
};
