import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { compileCache } from "./config.ts";
import { forget, guard } from "./watchdog.ts";

const keptLines = 30;

/** What to start, and how it ends. */
export type ProcessPlan = {
  command: string;
  args: string[];
  /** Replaces the environment of this process. */
  environment?: NodeJS.ProcessEnv;
  folder?: string;
  user?: SystemUser | undefined;
  /** Sent to it when this process dies without ending it. */
  orphanSignal: NodeJS.Signals;
  /** Called for each line of its standard output and error. */
  onLine?: ((line: string) => void) | undefined;
};

export type SystemUser = { uid: number; gid: number };

export type ChildProcess = {
  pid: number;
  /** Resolves when it has ended: its exit code or signal in words. */
  ended: Promise<string>;
  isRunning: () => boolean;
  /** The last lines that it wrote, oldest first, at most 30. */
  lastLines: () => string[];
  /** Sends a signal and waits until the process has ended; after `graceMs` it is killed. */
  end: (signal: NodeJS.Signals, graceMs?: number) => Promise<void>;
};

// Tests start programs by the hundred; all but the first find their modules compiled.
const compiled = compileCache();

/**
 * Starts a process in a process group of its own, so that Ctrl-C in a terminal reaches only the one who decides the
 * order of stopping. It does not outlive this process.
 */
export async function startProcess(plan: ProcessPlan): Promise<ChildProcess> {
  const child = spawn(plan.command, plan.args, {
    cwd: plan.folder,
    env: plan.environment && { ...(plan.command === process.execPath && compiled), ...plan.environment },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    ...plan.user,
  });
  await once(child, "spawn");
  const pid = child.pid as number;
  guard(pid, plan.orphanSignal);

  let isRunning = true;
  const ended = new Promise<string>((resolve) => {
    child.once("exit", (code, signal) => {
      isRunning = false;
      forget(pid);
      resolve(signal ? `ended by ${signal}` : `exit code ${code}`);
    });
  });
  const lines: string[] = [];
  const keep = (line: string): void => {
    lines.push(line);
    if (lines.length > keptLines) lines.shift();
    plan.onLine?.(line);
  };
  readLines(child.stdout, keep);
  readLines(child.stderr, keep);

  return {
    pid,
    ended,
    isRunning: () => isRunning,
    lastLines: () => [...lines],
    end: async (signal, graceMs = 10_000) => {
      if (isRunning) child.kill(signal);
      const force = setTimeout(() => child.kill("SIGKILL"), graceMs);
      await ended;
      clearTimeout(force);
    },
  };
}

function readLines(stream: Readable, onLine: (line: string) => void): void {
  stream.on("error", () => undefined);
  createInterface({ input: stream }).on("line", onLine);
}
