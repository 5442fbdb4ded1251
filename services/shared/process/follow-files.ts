import { statSync } from "node:fs";

/** What was read from files that are followed. */
export type Followed<T> = Disposable & {
  /** The last value that could be read. */
  current: () => T;
  /** Whether the files have changed since and could not be read. */
  isStale: () => boolean;
};

const lookIntervalMs = 1_000;

/** What changes when a file is written, made readable, put in the place of another, or taken away. */
function stampOf(file: string): string {
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats ? `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}` : "absent";
}

/**
 * Reads files and checks them for changes every second. An error of the first `read` is thrown; later ones go to
 * `onRefused`, and the last good value stays in force. `onReplaced` gets every later value.
 */
export function followFiles<T>(
  files: string[],
  read: () => T,
  { onReplaced, onRefused }: { onReplaced: (value: T) => void; onRefused: (error: unknown) => void },
): Followed<T> {
  const stamps = (): string => files.map(stampOf).join();
  // Before the reading, so that a change in between is seen at the next look.
  let seen = stamps();
  let value = read();
  let isStale = false;
  const look = (): void => {
    const now = stamps();
    if (now === seen) return;
    seen = now;
    try {
      value = read();
      isStale = false;
      onReplaced(value);
    } catch (error) {
      isStale = true;
      onRefused(error);
    }
  };
  // Polling, because a ConfigMap is replaced by renaming a symbolic link, which file events do not follow.
  const timer = setInterval(look, lookIntervalMs).unref();
  return {
    current: () => value,
    isStale: () => isStale,
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
