import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { startProcess, type ChildProcess, type ProcessPlan } from "./child-process.ts";
import { freePort, isPortFree } from "./free-port.ts";

const readyTimeoutMs = 30_000;
const launchAttempts = 8;

/** How to run one kind of store in one data folder. */
export type StoreProgram = {
  name: string;
  /** Makes the data folder ready; runs once, before the first start. */
  prepare: () => Promise<void>;
  plan: (port: number) => ProcessPlan;
  url: (port: number) => string;
  /** Whether this very process serves on the port; false or a throw means not yet. */
  isServing: (port: number, pid: number) => Promise<boolean>;
  /** Ends it in good order. */
  stopSignal: NodeJS.Signals;
};

/** A running store. Disposal ends it in good order and keeps its folder. */
export type Store = AsyncDisposable & {
  name: string;
  url: string;
  port: number;
  readonly pid: number;
  /** Resolves when the process that runs now has ended. */
  readonly ended: Promise<string>;
  isRunning: () => boolean;
  /** Sends a signal, SIGKILL when none is named, and waits for the end of the process and of those it has started. */
  kill: (signal?: NodeJS.Signals) => Promise<void>;
  /** Starts it again on the same port with the same data; one that still runs is first ended in good order. */
  restart: () => Promise<void>;
};

/** Starts a store and waits until it answers. Without `preferredPort`, or when that is taken, on any free port. */
export async function startStore(program: StoreProgram, preferredPort?: number): Promise<Store> {
  await program.prepare();
  const first = await launchAnywhere(program, preferredPort);
  const { port } = first;
  let current = first.process;
  return {
    name: program.name,
    url: program.url(port),
    port,
    get pid() {
      return current.pid;
    },
    get ended() {
      return current.ended;
    },
    isRunning: () => current.isRunning(),
    kill: (signal = "SIGKILL") => endWithChildren(current, signal),
    restart: async () => {
      await current.end(program.stopSignal);
      current = await launchAgain(program, port);
    },
    [Symbol.asyncDispose]: () => current.end(program.stopSignal),
  };
}

const childrenEndMs = 10_000;

/** Processes that a process has started itself, where the system tells (Linux). */
function childrenOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  } catch {
    return [];
  }
}

/** Whether a process still works: neither gone nor ended and only waiting to be noticed. */
function isAtWork(pid: string): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

// Sessions of PostgreSQL outlive a killed server by a moment, in which they would still answer.
async function endWithChildren(store: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const children = childrenOf(store.pid);
  await store.end(signal);
  const deadlineMs = performance.now() + childrenEndMs;
  while (children.some(isAtWork) && performance.now() < deadlineMs) await pause(5);
}

/** It runs but does not answer, which another port would not cure. */
class SilentStoreError extends Error {}

type Launched = { process: ChildProcess; port: number };

// Another process may take the port between the choice and the bind; then the store exits and a new port is tried.
async function launchAnywhere(program: StoreProgram, preferredPort: number | undefined): Promise<Launched> {
  let failure: unknown;
  for (let attempt = 0; attempt < launchAttempts; attempt += 1) {
    const isPreferred = attempt === 0 && preferredPort !== undefined && (await isPortFree(preferredPort));
    const port = isPreferred ? preferredPort : await freePort();
    try {
      return { process: await launch(program, port), port };
    } catch (error) {
      failure = error;
      if (error instanceof SilentStoreError) break;
    }
  }
  throw failure;
}

// Right after a SIGKILL the children of a store may still hold its port or its data for a moment.
async function launchAgain(program: StoreProgram, port: number): Promise<ChildProcess> {
  let failure: unknown;
  for (let attempt = 0; attempt < launchAttempts; attempt += 1) {
    try {
      return await launch(program, port);
    } catch (error) {
      failure = error;
      await pause(100 * 2 ** attempt);
    }
  }
  throw failure;
}

async function launch(program: StoreProgram, port: number): Promise<ChildProcess> {
  const process = await startProcess(program.plan(port));
  const deadlineMs = performance.now() + readyTimeoutMs;
  let reason = "no answer yet";
  while (process.isRunning() && performance.now() < deadlineMs) {
    try {
      if (await program.isServing(port, process.pid)) return process;
    } catch (error) {
      reason = String(error);
    }
    await pause(10);
  }
  const isSilent = process.isRunning();
  await process.end("SIGKILL");
  const outcome = isSilent ? `no answer within ${readyTimeoutMs / 1_000} s` : await process.ended;
  const output = process.lastLines().join("\n  ");
  const words = `${program.name} did not start on port ${port} (${outcome}; ${reason}):\n  ${output}`;
  throw isSilent ? new SilentStoreError(words) : new Error(words);
}
