import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { askLoopback } from "./loopback.ts";
import type { StoreProgram } from "./store.ts";
import type { StoreFolder } from "./store-folder.ts";

/** NATS with JetStream. It greets with its name, which tells it from another server on the same port. */
export function natsProgram({ binary, folder, orphanSignal, onLine }: StoreFolder): StoreProgram {
  const serverName = `local-${randomUUID()}`;
  return {
    name: "nats",
    prepare: async () => {
      await mkdir(folder, { recursive: true });
    },
    plan: (port) => ({
      command: binary,
      args: ["-a", "127.0.0.1", "-p", String(port), "-n", serverName, "-js", "-sd", folder],
      orphanSignal,
      onLine,
    }),
    url: (port) => `nats://127.0.0.1:${port}`,
    isServing: async (port) => {
      const greeting = await askLoopback(port, "", (answer) => answer.includes("\r\n"));
      return greeting.includes(`"server_name":"${serverName}"`) && greeting.includes('"jetstream":true');
    },
    stopSignal: "SIGTERM",
  };
}
