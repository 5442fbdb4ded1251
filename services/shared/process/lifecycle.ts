import type { Logger } from "./log.ts";

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once with code 1. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (isStopping) process.exit(1);
      isStopping = true;
      resolve(signal);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
}

const faultDrainMs = 10_000;

/**
 * Resolves when a service must stop: at a signal, or at an uncaught exception, after which the state of the process is
 * unknown. After an exception it has ten seconds to finish what it can and exits with code 1, to be restarted.
 */
export function stopOrFault(log: Logger): Promise<string> {
  const fault = new Promise<string>((resolve) => {
    // Unhandled rejections arrive here as well.
    process.on("uncaughtException", (error) => {
      log.fatal({ err: error }, "uncaught exception, shutting down");
      process.exitCode = 1;
      setTimeout(() => process.exit(1), faultDrainMs).unref();
      resolve("fault");
    });
  });
  return Promise.race([stopSignal(), fault]);
}

/** The time to drain; shorter after a fault, so that draining ends before the exit. */
export function drainMsAfter(reason: string, drainMs: number): number {
  return reason === "fault" ? Math.min(drainMs, faultDrainMs / 2) : drainMs;
}

/** Runs `work` repeatedly, `intervalMs` after the previous run ended. Failures are logged. */
export function every(intervalMs: number, work: () => Promise<void>, log: Logger): AsyncDisposable {
  let isStopped = false;
  let wake: (() => void) | undefined;
  const loop = async (): Promise<void> => {
    while (!isStopped) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, intervalMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      if (isStopped) return;
      try {
        await work();
      } catch (error) {
        log.error({ err: error }, "periodic work failed");
      }
    }
  };
  const running = loop();
  return {
    [Symbol.asyncDispose]: async () => {
      isStopped = true;
      wake?.();
      await running;
    },
  };
}
