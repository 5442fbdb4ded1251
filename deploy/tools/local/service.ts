import { get } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { startProcess, type ChildProcess } from "#shared/testing/child-process.ts";
import { runnable } from "./bundles.ts";

const readyTimeoutMs = 60_000;
const restartLimit = 6;
const steadyMs = 60_000;

export type ServicePlan = {
  name: string;
  /** What callers use: an HTTP URL or a gRPC `host:port`. */
  url: string;
  /** Base URL of its admin port, with /readyz; the demo upstream answers there too. */
  opsUrl: string;
  /** Absolute path of the TypeScript file to run. */
  entry: string;
  environment: NodeJS.ProcessEnv;
  onLine: (line: string) => void;
  /** How long it may take to stop before it is killed. */
  stopGraceMs: number;
  /** Pause before the first new start after a crash, 250 ms; each further one is twice as long. */
  firstPauseMs?: number;
};

/** A service that runs. Disposal asks it to stop and lets it drain. */
export type Service = AsyncDisposable & {
  name: string;
  url: string;
  opsUrl: string;
  readonly pid: number;
  isRunning: () => boolean;
  lastLines: () => string[];
  /** Resolves when the process that runs now has ended. */
  readonly ended: Promise<string>;
  /** Sends a signal, SIGKILL when none is named, and waits for the end. */
  kill: (signal?: NodeJS.Signals) => Promise<void>;
  /**
   * Starts it again with the same ports and waits until it is ready; one that runs is first asked to stop. From then on
   * these variables have other values.
   */
  restart: (change?: Record<string, string>) => Promise<void>;
  /** Waits until /readyz says yes; throws with the reasons and the last lines of the log after 60 s. */
  ready: () => Promise<void>;
  /** From now on an end that nobody asked for is followed by a new start, with growing pauses, 6 times in a row. */
  keepAlive: (say: (text: string) => void) => void;
};

/** Starts a service with the Node that runs this; does not wait until it is ready. */
export async function startService(planned: ServicePlan): Promise<Service> {
  const { stopGraceMs } = planned;
  let plan = planned;
  let current = await spawnService(plan);
  let isStopping = false;
  const stop = async (): Promise<void> => {
    isStopping = true;
    await current.end("SIGTERM", stopGraceMs);
  };
  const guardOnce = async (): Promise<string> => {
    const outcome = await current.ended;
    return isStopping ? "" : outcome;
  };
  const start = async (): Promise<void> => {
    if (isStopping) return;
    current = await spawnService(plan);
    if (isStopping) await current.end("SIGTERM", stopGraceMs);
  };
  return {
    name: plan.name,
    url: plan.url,
    opsUrl: plan.opsUrl,
    get pid() {
      return current.pid;
    },
    get ended() {
      return current.ended;
    },
    isRunning: () => current.isRunning(),
    lastLines: () => current.lastLines(),
    kill: (signal = "SIGKILL") => current.end(signal, stopGraceMs),
    restart: async (change = {}) => {
      plan = { ...plan, environment: { ...plan.environment, ...change } };
      await current.end("SIGTERM", stopGraceMs);
      current = await spawnService(plan);
      await waitReady(plan, current);
    },
    ready: () => waitReady(plan, current),
    keepAlive: (say) => void superviseCrashes({ plan, guardOnce, start, say }),
    [Symbol.asyncDispose]: stop,
  };
}

function spawnService({ entry, environment, onLine }: ServicePlan): Promise<ChildProcess> {
  const args = [runnable(entry, environment)];
  return startProcess({ command: process.execPath, args, environment, orphanSignal: "SIGTERM", onLine });
}

async function waitReady(plan: ServicePlan, child: ChildProcess): Promise<void> {
  const deadlineMs = performance.now() + readyTimeoutMs;
  let reasons = "no answer yet";
  while (child.isRunning() && performance.now() < deadlineMs) {
    const answer = await askReady(plan.opsUrl);
    if (answer.isReady) return;
    reasons = answer.reasons;
    await pause(30);
  }
  const state = child.isRunning() ? `is not ready after ${readyTimeoutMs / 1_000} s` : `stopped (${await child.ended})`;
  const output = child.lastLines().join("\n  ");
  throw new Error(`${plan.name} ${state}: ${reasons}\nIts last lines:\n  ${output}`);
}

type ReadyAnswer = { isReady: boolean; reasons: string };

// A connection of its own each time: none may linger when the service is killed.
function askReady(opsUrl: string): Promise<ReadyAnswer> {
  return new Promise((resolve) => {
    const refuse = (error: Error): void => resolve({ isReady: false, reasons: error.message });
    const question = get(`${opsUrl}/readyz`, { agent: false, timeout: 2_000 }, (answer) => {
      let reasons = "";
      answer.setEncoding("utf8").on("data", (text: string) => (reasons += text));
      answer.on("error", refuse);
      answer.on("end", () => resolve({ isReady: answer.statusCode === 200, reasons: reasons.trim() }));
    });
    question.on("timeout", () => question.destroy(new Error("no answer within 2 s")));
    question.on("error", refuse);
  });
}

type Supervision = {
  plan: ServicePlan;
  /** Waits for the end of the process that runs now; empty when it was asked to end. */
  guardOnce: () => Promise<string>;
  start: () => Promise<void>;
  say: (text: string) => void;
};

async function superviseCrashes({ plan, guardOnce, start, say }: Supervision): Promise<void> {
  const { name, firstPauseMs = 250 } = plan;
  let crashes = 0;
  for (;;) {
    const startedAt = performance.now();
    const outcome = await guardOnce();
    if (outcome === "") return;
    crashes = performance.now() - startedAt > steadyMs ? 1 : crashes + 1;
    if (crashes > restartLimit) return say(`${name} ended again (${outcome}); it is given up. Ctrl-C stops the rest.`);
    const pauseMs = firstPauseMs * 2 ** (crashes - 1);
    say(`${name} ended (${outcome}); starting it again in ${pauseMs} ms`);
    await pause(pauseMs, undefined, { ref: false });
    try {
      await start();
    } catch (error) {
      say(`${name} could not be started: ${String(error)}`);
    }
  }
}
