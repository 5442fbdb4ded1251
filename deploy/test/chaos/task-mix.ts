import { type VideoBehaviour, videoPrompt } from "#fake-provider/videos-behaviour.ts";
import type { Random } from "../e2e/random.ts";
import type { TaskPlan } from "../e2e/task-requests.ts";
import type { Customer } from "../e2e/world.ts";
import { hastyMs, taskLengths, type TaskModel, taskModels, taskSizes } from "./task-models.ts";

/** Makes a submission of the mix: mostly ones that are taken, with every end and every fault of a provider. */
export function planTask(random: Random, number: string, customers: readonly Customer[]): TaskPlan {
  const isTaken = random.chance(75);
  const { behaviour, model } = isTaken ? planTaken(random) : planFault(random);
  return {
    customer: random.pick(customers),
    prompt: videoPrompt(behaviour, `task ${number}`),
    model,
    seconds: random.pick(taskLengths),
    size: random.pick(taskSizes),
    isForm: random.chance(50),
    hasPicture: random.chance(15),
    idempotencyKey: random.chance(60) ? `key-${number}` : undefined,
    isSound: isTaken,
  };
}

type Manner = { behaviour: VideoBehaviour; model: string };

/** What the provider does with a submission whose answer nobody gets. */
const silentSubmits: ReadonlySet<VideoBehaviour["submit"]> = new Set(["accept-then-cut", "garbage"]);

/** Whether the provider kept its answer to a submission back. */
export function isAnswerLost({ submit }: VideoBehaviour, model: string): boolean {
  const { isHasty } = taskModels.find((one) => one.model === model) ?? { isHasty: false };
  return silentSubmits.has(submit) || (submit === "slow" && isHasty);
}

const common = (random: Random): VideoBehaviour => ({
  polls: random.between(0, 3),
  submitMs: random.chance(50) ? random.between(0, 150) : 0,
  pollMs: random.chance(50) ? random.between(0, 60) : 0,
});

const patient = taskModels.filter(({ isBrief, isHasty }) => !isBrief && !isHasty);
const brief = taskModels.filter(({ isBrief }) => isBrief);
const openai = patient.filter(({ api }) => api === "openai");
const gemini = patient.filter(({ api }) => api === "gemini");

type Ending = (random: Random) => { behaviour: VideoBehaviour; among: readonly TaskModel[] };

const completes: Ending = (random) => ({
  behaviour: { bytes: random.between(32, 100_000), ...(random.chance(20) && { redirect: "own" as const }) },
  among: taskModels.filter(({ isBrief }) => !isBrief),
});
const fails: Ending = (random) => {
  const isOpenai = random.chance(50);
  const failureCode = isOpenai ? "video_generation_failed" : random.pick(["INTERNAL", "RESOURCE_EXHAUSTED"]);
  return { behaviour: { end: "failed", failureCode }, among: isOpenai ? openai : gemini };
};
const failsAtPolls: Ending = (random) => ({
  behaviour: {
    pollFaults: [0, 500, 429, 503].slice(0, random.between(1, 4)),
    end: random.pick(["completed", "failed"] as const),
  },
  among: patient,
});

// Each as often as it stands here.
const endings: readonly Ending[] = [
  completes,
  completes,
  completes,
  fails,
  fails,
  failsAtPolls,
  () => ({ behaviour: { end: "filtered" }, among: patient }),
  () => ({ behaviour: { end: "never" }, among: brief }),
  () => ({ behaviour: { backwards: true, polls: 4 }, among: openai }),
  () => ({ behaviour: { lost: true }, among: patient }),
  () => ({ behaviour: { deliveredSeconds: 3 }, among: openai }),
  () => ({ behaviour: { deliveredSeconds: 3 }, among: openai }),
  () => ({ behaviour: { deliveredSeconds: 12 }, among: openai }),
  () => ({ behaviour: { goneAfter: true }, among: patient }),
  // For longer than nobody may say anything of a submission.
  () => ({ behaviour: { submitMs: 4_000 }, among: patient }),
];

function planTaken(random: Random): Manner {
  const { behaviour, among } = random.pick(endings)(random);
  const { model, isHasty } = random.pick(among);
  const own = { ...common(random), ...behaviour };
  return { behaviour: isHasty ? { ...own, submitMs: 0 } : own, model };
}

function planFault(random: Random): Manner {
  const kinds = ["accept-then-cut", "cut", "reject", "rate", "account", "unavailable", "error", "garbage"] as const;
  const isSlow = random.chance(15);
  const submit = isSlow ? "slow" : random.pick(kinds);
  const hasty = taskModels.filter(({ isHasty }) => isHasty);
  const { model } = random.pick(isSlow ? hasty : taskModels);
  return { behaviour: { ...common(random), submit, ...(isSlow && { submitMs: hastyMs * 3 }) }, model };
}
