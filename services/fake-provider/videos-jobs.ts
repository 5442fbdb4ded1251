import { randomUUID } from "node:crypto";
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { readVideoBehaviour, type VideoBehaviour } from "./videos-behaviour.ts";

/** What the fake provider really did for one task that it took. */
export type VideoJob = {
  /** The provider's own name of the task: "video_…", or "models/…/operations/…". */
  id: string;
  api: "openai" | "gemini";
  model: string;
  prompt: string;
  seconds: number;
  /** Width and height, such as "1280x720". */
  size: string;
  hasReference: boolean;
  /** The header x-request-id of the submission. */
  rid: string | null;
  /** Which of the tasks taken under this rid it is, from 1: more than 1 was submitted twice. */
  attempt: number;
  /** Unix milliseconds. */
  acceptedAt: number;
  /** Polls that reached the provider, failed answers included. */
  polls: number;
  /** What the caller could have learnt; undefined until a poll found an end. */
  end: "completed" | "failed" | undefined;
  endedAt: number | undefined;
  /** Files that were answered for, whole or in part. */
  downloads: number;
  /** Requests that brought a credential to another origin. */
  leaks: number;
};

export type VideoRequest = Pick<VideoJob, "api" | "model" | "prompt" | "seconds" | "size" | "hasReference" | "rid">;

/** How far a task is at one poll. */
export type VideoStage =
  | { kind: "fault"; status: number }
  | { kind: "lost" }
  | { kind: "running"; status: "queued" | "in_progress"; progress: number }
  | { kind: "completed" }
  | { kind: "failed"; isFiltered: boolean };

export type VideoJobs = Disposable & {
  records: VideoJob[];
  /** Throws when the prompt carries a behaviour that is none. */
  behaviourOf: (asked: Pick<VideoJob, "prompt">) => VideoBehaviour;
  script: (behaviour: VideoBehaviour) => void;
  accept: (asked: VideoRequest, id: string) => VideoJob;
  find: (id: string) => VideoJob | undefined;
  poll: (job: VideoJob) => VideoStage;
  /** Counts something that happened to a task and writes it down. */
  note: (job: VideoJob, counted: "downloads" | "leaks") => void;
  forget: () => void;
};

const maxJobs = 100_000;

/**
 * Keeps the newest 100,000 tasks; when a file is given, appends a task's state as a line of JSON at every change. Lines
 * are written at once, so they survive the death of this process.
 */
export function createVideoJobs(file: string | undefined): VideoJobs {
  const records: VideoJob[] = [];
  const byId = new Map<string, VideoJob>();
  const attempts = new Map<string, number>();
  // Polls that were answered as scripted, without the faults before them.
  const answeredPolls = new WeakMap<VideoJob, number>();
  const descriptor = file === undefined ? undefined : openSync(file, "a");
  let standing: VideoBehaviour = {};
  const write = (job: VideoJob): void => {
    if (descriptor !== undefined) writeSync(descriptor, `${JSON.stringify(job)}\n`);
  };
  const behaviourOf = ({ prompt }: Pick<VideoJob, "prompt">) => ({ ...standing, ...readVideoBehaviour(prompt) });
  return {
    records,
    behaviourOf,
    script: (behaviour) => {
      standing = behaviour;
    },
    accept: (asked, id) => {
      const attempt = asked.rid === null ? 1 : (attempts.get(asked.rid) ?? 0) + 1;
      if (asked.rid !== null) attempts.set(asked.rid, attempt);
      const fresh = { polls: 0, end: undefined, endedAt: undefined, downloads: 0, leaks: 0 };
      const job: VideoJob = { ...asked, ...fresh, id, attempt, acceptedAt: Date.now() };
      records.push(job);
      byId.set(id, job);
      if (records.length > maxJobs) byId.delete(records.shift()?.id ?? "");
      write(job);
      return job;
    },
    find: (id) => byId.get(id),
    poll: (job) => {
      const behaviour = behaviourOf(job);
      const fault = behaviour.pollFaults?.[job.polls];
      job.polls += 1;
      const answered = answeredPolls.get(job) ?? 0;
      if (fault === undefined) answeredPolls.set(job, answered + 1);
      const stage: VideoStage =
        fault === undefined ? stageOf(behaviour, answered, job.end) : { kind: "fault", status: fault };
      if (stage.kind === "completed" || stage.kind === "failed") {
        job.endedAt ??= Date.now();
        job.end = stage.kind;
      }
      write(job);
      return stage;
    },
    note: (job, counted) => {
      job[counted] += 1;
      write(job);
    },
    forget: () => {
      standing = {};
      records.length = 0;
      byId.clear();
      attempts.clear();
    },
    [Symbol.dispose]: () => {
      if (descriptor !== undefined) closeSync(descriptor);
    },
  };
}

// What has ended stays so, whatever is scripted later.
function stageOf(behaviour: VideoBehaviour, earlierPolls: number, ended: VideoJob["end"]): VideoStage {
  const { end = "completed", backwards: isBackwards = false, lost: isLost = false } = behaviour;
  const polls = behaviour.polls ?? 1;
  if (isLost) return { kind: "lost" };
  const isOver = ended !== undefined || (end !== "never" && earlierPolls >= polls);
  if (isOver) {
    const isCompleted = ended === undefined ? end === "completed" : ended === "completed";
    return isCompleted ? { kind: "completed" } : { kind: "failed", isFiltered: end === "filtered" };
  }
  const isQueued = isBackwards ? earlierPolls % 2 === 1 : earlierPolls === 0 && polls > 1;
  const progress = isQueued ? 0 : Math.min(99, Math.floor((100 * (earlierPolls + 1)) / (polls + 1)));
  return { kind: "running", status: isQueued ? "queued" : "in_progress", progress };
}

/** A new name as the providers make them. */
export const randomJobId = (): string => randomUUID().replaceAll("-", "");

/** Reads a truth file: the last state of each task, in the order in which they were taken. */
export function readVideoTruthFile(file: string): VideoJob[] {
  const byId = new Map<string, VideoJob>();
  // What follows the last line end is empty, or half a line of a process that was killed while it wrote.
  for (const line of readFileSync(file, "utf8").split("\n").slice(0, -1)) {
    const job = JSON.parse(line) as VideoJob;
    byId.set(job.id, job);
  }
  return [...byId.values()];
}
