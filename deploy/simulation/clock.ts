import { AsyncLocalStorage } from "node:async_hooks";
import * as fakeTimers from "@sinonjs/fake-timers";

/**
 * A process of the simulated system. Whatever is started within it, timers and what follows a promise, belongs to it:
 * it stops with the process, and waits while the process is paused.
 */
export type Process = {
  name: string;
  state: "running" | "paused" | "resuming" | "dead";
  timers: Set<unknown>;
  /** What came while it was paused, in order. */
  backlog: (() => void)[];
  /** Told at each step; may kill the process. */
  onStep: (() => void) | undefined;
};

/** Virtual time. Nothing happens by itself: `step` lets the next thing happen. */
export type VirtualClock = {
  /** Begins anew at an instant, without timers. */
  reset: (nowMs: number) => void;
  /** Lets the next timer fire and everything that follows from it at once. False when there is none. */
  step: () => Promise<boolean>;
  /** Virtual milliseconds since 1970. */
  nowMs: () => number;
  /** Moves far ahead; each timer that is due fires once. */
  jump: (byMs: number) => void;
};

const context = new AsyncLocalStorage<Process>();

export function createProcess(name: string): Process {
  return { name, state: "running", timers: new Set(), backlog: [], onStep: undefined };
}

/** Runs something as part of a process: now, after its pause, or never. */
export function enter(process: Process, work: () => void): void {
  if (process.state === "dead") return;
  if (process.state === "running") run(process, work);
  else process.backlog.push(work);
}

function run(process: Process, work: () => void): void {
  process.onStep?.();
  if (!isOver(process)) context.run(process, work);
}

/** Whether a process is dead; asked anew, for it may have died since. */
export function isOver(process: Process): boolean {
  return process.state === "dead";
}

/** The process that runs now; undefined for the world around. */
export function currentProcess(): Process | undefined {
  return context.getStore();
}

/** Runs something as part of the world around, whoever caused it. */
export function outside<T>(work: () => T): T {
  return currentProcess() ? context.exit(work) : work();
}

/** Ends a process at once, as kill -9 does. */
export function kill(process: Process): void {
  process.state = "dead";
  process.backlog = [];
  for (const timer of process.timers) clearTimeout(timer as NodeJS.Timeout);
  process.timers.clear();
}

/** Stops a process as SIGSTOP does. */
export function pause(process: Process): void {
  if (!isOver(process)) process.state = "paused";
}

/** Lets it go on: first with what has waited, one after the other, while what comes waits behind it. */
export function resume(process: Process): void {
  if (process.state !== "paused") return;
  process.state = "resuming";
  const next = (): void => {
    if (process.state !== "resuming") return;
    const work = process.backlog.shift();
    if (!work) {
      process.state = "running";
      return;
    }
    run(process, work);
    outside(() => setTimeout(next, 0));
  };
  outside(() => setTimeout(next, 0));
}

type Schedule = (work: (...values: unknown[]) => void, delayMs?: number, ...values: unknown[]) => unknown;

/** Puts virtual time in the place of the real one, for all of this process and for good. */
export function installClock(): VirtualClock {
  const realImmediate = setImmediate;
  const clock = fakeTimers.install({
    now: 0,
    toFake: [
      "setTimeout",
      "clearTimeout",
      "setInterval",
      "clearInterval",
      "setImmediate",
      "clearImmediate",
      "Date",
      "performance",
    ],
  });
  const global = globalThis as unknown as Record<string, Schedule>;
  global["setTimeout"] = once(global["setTimeout"] as Schedule);
  global["setImmediate"] = atOnce(global["setImmediate"] as Schedule);
  global["setInterval"] = repeated(global["setInterval"] as Schedule);
  for (const name of ["clearTimeout", "clearInterval"]) global[name] = unlessNever(global[name] as Schedule);
  return {
    reset: (nowMs) => {
      clock.reset();
      clock.setSystemTime(nowMs);
    },
    step: async () => {
      if (clock.countTimers() === 0) return false;
      clock.next();
      await new Promise<void>((resolve) => void realImmediate(resolve));
      return true;
    },
    nowMs: () => Date.now(),
    jump: (byMs) => void clock.jump(byMs),
  };
}

// What a dead process gets for a timer.
const never = { ref: () => never, unref: () => never, hasRef: () => false } as unknown as (
  ...values: unknown[]
) => void;

function unlessNever(clear: Schedule): Schedule {
  return (timer) => (timer === never ? undefined : clear(timer));
}

function once(schedule: Schedule): Schedule {
  return (work, ...rest) => {
    const owner = currentProcess();
    if (!owner) return schedule(work, ...rest);
    if (isOver(owner)) return never;
    const timer = schedule(
      (...values) => {
        owner.timers.delete(timer);
        enter(owner, () => work(...values));
      },
      ...rest,
    );
    owner.timers.add(timer);
    return timer;
  };
}

function atOnce(schedule: Schedule): Schedule {
  return (work, ...rest) => {
    const owner = currentProcess();
    return owner ? schedule((...values) => enter(owner, () => work(...values)), ...rest) : schedule(work, ...rest);
  };
}

function repeated(schedule: Schedule): Schedule {
  return (work, ...rest) => {
    const owner = currentProcess();
    if (!owner) return schedule(work, ...rest);
    if (isOver(owner)) return never;
    let isWaiting = false;
    const timer = schedule(
      (...values) => {
        // A paused process finds one tick of an interval when it goes on, however many it has missed.
        if (isWaiting) return;
        isWaiting = true;
        enter(owner, () => {
          isWaiting = false;
          work(...values);
        });
      },
      ...rest,
    );
    owner.timers.add(timer);
    return timer;
  };
}
