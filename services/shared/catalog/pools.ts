import { Pool, ProxyAgent, type Dispatcher } from "undici";
import { boundedConnector } from "../net/bounded-connector.ts";
import type { Upstream } from "./upstreams.ts";

/** Connections to upstreams, kept open between calls; one pool per upstream and settings. */
export type Pools = AsyncDisposable & {
  poolOf: (upstream: Upstream) => Dispatcher;
  /** Closes the pools of all other upstreams; live answers on them go on to their end. */
  retain: (upstreams: Upstream[]) => void;
};

function openPool(upstream: Upstream): Dispatcher {
  const { baseUrl, proxy, tls, connectTimeoutMs: timeout } = upstream;
  const settings = {
    // No call waits for a connection: more calls than this are not let in.
    connections: upstream.maxConcurrent,
    pipelining: 1,
    allowH2: false,
    headersTimeout: upstream.firstByteTimeoutMs,
    bodyTimeout: upstream.idleTimeoutMs,
  };
  if (!proxy)
    return new Pool(baseUrl.origin, { ...settings, connect: boundedConnector({ ...tls, allowH2: false, timeout }) });
  return new ProxyAgent({
    ...settings,
    uri: proxy.href,
    // Also for plain HTTP, so that a proxy never sees a credential.
    proxyTunnel: true,
    connectTimeout: timeout,
    proxyTls: { allowH2: false, timeout },
    requestTls: { ...tls, allowH2: false, timeout },
    clientFactory: (origin, options) => new Pool(origin, { ...options, headersTimeout: timeout }),
  });
}

export function createPools(): Pools {
  const pools = new Map<string, Dispatcher>();
  return {
    poolOf: (upstream) => {
      let pool = pools.get(upstream.id);
      if (!pool) pools.set(upstream.id, (pool = openPool(upstream)));
      return pool;
    },
    retain: (upstreams) => {
      const kept = new Set(upstreams.map(({ id }) => id));
      for (const [id, pool] of pools) {
        if (kept.has(id)) continue;
        pools.delete(id);
        void pool.close();
      }
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()));
    },
  };
}
