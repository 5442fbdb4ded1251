import { mkdir, writeFile } from "node:fs/promises";
import { askLoopback } from "./loopback.ts";
import type { StoreProgram } from "./store.ts";
import type { StoreFolder } from "./store-folder.ts";

/** Lines of a configuration file that make users, and the one of them that may ask for everything. */
type RedisUsers = { users: string; operator: { name: string; password: string } };

/**
 * Redis with an append-only file that is synced every second and without snapshots. It serves anybody where no users
 * are given.
 */
export function redisProgram(
  { binary, folder, orphanSignal, onLine }: StoreFolder,
  settings?: RedisUsers,
): StoreProgram {
  const persistence = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""];
  // Beside its data, which may be deleted.
  const usersFile = `${folder}-users.conf`;
  const login = settings ? `AUTH ${settings.operator.name} ${settings.operator.password}\r\n` : "";
  return {
    name: "redis",
    prepare: async () => {
      await mkdir(folder, { recursive: true });
      if (settings) await writeFile(usersFile, settings.users, { mode: 0o600 });
    },
    plan: (port) => ({
      command: binary,
      args: [
        ...(settings ? [usersFile] : []),
        "--bind",
        "127.0.0.1",
        "--port",
        String(port),
        "--dir",
        folder,
        "--daemonize",
        "no",
        ...persistence,
      ],
      orphanSignal,
      onLine,
    }),
    url: (port) => `redis://127.0.0.1:${port}`,
    isServing: async (port, pid) => {
      const hasPid = (answer: string): boolean => /process_id:\d+\r\n/.test(answer);
      const answer = await askLoopback(port, `${login}INFO server\r\n`, hasPid);
      const ping = await askLoopback(port, `${login}PING\r\n`, (text) => /(?:PONG|^-.*)\r\n$/m.test(text));
      return answer.includes(`process_id:${pid}\r\n`) && ping.endsWith("+PONG\r\n");
    },
    stopSignal: "SIGTERM",
  };
}
