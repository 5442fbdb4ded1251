import { setTimeout as pause } from "node:timers/promises";
import { createRandom, type Random } from "../e2e/random.ts";
import type { Submission } from "../e2e/task-evidence.ts";
import {
  deleteTask,
  downloadTask,
  emptyTaskLog,
  listTasks,
  pollTask,
  submitTask,
  type TaskLog,
  type TaskPlan,
} from "../e2e/task-requests.ts";
import type { Customer } from "../e2e/world.ts";
import { planTask } from "./task-mix.ts";

export type TaskLoadOptions = {
  url: string;
  customers: readonly Customer[];
  /** Callers at work at the same time; each submits its next task when it has seen enough of the last. */
  callers: number;
  seed: number;
};

/** Callers that submit, poll, list and download until they are stopped. */
export type TaskLoad = {
  log: TaskLog;
  /** Resolves when `count` more submissions have an answer of whatever sort. */
  more: (count: number) => Promise<void>;
  /** Lets what is under way end; resolves when it has. */
  stop: () => Promise<void>;
};

type Caller = { url: string; random: Random; log: TaskLog; isStopping: () => boolean };

const retries = 6;
const maxPolls = 40;
const endedStatuses = new Set(["completed", "failed"]);

export function startTaskLoad({ url, customers, callers, seed }: TaskLoadOptions): TaskLoad {
  const log = emptyTaskLog();
  const waiting: { at: number; resolve: () => void }[] = [];
  let isStopping = false;
  const answered = (): number => log.submissions.filter(({ status }) => status !== undefined).length;
  const work = async (number: number): Promise<void> => {
    // A generator for each caller, so that what it asks does not depend on the others' pace.
    const random = createRandom(seed * 1_000 + number);
    const caller: Caller = { url, random, log, isStopping: () => isStopping };
    for (let task = 1; !isStopping; task += 1) {
      await serveOneTask(caller, planTask(random, `${seed}-${number}-${task}`, customers));
      const count = answered();
      for (const one of waiting.filter(({ at }) => at <= count)) {
        waiting.splice(waiting.indexOf(one), 1);
        one.resolve();
      }
    }
  };
  const working = Promise.all(Array.from({ length: callers }, (_, number) => work(number)));
  return {
    log,
    more: (count) => new Promise((resolve) => waiting.push({ at: answered() + count, resolve })),
    stop: async () => {
      isStopping = true;
      await working;
    },
  };
}

async function serveOneTask(caller: Caller, plan: TaskPlan): Promise<void> {
  const { url, random, log } = caller;
  const taskId = await submit(caller, plan);
  if (taskId === undefined) return;
  const { customer } = plan;
  if (random.chance(15)) await listTasks(url, { customer, pages: 2 }, log);
  // Some callers never come back for what they have paid for.
  const status = random.chance(15) ? undefined : await follow(caller, { customer, taskId });
  const isWanted = status === "completed" ? random.chance(50) : random.chance(5);
  if (isWanted) await downloadTask(url, { customer, taskId }, log);
  if (status !== undefined && random.chance(10)) await deleteTask(url, { customer, taskId }, log);
}

/** Submits, again and again with an idempotency key, until there is a task or a refusal that stays one. */
async function submit(caller: Caller, plan: TaskPlan): Promise<string | undefined> {
  const { url, random, log } = caller;
  const first = random.chance(10) ? await submitTwice(caller, plan) : await submitTask(url, plan, log);
  if (plan.idempotencyKey === undefined) {
    // A relay that is away refuses at once; asking without a pause would only fill the log.
    if (first.taskId === undefined) await pause(random.between(20, 150));
    return first.taskId;
  }
  let last = first;
  for (let retry = 0; retry < retries && isWorthRetry(last) && !caller.isStopping(); retry += 1) {
    await pause(random.between(50, 400));
    last = await submitTask(url, plan, log);
  }
  // Not every caller obeys, and the key must hold.
  if (random.chance(last.isOutcomeUnknown ? 70 : 25)) await submitTask(url, plan, log);
  if (random.chance(10)) await submitOther(caller, plan, last);
  return last.taskId;
}

// As official clients do: not where the answer says that it is of no use.
function isWorthRetry({ status, taskId, isOutcomeUnknown }: Submission): boolean {
  if (taskId !== undefined) return false;
  return status === undefined || (!isOutcomeUnknown && (status === 429 || status >= 500));
}

/** Two requests at once, which with an idempotency key are one task. */
async function submitTwice({ url, log }: Caller, plan: TaskPlan): Promise<Submission> {
  const [first, second] = await Promise.all([submitTask(url, plan, log), submitTask(url, plan, log)]);
  return first.taskId === undefined ? second : first;
}

// API of video tasks: an idempotency key that comes with another request is refused, whoever is asked.
async function submitOther({ url, log }: Caller, plan: TaskPlan, { taskId }: Submission): Promise<void> {
  const other = await submitTask(url, { ...plan, prompt: `${plan.prompt} in winter`, isSound: false }, log);
  if (taskId === undefined || other.status === undefined || other.status >= 500) return;
  if (other.status !== 409) log.problems.push(`${taskId}: its key came with another request: ${other.status}`);
}

/** Polls a task until it has ended, or the caller has had enough of it; gives the last status. */
async function follow(
  { url, random, log, isStopping }: Caller,
  task: { customer: Customer; taskId: string },
): Promise<string | undefined> {
  const polls = random.chance(10) ? random.between(1, 3) : maxPolls;
  for (let poll = 0; poll < polls && !isStopping(); poll += 1) {
    await pause(random.between(50, 250));
    const seen = await pollTask(url, task, log);
    if (seen && endedStatuses.has(seen.status)) return seen.status;
  }
  return undefined;
}
