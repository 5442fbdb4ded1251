const firstPollMs = 10;
const longestPollMs = 50;

/**
 * Waits until `condition` yields something truthy and returns it. Polls after 10 ms, then less and less often, at last
 * every 50 ms: what is slow on a busy machine must not get slower from being asked. A condition that throws counts as
 * not yet met. After `timeoutMs`, which is for what would never come and not for what is slow, throws an Error that
 * names the description and the last value or failure.
 */
export async function until<T>(description: string, condition: () => T | Promise<T>, timeoutMs = 60_000): Promise<T> {
  const deadlineMs = performance.now() + timeoutMs;
  for (let pollMs = firstPollMs; ; pollMs = Math.min(pollMs * 1.5, longestPollMs)) {
    const attempt = await tryOnce(condition);
    if ("value" in attempt && attempt.value) return attempt.value;
    if (performance.now() >= deadlineMs) throw notMet(description, attempt, timeoutMs);
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
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
