import type { ServiceName, StackOptions } from "../../tools/local/stack.ts";
import { type Proxy, startProxy } from "./proxy.ts";

/** A way between processes, by the variable of the service that goes there; some are told in other ways. */
type LinkTarget = { service: ServiceName; variable: string } | undefined;

const callWays = {
  "callers to relay": undefined,
  "relay to auth-quota": { service: "relay", variable: "AUTH_QUOTA_ADDRESS" },
  "relay to NATS": { service: "relay", variable: "NATS_URL" },
  "relay to upstream": undefined,
  "auth-quota to Redis": { service: "auth-quota", variable: "REDIS_URL" },
  "auth-quota to PostgreSQL": { service: "auth-quota", variable: "DATABASE_URL" },
  "auth-quota to billing": { service: "auth-quota", variable: "BILLING_ADDRESS" },
  "billing to NATS": { service: "billing", variable: "NATS_URL" },
  "billing to PostgreSQL": { service: "billing", variable: "DATABASE_URL" },
  "billing to auth-quota": { service: "billing", variable: "AUTH_QUOTA_ADDRESS" },
} as const satisfies Record<string, LinkTarget>;

const taskWays = {
  "relay to video-task": { service: "relay", variable: "VIDEO_TASK_ADDRESS" },
  "video-task to PostgreSQL": { service: "video-task", variable: "DATABASE_URL" },
  "video-task to NATS": { service: "video-task", variable: "NATS_URL" },
  "video-task to billing": { service: "video-task", variable: "BILLING_ADDRESS" },
} as const satisfies Record<string, LinkTarget>;

export type LinkName = keyof typeof callWays;
export type TaskLinkName = keyof typeof taskWays;

export const linkNames = Object.keys(callWays) as LinkName[];
export const taskLinkNames = Object.keys(taskWays) as TaskLinkName[];

/** A proxy on each link. */
export type Links<Name extends string = LinkName> = AsyncDisposable & {
  proxies: Record<Name, Proxy>;
  reroute: NonNullable<StackOptions["reroute"]>;
  /** An address by way of the link's proxy, which leads there from now on. */
  lead: (name: Name, address: string) => string;
};

/** Starts the proxies of calls; where they lead to is known when the services are given their addresses. */
export const openLinks = (): Promise<Links> => openWays(callWays, linkNames);

/** Starts the proxies on the links of the stack's own video-task. */
export const openTaskLinks = (): Promise<Links<TaskLinkName>> => openWays(taskWays, taskLinkNames);

async function openWays<Name extends string>(
  ways: Record<Name, LinkTarget>,
  names: readonly Name[],
): Promise<Links<Name>> {
  await using resources = new AsyncDisposableStack();
  const proxies: Partial<Record<Name, Proxy>> = {};
  for (const name of names) proxies[name] = resources.use(await startProxy());
  const all = proxies as Record<Name, Proxy>;
  const through = (name: Name, address: string): string => {
    const [place, port] = /127\.0\.0\.1:(\d+)/.exec(address) ?? [];
    if (place === undefined) throw new Error(`${name}: no loopback port in its address`);
    all[name].leadTo(Number(port));
    return address.replace(place, `127.0.0.1:${all[name].port}`);
  };
  const owned = resources.move();
  return {
    proxies: all,
    lead: through,
    reroute: (service, variables) => {
      const told = { ...variables };
      for (const name of names) {
        const way = ways[name];
        if (way?.service !== service) continue;
        told[way.variable] = through(name, variables[way.variable] ?? "");
      }
      return told;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
