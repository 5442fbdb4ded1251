import { fileURLToPath } from "node:url";
import { startProcess, type ChildProcess } from "#shared/testing/child-process.ts";
import type { Cores } from "./cores.ts";

export type TargetName = "bare" | "pipe" | "relay";

/** Something that answers calls and is measured. */
export type Target = { name: TargetName; port: number; pid: number; companionPids: number[]; secret: string };

export type Started = AsyncDisposable & { port: number; pid: number };

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

// Waits for the line in which the process tells its port.
async function startAnnounced({ command, args }: { command: string; args: string[] }): Promise<Started> {
  const announced = Promise.withResolvers<number>();
  const onLine = (line: string): void => {
    if (line.startsWith('{"port":')) announced.resolve((JSON.parse(line) as { port: number }).port);
  };
  const child: ChildProcess = await startProcess({ command, args, orphanSignal: "SIGTERM", onLine });
  const failed = child.ended.then((outcome) => {
    throw new Error(`${args.at(-1)} ${outcome}:\n${child.lastLines().join("\n")}`);
  });
  const port = await Promise.race([announced.promise, failed]);
  failed.catch(() => undefined);
  return { port, pid: child.pid, [Symbol.asyncDispose]: () => child.end("SIGTERM") };
}
