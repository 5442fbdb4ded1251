import type { Behaviour } from "#fake-provider/behaviour.ts";
import { type CallPlan, wordsOf } from "./caller.ts";
import type { Random } from "./random.ts";
import type { Customer } from "./world.ts";

/** Makes a call of the mix: mostly good ones of all five shapes; some fail, are cut, or are hung up on. */
export function planCall(random: Random, number: number, customers: readonly Customer[]): CallPlan {
  const { accountId, secret } = random.pick(customers);
  const sound = { number, accountId, secret, ...planSound(random) };
  return random.chance(75) ? sound : { ...sound, isSound: false, ...random.pick(spoilers)(sound, random) };
}

type Shape = Omit<CallPlan, "number" | "accountId" | "secret">;

function planSound(random: Random): Shape {
  const dialect = random.pick(["chat", "messages"] as const);
  const isStream = random.chance(70);
  const isBySocket = isStream && dialect === "chat" && random.chance(30);
  const isDear = isStream && random.chance(40);
  const words = isDear ? random.between(20, 70) : random.between(3, 40);
  const behaviour: Behaviour = {
    text: wordsOf(words),
    headersAfterMs: random.between(0, 120),
    gapMs: random.between(0, 25),
    usage: planClaim(random, dialect),
  };
  const model = isDear ? "dear-model" : "cheap-model";
  return { dialect, isStream, isBySocket, model, maxTokens: 100, behaviour, isSound: true };
}

// More input than the relay estimates from the bytes, so that the claim is above whatever a cut call may cost.
function planClaim(random: Random, dialect: CallPlan["dialect"]): NonNullable<Behaviour["usage"]> {
  return {
    inputTokens: random.between(600, 3_000),
    cacheReadTokens: random.between(0, 500),
    cacheWrite5mTokens: random.between(0, 100),
    cacheWrite1hTokens: dialect === "messages" ? random.between(0, 100) : 0,
    outputTokens: random.between(1, 200),
    reasoningTokens: random.between(0, 50),
  };
}

type Spoiler = (plan: CallPlan, random: Random) => Partial<CallPlan>;

export type DearStream = Pick<CallPlan, "dialect"> & { words: number } & Pick<Behaviour, "gapMs" | "fault">;

/** Makes a streamed call that costs 0.001 USD a word. */
export function planDearStream({ accountId, secret }: Customer, { dialect, words, ...manner }: DearStream): CallPlan {
  const usage = { inputTokens: 1_000, outputTokens: words };
  const behaviour = { text: wordsOf(words), usage, ...manner };
  const shape = { dialect, isStream: true, model: "dear-model", maxTokens: 200, isSound: true };
  return { number: 0, accountId, secret, behaviour, ...shape };
}

type FaultKind = NonNullable<Behaviour["fault"]>["kind"];

function withFault({ behaviour }: CallPlan, random: Random, kind: FaultKind): Partial<CallPlan> {
  return { behaviour: { ...behaviour, fault: { kind, afterChunks: random.between(0, 30) } } };
}

// An error event in a whole answer would leave its connection open without a word, for a minute.
const breakStream: Spoiler = (plan, random) =>
  withFault(plan, random, random.pick(plan.isStream ? (["half-frame", "error-event"] as const) : (["cut"] as const)));

const hangUp: Spoiler = (_plan, random) => ({ hangUpAfterWords: random.between(1, 20) });

const spoilers: Spoiler[] = [
  (plan, random) =>
    withFault(plan, random, random.pick(["cut", "reset", "end-early", "reset-before-headers"] as const)),
  (plan, random) => withFault(plan, random, random.pick(["cut", "reset", "end-early"] as const)),
  breakStream,
  breakStream,
  ({ behaviour }, random) => ({ behaviour: { ...behaviour, status: random.pick([400, 429, 500, 529]) } }),
  hangUp,
  hangUp,
  () => ({ secret: "sk-nobody-has-this-key" }),
  () => ({ model: "no-such-model" }),
];
