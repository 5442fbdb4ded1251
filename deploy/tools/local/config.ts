import type { StoreUrls } from "./local-stores.ts";

/** Stores that run elsewhere, from REDIS_URL, NATS_URL and POSTGRES_URL; empty ones count as not given. */
export function givenStores(environment: NodeJS.ProcessEnv): Partial<StoreUrls> {
  const { REDIS_URL: redis, NATS_URL: nats, POSTGRES_URL: postgres } = environment;
  return { ...(redis && { redis }), ...(nats && { nats }), ...(postgres && { postgres }) };
}
