import { execFileSync } from "node:child_process";
import { availableParallelism } from "node:os";

/** Where processes run: the one that is measured on a core of its own, everything else on another. */
export type Cores = {
  isPinned: boolean;
  /** Puts the command of a process that is measured in front of the core. */
  measured: (command: string, args: string[]) => { command: string; args: string[] };
  /** Moves a running process, with all its threads, to the measured core. */
  moveToMeasured: (pid: number) => void;
};

// Part of util-linux; where it is missing, nothing is pinned and the bench says so.
const pinner = "taskset";
const measuredCore = "0";
const otherCore = "1";
const sharedCores = "0,1";

/** Moves this process, and with it all that it will start, to the other core. Does nothing without taskset or cores. */
export function claimCores(): Cores {
  const isPinned = availableParallelism() > 1 && setCores(otherCore, process.pid);
  return {
    isPinned,
    measured: (command, args) =>
      isPinned ? { command: pinner, args: ["-c", measuredCore, command, ...args] } : { command, args },
    moveToMeasured: (pid) => {
      if (isPinned && !setCores(measuredCore, pid)) throw new Error(`process ${pid} cannot be moved to a core`);
    },
  };
}

/** Keeps this process, and all that it will start, on two cores. False when there are fewer, or no taskset. */
export function shareTwoCores(): boolean {
  return availableParallelism() > 1 && setCores(sharedCores, process.pid);
}

function setCores(cores: string, pid: number): boolean {
  try {
    execFileSync(pinner, ["-acp", cores, String(pid)], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
