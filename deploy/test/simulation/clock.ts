import { AsyncLocalStorage } from "node:async_hooks";
import { createTimers, type Timer, type Timers } from "./timers.ts";

/**
 * A process of the simulated system. Whatever is started within it, timers and what follows a promise, belongs to it:
 * it stops with the process, and waits while the process is paused.
 */
export type Process = {
  name: string;
  state: "running" | "paused" | "resuming" | "dead";
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
  step: () => boolean;
  /** Virtual milliseconds since 1970. */
  nowMs: () => number;
  /** Moves far ahead; each timer that is due fires once. */
  jump: (byMs: number) => void;
};

const context = new AsyncLocalStorage<Process>();

export function createProcess(name: string): Process {
  return { name, state: "running", backlog: [], onStep: undefined };
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

type Work = (...values: unknown[]) => void;

/** What is given for a timer: it can be cleared, and takes the calls that a real one does. */
type Handle = { timer: Timer | undefined; ref: () => Handle; unref: () => Handle; hasRef: () => boolean };

/** Puts virtual time in the place of the real one, for all of this process and for good. */
export function installClock(): VirtualClock {
  const timers = createTimers();
  const time = { nowMs: 0, beganMs: 0, number: 0, isInStep: false };
  setGlobals(timers, time);
  const drain = findDrain();
  return {
    reset: (nowMs) => {
      timers.clear();
      time.nowMs = nowMs;
      time.beganMs = nowMs;
    },
    step: () => {
      const timer = timers.take();
      if (!timer) return false;
      time.nowMs = timer.atMs;
      if (timer.everyMs !== undefined) timers.add(Object.assign(timer, { atMs: timer.atMs + timer.everyMs }));
      time.isInStep = true;
      timer.work();
      time.isInStep = false;
      drain();
      return true;
    },
    nowMs: () => time.nowMs,
    jump: (byMs) => {
      time.nowMs += byMs;
      timers.delay(time.nowMs);
    },
  };
}

/**
 * Runs all that follows from promises, at once. Node does this between two turns of its event loop; a turn of its own
 * for each step would take three times as long.
 */
function findDrain(): () => void {
  const { _tickCallback: drain } = process as unknown as { _tickCallback?: () => void };
  if (!drain) throw new Error("this version of Node cannot run what follows from promises on demand");
  return drain;
}

type Time = { nowMs: number; beganMs: number; number: number; isInStep: boolean };

function setGlobals(timers: Timers, time: Time): void {
  const RealDate = Date;
  const schedule = createSchedule(timers, time);
  const clear = (handle: Handle | undefined): void => {
    if (handle) handle.timer = undefined;
  };
  const setImmediate = (work: Work, ...values: unknown[]) => schedule({ work, delayMs: 0, values, isImmediate: true });
  const setTimeout = (work: Work, delayMs = 0, ...values: unknown[]) => schedule({ work, delayMs, values });
  const setInterval = (work: Work, delayMs = 0, ...values: unknown[]) => {
    const everyMs = Math.max(1, delayMs);
    return schedule({ work, delayMs, values, everyMs });
  };
  Object.assign(globalThis, {
    setImmediate,
    setTimeout,
    setInterval,
    clearImmediate: clear,
    clearTimeout: clear,
    clearInterval: clear,
    Date: class extends RealDate {
      constructor(...values: unknown[]) {
        super(...((values.length === 0 ? [time.nowMs] : values) as [number]));
      }
      static override now(): number {
        return time.nowMs;
      }
    },
  });
  performance.now = () => time.nowMs - time.beganMs;
}

type ScheduledWork = { work: Work; delayMs: number; values: unknown[]; isImmediate?: boolean; everyMs?: number };

function createSchedule(timers: Timers, time: Time): (scheduled: ScheduledWork) => Handle {
  return ({ work, delayMs, values, isImmediate = false, everyMs }) => {
    const owner = currentProcess();
    const handle: Handle = { timer: undefined, ref: () => handle, unref: () => handle, hasRef: () => true };
    if (owner && isOver(owner)) return handle;
    let isWaiting = false;
    const fire = (): void => {
      if (!owner) return work(...values);
      // A paused process finds one tick of an interval when it goes on, however many it has missed.
      if (isWaiting) return;
      isWaiting = everyMs !== undefined;
      enter(owner, () => {
        isWaiting = false;
        work(...values);
      });
    };
    time.number += 1;
    // A timer that is set by a timer, for at once, comes after what is there for this instant.
    const minMs = time.isInStep && !isImmediate ? 1 : 0;
    const timer: Timer = {
      atMs: time.nowMs + Math.max(minMs, Math.floor(delayMs)),
      isImmediate,
      number: time.number,
      everyMs,
      work: fire,
      isOver: () => handle.timer !== timer || owner?.state === "dead",
    };
    handle.timer = timer;
    timers.add(timer);
    return handle;
  };
}
