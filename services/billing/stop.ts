/** A wish to end that several loops can wait for. */
export type Stop = { stop: () => void; isStopped: () => boolean; stopped: Promise<void> };

export function createStop(): Stop {
  const { promise, resolve } = Promise.withResolvers<void>();
  let isStopped = false;
  return {
    stop: () => {
      isStopped = true;
      resolve();
    },
    isStopped: () => isStopped,
    stopped: promise,
  };
}

/** Waits, but no longer than until the stop. */
export async function pause(waitMs: number, stop: Stop): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const waited = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, waitMs);
  });
  await Promise.race([waited, stop.stopped]);
  clearTimeout(timer);
}
