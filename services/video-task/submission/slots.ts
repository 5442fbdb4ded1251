import { ServiceError } from "#shared/process/errors.ts";
import { createStop, pause, type Stop } from "#shared/process/stop.ts";

/** What one process has under way for callers that wait. Disposal refuses more and waits for it. */
export type Places = AsyncDisposable & {
  /** Takes a place until it is disposed; `bytes` is what it keeps in memory. `unavailable` when all are taken. */
  take: (bytes: number) => Disposable;
  stop: Stop;
};

export type PlacesLimits = { maxCalls: number; maxBytes: number; drainMs: number };

// Relays cut a message at 16 MiB; pictures are kept twice while they are sent.
export const defaultPlaces = { maxCalls: 256, maxBytes: 128 * 1024 * 1024 };

export function createPlaces({ maxCalls, maxBytes, drainMs }: PlacesLimits): Places {
  const stop = createStop();
  const idle = createStop();
  let calls = 0;
  let bytesTaken = 0;
  const leave = (bytes: number): void => {
    calls -= 1;
    bytesTaken -= bytes;
    if (calls === 0 && stop.isStopped()) idle.stop();
  };
  return {
    stop,
    take: (bytes) => {
      if (calls >= maxCalls || bytesTaken + bytes > maxBytes) {
        throw new ServiceError("unavailable", "too many submissions are under way");
      }
      calls += 1;
      bytesTaken += bytes;
      return { [Symbol.dispose]: () => leave(bytes) };
    },
    [Symbol.asyncDispose]: async () => {
      stop.stop();
      if (calls > 0) await pause(drainMs, idle);
    },
  };
}
