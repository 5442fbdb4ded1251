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

type Following<T> = {
  onReplaced: (value: T) => void;
  onRefused: (error: unknown) => void;
  /** Gives what is in force when the files cannot be read at the start. */
  fallback?: (() => T) | undefined;
};

/**
 * Reads files and checks them for changes every second. An error of the first `read` is thrown unless there is a
 * fallback; later ones go to `onRefused`, and the last good value stays in force. `onReplaced` gets every later value.
 */
export function followFiles<T>(
  files: string[],
  read: () => T,
  { onReplaced, onRefused, fallback }: Following<T>,
): Followed<T> {
  const stamps = (): string => files.map(stampOf).join();
  // Before the reading, so that a change in between is seen at the next look.
  let seen = stamps();
  let isStale = false;
  let value = readFirst(read, fallback, (error) => {
    isStale = true;
    onRefused(error);
  });
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

function readFirst<T>(read: () => T, fallback: (() => T) | undefined, onRefused: (error: unknown) => void): T {
  try {
    return read();
  } catch (error) {
    if (!fallback) throw error;
    const value = fallback();
    onRefused(error);
    return value;
  }
}
