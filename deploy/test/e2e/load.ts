import { Agent } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { planCall } from "./call-mix.ts";
import { type CallLog, callRelay } from "./caller.ts";
import { createRandom } from "./random.ts";
import type { Customer } from "./world.ts";

export type LoadOptions = {
  url: string;
  customers: readonly Customer[];
  /** Callers at work at the same time; each makes its next call when the last has ended. */
  callers: number;
  seed: number;
};

/** Calls that go on until they are stopped or disposed of. Callers whose call fails note it and go on. */
export type Load = AsyncDisposable & {
  /** The calls that have ended, in the order of their ends. */
  calls: CallLog[];
  /** Resolves when `count` more calls have ended with an answer of whatever sort. */
  more: (count: number) => Promise<void>;
  /** Resolves in the moment in which a caller has the last byte of a whole answer. */
  nextWhole: () => Promise<void>;
  /** Lets the calls under way end; resolves when they have. */
  stop: () => Promise<void>;
};

// A relay that is away, or cannot decide, refuses at once; asking without a pause would only fill the log.
const refusedPauseMs = 100;

export function startLoad({ url, customers, callers, seed }: LoadOptions): Load {
  const agent = new Agent({ keepAlive: true });
  const calls: CallLog[] = [];
  const waiting: { at: number; resolve: () => void }[] = [];
  let whole = Promise.withResolvers<void>();
  let isStopping = false;
  let number = 0;
  let answered = 0;
  const work = async (caller: number): Promise<void> => {
    // A generator for each caller, so that what it asks does not depend on the others' pace.
    const random = createRandom(seed * 1_000 + caller);
    while (!isStopping) {
      number += 1;
      const call = await callRelay(planCall(random, number, customers), { url, agent });
      calls.push(call);
      if (call.outcome === "none" || (call.status ?? 0) >= 500) await pause(refusedPauseMs);
      if (call.outcome !== "none") answered += 1;
      for (const { resolve } of takeDue(waiting, answered)) resolve();
      if (call.outcome !== "whole") continue;
      whole.resolve();
      whole = Promise.withResolvers();
    }
  };
  const working = Promise.all(Array.from({ length: callers }, (_, caller) => work(caller)));
  const stop = async (): Promise<void> => {
    isStopping = true;
    await working;
    agent.destroy();
  };
  return {
    calls,
    more: (count) => new Promise((resolve) => waiting.push({ at: answered + count, resolve })),
    nextWhole: () => whole.promise,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function takeDue<T extends { at: number }>(waiting: T[], count: number): T[] {
  const due = waiting.filter(({ at }) => at <= count);
  for (const one of due) waiting.splice(waiting.indexOf(one), 1);
  return due;
}
