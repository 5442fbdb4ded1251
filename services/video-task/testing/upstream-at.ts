import { randomUUID } from "node:crypto";
import type { Upstream } from "#shared/catalog/upstreams.ts";

/** An upstream for videos at an address of this machine, with the catalog's usual limits but short timeouts. */
export const upstreamAt = (url: string, changes: Partial<Upstream> = {}): Upstream => ({
  id: randomUUID(),
  name: "studio",
  baseUrl: new URL(url),
  dialects: ["openai-videos"],
  credential: "secret-of-the-studio",
  headers: [],
  proxy: undefined,
  tls: undefined,
  connectTimeoutMs: 2_000,
  firstByteTimeoutMs: 10_000,
  idleTimeoutMs: 10_000,
  totalTimeoutMs: 20_000,
  onCallerGone: { action: "abort" },
  maxConcurrent: 16,
  hasResponsesSocket: false,
  openAfterFailures: 0,
  coolsDown: false,
  ...changes,
});
