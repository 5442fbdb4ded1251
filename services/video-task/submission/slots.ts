import { ServiceError } from "#shared/process/errors.ts";
import { createStop, pause, type Stop } from "#shared/process/stop.ts";

/** Bounds what one process has under way for waiting callers. Disposal refuses more and waits for the rest. */
export type SubmissionSlots = AsyncDisposable & {
  /** Takes a slot until disposal; `bytes` is the memory it keeps. Throws `unavailable` when all are taken. */
  take: (bytes: number) => Disposable;
  stop: Stop;
};

export type SlotLimits = { maxCalls: number; maxBytes: number; drainMs: number };

// Relays limit a message to 16 MiB; images are kept twice while they are sent.
export const defaultSlotLimits = { maxCalls: 256, maxBytes: 128 * 1024 * 1024 };

export function createSlots({ maxCalls, maxBytes, drainMs }: SlotLimits): SubmissionSlots {
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
