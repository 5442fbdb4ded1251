/** A wish to end that several loops can wait for. */
export type Stop = {
  stop: () => void;
  isStopped: () => boolean;
  /** For what waits once. Each race with it leaves something of itself there until the stop: see `unlessStopped`. */
  stopped: Promise<void>;
  /** Calls at the stop, or at once when that has been; the result takes it back. */
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

/** Waits for some work, but no longer than until the stop. Rejects as the work does. */
export async function unlessStopped(work: Promise<unknown>, stop: Stop): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const forget = stop.onStop(resolve);
  try {
    await Promise.race([work, promise]);
  } finally {
    forget();
  }
}

/** Waits, but no longer than until the stop. */
export async function pause(waitMs: number, stop: Stop): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const waited = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, waitMs);
  });
  await unlessStopped(waited, stop);
  clearTimeout(timer);
}
