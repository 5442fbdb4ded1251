import { fileURLToPath } from "node:url";
import { startAnnounced, type Started } from "./announced.ts";
import type { Cores } from "./cores.ts";

/** In the order in which tables show them. */
export const targetNames = ["direct", "nginx", "bare", "pipe", "metered", "relay", "leased", "portkey"] as const;
export type TargetName = (typeof targetNames)[number];

/** Something that answers calls and is measured. */
export type Target = {
  name: TargetName;
  port: number;
  readonly pid: number;
  /** Sent with every call. */
  headers: Record<string, string>;
  /** Whether an answer in the caller's own dialect comes as the upstream gave it. */
  isVerbatim: boolean;
};

const proxyFiles = {
  bare: fileURLToPath(import.meta.resolve("./bare-proxy.ts")),
  pipe: fileURLToPath(import.meta.resolve("./pipe-proxy.ts")),
};

/** Starts the upstream of the bench on the core that is not measured; it can be called itself, too. */
export async function startUpstream(): Promise<Target & Started> {
  const file = fileURLToPath(import.meta.resolve("./upstream.ts"));
  const started = await startAnnounced({ command: process.execPath, args: [file] });
  return Object.assign(started, { name: "direct" as const, headers: {}, isVerbatim: true });
}

const meteredFile = fileURLToPath(import.meta.resolve("./metered-proxy.ts"));

/** Starts the proxy that forwards and charges, on the measured core; `environment` tells it where to charge. */
export async function startMetered(
  upstreamPort: number,
  { environment, headers }: { environment: NodeJS.ProcessEnv; headers: Record<string, string> },
  cores: Cores,
): Promise<Target & Started> {
  const command = cores.measured(process.execPath, [meteredFile, `http://127.0.0.1:${upstreamPort}`]);
  const started = await startAnnounced({ ...command, environment: { ...process.env, ...environment } });
  return Object.assign(started, { name: "metered" as const, headers, isVerbatim: true });
}

/** Starts one of the proxies that only forward, on the measured core. */
export async function startProxy(name: "bare" | "pipe", upstreamPort: number, cores: Cores): Promise<Target & Started> {
  const command = cores.measured(process.execPath, [proxyFiles[name], `http://127.0.0.1:${upstreamPort}`]);
  return Object.assign(await startAnnounced(command), { name, headers: {}, isVerbatim: true });
}
