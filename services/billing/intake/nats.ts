import { keepConnected as keepNats, type NatsLink, type NatsLinkOptions } from "#shared/stores/nats.ts";
import type { Health } from "#shared/process/health.ts";

export type { NatsLink };

export type BillingLinkOptions = Omit<NatsLinkOptions, "name" | "onState"> & { health: Health };

/** The way to NATS, of which billing uses only a connection that stands: what it cannot send now, it sends later. */
export function keepConnected(url: string, { health, ...options }: BillingLinkOptions): NatsLink {
  let isUp = false;
  const onState = (problem: string | undefined): void => {
    isUp = problem === undefined;
    health.set("NATS", problem);
  };
  const link = keepNats(url, { ...options, name: "billing", onState });
  return { ...link, current: () => (isUp ? link.current() : undefined) };
}
