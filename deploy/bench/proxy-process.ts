import type { IncomingHttpHeaders, Server } from "node:http";
import type { AddressInfo } from "node:net";

// They belong to one connection.
const connectionHeaders = new Set(["connection", "host", "keep-alive", "transfer-encoding"]);

/** The headers that are passed on. */
export function withoutConnection(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const kept: IncomingHttpHeaders = {};
  for (const name in headers) if (!connectionHeaders.has(name)) kept[name] = headers[name];
  return kept;
}

/** The origin that a proxy process was told to forward to: its first argument. */
export function upstreamOrigin(): string {
  const origin = process.argv[2];
  if (origin === undefined) throw new Error("usage: <proxy>.ts http://host:port");
  return origin;
}

/** Listens on a free loopback port and prints it as JSON, for whoever started this process. */
export function announce(server: Server): void {
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
  });
}
