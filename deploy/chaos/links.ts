import type { ServiceName, StackOptions } from "../local/stack.ts";
import { type Proxy, startProxy } from "./proxy.ts";

/** The ways between processes, by the variable of the service that goes there; an upstream's is no variable. */
const ways = {
  "relay to auth-quota": { service: "relay", variable: "AUTH_QUOTA_ADDRESS" },
  "relay to NATS": { service: "relay", variable: "NATS_URL" },
  "relay to upstream": undefined,
  "auth-quota to Redis": { service: "auth-quota", variable: "REDIS_URL" },
  "auth-quota to PostgreSQL": { service: "auth-quota", variable: "DATABASE_URL" },
  "auth-quota to billing": { service: "auth-quota", variable: "BILLING_ADDRESS" },
  "billing to NATS": { service: "billing", variable: "NATS_URL" },
  "billing to PostgreSQL": { service: "billing", variable: "DATABASE_URL" },
  "billing to auth-quota": { service: "billing", variable: "AUTH_QUOTA_ADDRESS" },
} as const satisfies Record<string, { service: ServiceName; variable: string } | undefined>;

export type LinkName = keyof typeof ways;

export const linkNames = Object.keys(ways) as LinkName[];

/** A proxy on each link. */
export type Links = AsyncDisposable & {
  proxies: Record<LinkName, Proxy>;
  reroute: NonNullable<StackOptions["reroute"]>;
  /** The address of the upstream by way of its proxy. */
  rerouteUpstream: (url: string) => string;
};

/** Starts the proxies; where they lead to is known when the services are given their addresses. */
export async function openLinks(): Promise<Links> {
  await using resources = new AsyncDisposableStack();
  const proxies: Partial<Record<LinkName, Proxy>> = {};
  for (const name of linkNames) proxies[name] = resources.use(await startProxy());
  const all = proxies as Record<LinkName, Proxy>;
  const through = (name: LinkName, address: string): string => {
    const [place, port] = /127\.0\.0\.1:(\d+)/.exec(address) ?? [];
    if (place === undefined) throw new Error(`${name}: no loopback port in its address`);
    all[name].leadTo(Number(port));
    return address.replace(place, `127.0.0.1:${all[name].port}`);
  };
  const owned = resources.move();
  return {
    proxies: all,
    rerouteUpstream: (url) => through("relay to upstream", url),
    reroute: (service, variables) => {
      const told = { ...variables };
      for (const name of linkNames) {
        const way = ways[name];
        if (way?.service !== service) continue;
        told[way.variable] = through(name, variables[way.variable] ?? "");
      }
      return told;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
