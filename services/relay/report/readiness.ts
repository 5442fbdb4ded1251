import { clockProblem } from "../charge/clock-skew.ts";

/** How a relay stands: everything that is wrong with it, and what of that keeps calls from being sent to it. */
export type Readiness = { problems: () => string[]; notReady: () => string[] };

type ReadinessInputs = {
  isDraining: () => boolean;
  isQuotaConnected: () => boolean;
  /** By how many ms the clock is ahead of the hot store's. */
  clockAheadMs: () => number;
  spoolProblem: () => string | undefined;
  /** Why the catalog in force is not that of the file. */
  catalogProblem: () => string | undefined;
};

const notConnected = "auth-quota is not connected";

/**
 * A relay is ready once it has found auth-quota, and stays so when auth-quota is away later: that is so for all relays
 * at once, and without them callers would hear of it from a balancer, in words that are not ours. It is ready with a
 * catalog of before, too, and says so.
 */
export function createStanding({
  isDraining,
  isQuotaConnected,
  clockAheadMs,
  spoolProblem,
  catalogProblem,
}: ReadinessInputs): Readiness {
  let wasConnected = false;
  const problems = (): string[] => {
    const isConnected = isQuotaConnected();
    wasConnected ||= isConnected;
    const all = [
      isDraining() ? "draining" : undefined,
      isConnected ? undefined : notConnected,
      clockProblem(clockAheadMs()),
      spoolProblem(),
      catalogProblem(),
    ];
    return all.filter((problem) => problem !== undefined);
  };
  return {
    problems,
    notReady: () => {
      const catalog = catalogProblem();
      return problems().filter((problem) => problem !== catalog && (problem !== notConnected || !wasConnected));
    },
  };
}
