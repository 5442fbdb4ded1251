import { ServiceError } from "#shared/process/errors.ts";
import { createProcess, currentProcess, enter, isOver, outside, type Process } from "./clock.ts";
import type { Random } from "./random.ts";

/** Where a process runs: the same place after a restart. */
export type Node = { name: string; process: Process };

/** How the ways between places behave. */
export type Weather = {
  /** Milliseconds of nearly all messages, and of the slow ones. */
  typicalMs: number;
  slowMs: number;
  slowChance: number;
  /** How often a request or an answer is lost. */
  lossChance: number;
};

export type Network = {
  weather: Weather;
  /** How long a message takes now. */
  delayMs: () => number;
  isLost: () => boolean;
  isCut: (one: string, other: string) => boolean;
  /** Nothing passes between two places for a while; `onHeal` hears of the end. */
  cut: (one: string, other: string) => void;
  heal: (one: string, other: string) => void;
  healAll: () => void;
  onHeal: (listener: () => void) => void;
  random: Random;
};

export const calm: Weather = { typicalMs: 2, slowMs: 0, slowChance: 0, lossChance: 0 };

export function createNetwork(random: Random, weather: Weather): Network {
  const cuts = new Set<string>();
  const listeners: (() => void)[] = [];
  const pair = (one: string, other: string): string => [one, other].toSorted().join("|");
  const healed = (): void => {
    for (const listener of listeners) listener();
  };
  const network: Network = {
    weather,
    random,
    delayMs: () => {
      const { typicalMs, slowMs, slowChance } = network.weather;
      return slowChance > 0 && random.chance(slowChance) ? random.between(0, slowMs) : random.between(0, typicalMs);
    },
    isLost: () => network.weather.lossChance > 0 && random.chance(network.weather.lossChance),
    isCut: (one, other) => cuts.size > 0 && cuts.has(pair(one, other)),
    cut: (one, other) => void cuts.add(pair(one, other)),
    heal: (one, other) => {
      if (cuts.delete(pair(one, other))) healed();
    },
    healAll: () => {
      cuts.clear();
      healed();
    },
    onHeal: (listener) => void listeners.push(listener),
  };
  return network;
}

/** The process that asks. Whatever it asks once it is dead goes nowhere. */
export function asking(): Process {
  return currentProcess() ?? world;
}

const world = createProcess("world");

/** Notes that a process does something the world hears of. False: it is dead, or died of it. */
export function step(process: Process): boolean {
  if (isOver(process)) return false;
  process.onStep?.();
  return !isOver(process);
}

/** Lets something happen later in the world around. */
export function later(work: () => void, delayMs: number): void {
  outside(() => setTimeout(work, delayMs));
}

const stallMs = 500;

/** One way of a connection: what is sent arrives in order, and waits while the way is cut. */
export function createPipe(network: Network, from: string, to: string): (arrive: () => void) => void {
  const queue: (() => void)[] = [];
  let lastAtMs = 0;
  const arrive = (): void => {
    if (network.isCut(from, to)) return later(arrive, stallMs);
    queue.shift()?.();
  };
  return (work) => {
    queue.push(work);
    lastAtMs = Math.max(lastAtMs, Date.now() + network.delayMs());
    later(arrive, Math.max(0, lastAtMs - Date.now()));
  };
}

export type NetworkRequest<T> = {
  network: Network;
  /** Names of both ends, for cuts. */
  from: string;
  to: string;
  timeoutMs: number;
  /** Does the work at the other end; called when the request arrives. It answers by calling `reply` or `fail`. */
  serve: (reply: (value: T) => void, fail: (error: unknown) => void) => void;
};

/**
 * One question and its answer. Each of the two may be late, or lost: the asker then hears after its timeout that
 * nothing is known. What arrives late is done all the same.
 */
export function ask<T>({ network, from, to, timeoutMs, serve }: NetworkRequest<T>): Promise<T> {
  const asker = asking();
  const answer = Promise.withResolvers<T>();
  if (!step(asker)) return answer.promise;
  const timer = setTimeout(() => answer.reject(new ServiceError("unavailable", "no answer in time")), timeoutMs);
  const travel = (work: () => void): void => {
    if (network.isLost() || network.isCut(from, to)) return;
    later(work, network.delayMs());
  };
  const back = (settle: () => void): void =>
    travel(() =>
      enter(asker, () => {
        clearTimeout(timer);
        settle();
      }),
    );
  travel(() =>
    serve(
      (value) => back(() => answer.resolve(value)),
      (error) => back(() => answer.reject(error)),
    ),
  );
  return answer.promise;
}

type Ends = { network: Network; from: string; to: Node };

/** A call of one service by another; a place without a process refuses it. */
export function callService<T>({ network, from, to }: Ends, handle: () => Promise<T>): Promise<T> {
  return ask<T>({
    network,
    from,
    to: to.name,
    timeoutMs: 5_000,
    serve: (reply, fail) => {
      if (isOver(to.process)) return fail(new ServiceError("unavailable", "connection refused"));
      enter(to.process, () => void handle().then(reply, fail));
    },
  });
}
