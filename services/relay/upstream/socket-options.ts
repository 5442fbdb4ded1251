import { Agent as HttpsAgent } from "node:https";
import type { ClientOptions } from "ws";
import type { Upstream } from "#shared/catalog/upstreams.ts";

/** Where an upstream takes sockets. */
export function socketAddress({ baseUrl }: Upstream, path: string): URL {
  const url = new URL(`${baseUrl.pathname.replace(/\/$/, "")}${path}`, baseUrl);
  url.protocol = baseUrl.protocol === "https:" ? "wss:" : "ws:";
  return url;
}

/** Whether a socket to it goes through a proxy that would see the credential. */
export const isSeenByProxy = ({ proxy, baseUrl }: Upstream): boolean =>
  proxy !== undefined && baseUrl.protocol !== "https:";

type SocketWishes = {
  /** Name, value, name, value; the operator's own come behind them. */
  headers: readonly string[];
  more?: Record<string, string>;
  maxPayload: number;
  handshakeTimeout: number;
};

/** How a socket to an upstream is opened: by the TLS and the proxy of its calls. Frames are not compressed. */
export function socketOptions(
  upstream: Upstream,
  { headers, more, maxPayload, handshakeTimeout }: SocketWishes,
): ClientOptions {
  const given = [...headers, ...upstream.headers];
  const pairs = Array.from({ length: given.length / 2 }, (_, at) => [given[at * 2], given[at * 2 + 1]]);
  const { proxy, tls } = upstream;
  return {
    headers: { "user-agent": "model-relay", ...more, ...Object.fromEntries(pairs) },
    perMessageDeflate: false,
    maxPayload,
    handshakeTimeout,
    ...tls,
    ...(proxy && { agent: new HttpsAgent({ ...tls, proxyEnv: { HTTPS_PROXY: proxy.href } }) }),
  };
}
