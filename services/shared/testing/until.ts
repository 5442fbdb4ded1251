const firstPollMs = 10;
const usualPollMs = 50;
const longestPollMs = 250;

/**
 * Waits until `condition` yields something truthy and returns it. Polls after 10 ms, then less and less often, soon
 * every 50 ms and at last every 250 ms: what is slow on a busy machine must not get slower from being asked. A
 * condition that throws counts as not yet met. After `timeoutMs`, which is for what would never come and not for what
 * is slow, throws an Error that names the description and the last value or failure.
 */
export async function until<T>(description: string, condition: () => T | Promise<T>, timeoutMs = 60_000): Promise<T> {
  const startedMs = performance.now();
  for (let pollMs = firstPollMs; ; pollMs = nextPollMs(pollMs, performance.now() - startedMs)) {
    const attempt = await tryOnce(condition);
    if ("value" in attempt && attempt.value) return attempt.value;
    if (performance.now() - startedMs >= timeoutMs) throw notMet(description, attempt, timeoutMs);
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

/** What has taken seconds is asked for every twentieth of that time. */
function nextPollMs(pollMs: number, waitedMs: number): number {
  return Math.min(pollMs * 1.5, Math.max(usualPollMs, waitedMs / 20), longestPollMs);
}

type Attempt<T> = { value: T } | { failure: unknown };

async function tryOnce<T>(condition: () => T | Promise<T>): Promise<Attempt<T>> {
  try {
    return { value: await condition() };
  } catch (failure) {
    return { failure };
  }
}

function notMet(description: string, last: Attempt<unknown>, timeoutMs: number): Error {
  const found = "failure" in last ? `the last attempt failed: ${String(last.failure)}` : `last: ${String(last.value)}`;
  const cause = "failure" in last ? last.failure : undefined;
  return new Error(`not met within ${timeoutMs} ms: ${description}; ${found}`, { cause });
}
