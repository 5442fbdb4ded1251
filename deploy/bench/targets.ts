import { fileURLToPath } from "node:url";
import { startAnnounced, type Started } from "./announced.ts";
import type { Cores } from "./cores.ts";

export type TargetName = "bare" | "pipe" | "relay";

/** Something that answers calls and is measured. */
export type Target = { name: TargetName; port: number; pid: number; companionPids: number[]; secret: string };

const proxyFiles = {
  bare: fileURLToPath(import.meta.resolve("./bare-proxy.ts")),
  pipe: fileURLToPath(import.meta.resolve("./pipe-proxy.ts")),
};

/** Starts the upstream of the bench on the core that is not measured. */
export function startUpstream(): Promise<Started> {
  return startAnnounced({ command: process.execPath, args: [fileURLToPath(import.meta.resolve("./upstream.ts"))] });
}

/** Starts one of the proxies that only forward, on the measured core. */
export async function startProxy(
  name: "bare" | "pipe",
  upstreamOrigin: string,
  cores: Cores,
): Promise<Target & Started> {
  const command = cores.measured(process.execPath, [proxyFiles[name], upstreamOrigin]);
  return Object.assign(await startAnnounced(command), { name, secret: "none", companionPids: [] });
}
