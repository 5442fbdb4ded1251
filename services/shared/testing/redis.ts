import { mkdir } from "node:fs/promises";
import { askLoopback } from "./loopback.ts";
import type { StoreProgram } from "./store.ts";
import type { StoreFolder } from "./store-folder.ts";

/** Redis with an append-only file that is synced every second and without snapshots. */
export function redisProgram({ binary, folder, orphanSignal, onLine }: StoreFolder): StoreProgram {
  const persistence = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""];
  return {
    name: "redis",
    prepare: async () => {
      await mkdir(folder, { recursive: true });
    },
    plan: (port) => ({
      command: binary,
      args: ["--bind", "127.0.0.1", "--port", String(port), "--dir", folder, "--daemonize", "no", ...persistence],
      orphanSignal,
      onLine,
    }),
    url: (port) => `redis://127.0.0.1:${port}`,
    isServing: async (port, pid) => {
      const hasPid = (answer: string): boolean => /process_id:\d+\r\n/.test(answer);
      const answer = await askLoopback(port, "INFO server\r\n", hasPid);
      const ping = await askLoopback(port, "PING\r\n", (text) => text.endsWith("\r\n"));
      return answer.includes(`process_id:${pid}\r\n`) && ping === "+PONG\r\n";
    },
    stopSignal: "SIGTERM",
  };
}
