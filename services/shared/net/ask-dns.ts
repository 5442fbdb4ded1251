import { Resolver } from "node:dns/promises";

/** How long each of two tries may take, and all that is asked. */
export type DnsLimits = { tryMs: number; allMs: number };

const tries = 2;

/**
 * Asks DNS servers, as `Resolver.setServers` takes them; the machine's where none is named. Needs none of the threads
 * in which the system looks names up. What is still open when the time is up rejects with ECANCELLED.
 */
export async function askDns<T>(
  servers: readonly string[],
  { tryMs, allMs }: DnsLimits,
  ask: (resolver: Resolver) => Promise<T>,
): Promise<T> {
  const resolver = new Resolver({ timeout: tryMs, tries });
  if (servers.length > 0) resolver.setServers(servers);
  const deadline = setTimeout(() => resolver.cancel(), allMs);
  try {
    return await ask(resolver);
  } finally {
    clearTimeout(deadline);
  }
}
