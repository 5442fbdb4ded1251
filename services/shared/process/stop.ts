// Kept beside AbortSignal and node:timers/promises: those reject at an abort, and their timers are not the global ones,
// which the simulation replaces by virtual time.

/** A request to stop that several loops can wait for. */
export type Stop = {
  stop: () => void;
  isStopped: () => boolean;
  /** For a single wait. Each race with it keeps references until the stop; see `unlessStopped`. */
  stopped: Promise<void>;
  /** Calls the listener at the stop, or at once if stopped; the returned function removes it. */
  onStop: (listener: () => void) => () => void;
};

export function createStop(): Stop {
  const { promise, resolve } = Promise.withResolvers<void>();
  const listeners = new Set<() => void>();
  let isStopped = false;
  return {
    stop: () => {
      isStopped = true;
      for (const listener of listeners) listener();
      listeners.clear();
      resolve();
    },
    isStopped: () => isStopped,
    stopped: promise,
    onStop: (listener) => {
      if (isStopped) listener();
      else listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** Waits for work, at most until the stop. Rejects as the work does. */
export async function unlessStopped(work: Promise<unknown>, stop: Stop): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const forget = stop.onStop(resolve);
  try {
    await Promise.race([work, promise]);
  } finally {
    forget();
  }
}

/** Waits, at most until the stop. */
export async function pause(waitMs: number, stop: Stop): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const waited = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, waitMs);
  });
  await unlessStopped(waited, stop);
  clearTimeout(timer);
}
