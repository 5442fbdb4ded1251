// Node closes an idle connection to the services' metrics after this.
const idleConnectionMs = 3_000;

/** The waits between the tries of official clients: less than half a second at least, Retry-After at most. */
export const isBetweenTries = (delayMs: number): boolean =>
  delayMs >= 300 && delayMs <= 60_000 && delayMs !== idleConnectionMs;

/**
 * Runs `work` while waits of exactly these lengths, or those that a test picks, end at once, and tells which of them
 * were asked for, in order. Official clients wait as long as Retry-After says; a test wants to know that they would,
 * not to wait itself.
 */
export async function withoutWaiting<T>(
  lengths: number[] | ((delayMs: number) => boolean),
  work: () => Promise<T>,
): Promise<{ waitsMs: number[]; result: T }> {
  const waitsMs: number[] = [];
  const isPicked = typeof lengths === "function" ? lengths : (delayMs: number) => lengths.includes(delayMs);
  const real = globalThis.setTimeout;
  const hurried = (callback: (...args: unknown[]) => void, delayMs?: number, ...rest: unknown[]) => {
    const isHurried = delayMs !== undefined && isPicked(delayMs) && !isSetByGrpc();
    if (isHurried) waitsMs.push(delayMs);
    return real(callback, isHurried ? 0 : delayMs, ...rest);
  };
  globalThis.setTimeout = Object.assign(hurried, real) as typeof setTimeout;
  try {
    return { result: await work(), waitsMs };
  } finally {
    globalThis.setTimeout = real;
  }
}

/** Connections to the services set timers of their own, which are not waits of the clients under test. */
const isSetByGrpc = (): boolean => new Error("who sets it").stack?.includes("/@grpc/grpc-js/") === true;

/** How many calls a relay has answered with a status since it started, by its own metrics. */
export async function answeredWith(opsUrl: string, status: number): Promise<number> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  const counts = text
    .split("\n")
    .filter((line) => line.startsWith("relay_calls_total{") && line.includes(`status="${status}"`));
  return counts.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}
