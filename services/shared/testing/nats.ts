import { randomUUID } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { askLoopback } from "./loopback.ts";
import type { StoreProgram } from "./store.ts";
import type { StoreFolder } from "./store-folder.ts";

/**
 * NATS with JetStream, and with the text of a configuration file where one is given. It greets with its name, which
 * tells it from another server on the same port.
 */
export function natsProgram({ binary, folder, orphanSignal, onLine }: StoreFolder, settings?: string): StoreProgram {
  const serverName = `local-${randomUUID()}`;
  const settingsFile = join(folder, "nats.conf");
  const how = settings === undefined ? ["-n", serverName, "-js", "-sd", folder] : ["-c", settingsFile];
  return {
    name: "nats",
    prepare: async () => {
      await mkdir(folder, { recursive: true });
      if (settings === undefined) return;
      // On the command line, changed settings would be refused because of the name, and would switch JetStream off.
      const own = `server_name: ${serverName}\njetstream { store_dir: ${JSON.stringify(folder)} }\n`;
      await writeFile(settingsFile, own + settings, { mode: 0o600 });
    },
    plan: (port) => ({
      command: binary,
      args: ["-a", "127.0.0.1", "-p", String(port), ...how],
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
