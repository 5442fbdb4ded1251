import { ServiceError } from "#shared/process/errors.ts";

const maxPerLoad = 1_000;
const restMs = 1_000;
// Below the time that relays wait for an answer, so that they get one.
const timeoutMs = 1_500;

/**
 * Makes a function that loads one thing out of one that loads many: what is asked for within one turn of the event loop
 * goes out as one load, and what is already on its way is not asked for again. A load that takes longer than 1.5 s has
 * failed. After a failure it rejects at once for a second, so that calls do not all wait for a store that is down.
 * Undefined: there is no such thing.
 */
export function gather<V>(
  loadMany: (ids: string[]) => Promise<Map<string, V>>,
): (id: string) => Promise<V | undefined> {
  const underWay = new Map<string, PromiseWithResolvers<V | undefined>>();
  let queued: string[] = [];
  let failure: { error: unknown; untilMs: number } | undefined;

  const run = async (ids: string[]): Promise<void> => {
    try {
      const found = await inTime(loadMany(ids));
      failure = undefined;
      for (const id of ids) underWay.get(id)?.resolve(found.get(id));
    } catch (error) {
      failure = { error, untilMs: performance.now() + restMs };
      for (const id of ids) underWay.get(id)?.reject(error);
    } finally {
      for (const id of ids) underWay.delete(id);
    }
  };
  const flush = (): void => {
    const ids = queued;
    queued = [];
    for (let at = 0; at < ids.length; at += maxPerLoad) void run(ids.slice(at, at + maxPerLoad));
  };

  return (id) => {
    if (failure && performance.now() < failure.untilMs) {
      return Promise.reject(new ServiceError("unavailable", "not asked: it failed a moment ago", failure.error));
    }
    const known = underWay.get(id);
    if (known) return known.promise;
    const started = Promise.withResolvers<V | undefined>();
    underWay.set(id, started);
    if (queued.push(id) === 1) setImmediate(flush);
    return started.promise;
  };
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new ServiceError("unavailable", "no answer in time")), timeoutMs);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
