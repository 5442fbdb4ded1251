import { writeFileSync } from "node:fs";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findTool } from "./binaries.ts";
import { query, unprivilegedUser } from "./postgres.ts";
import { startStore, type Store } from "./store.ts";
import { removeAtEnd } from "./watchdog.ts";

/**
 * Starts pgbouncer in transaction mode before the database of a superuser's URL; whoever may sign in to PostgreSQL may
 * do so here. Its settings are as they come, so it refuses startup parameters that it does not know.
 */
export async function startPgbouncer(databaseUrl: string): Promise<Store> {
  const binary = findTool("pgbouncer");
  if (!binary) throw new Error("pgbouncer is not installed; `npm test` installs it, or says how");
  const folder = await mkdtemp(join(tmpdir(), "relay-pgbouncer-"));
  removeAtEnd(folder);
  const [users, settings] = [join(folder, "users"), join(folder, "pgbouncer.ini")];
  const behind = new URL(databaseUrl);
  const url = (port: number): string => Object.assign(new URL(databaseUrl), { port: String(port) }).href;
  const store = await startStore({
    name: "pgbouncer",
    prepare: async () => {
      await chmod(folder, 0o711);
      await writeFile(users, `"${behind.username}" "${behind.password}"\n`);
    },
    plan: (port) => {
      writeFileSync(settings, settingsText(behind, port, users));
      return { command: binary, args: [settings], user: unprivilegedUser(), orphanSignal: "SIGKILL" };
    },
    url,
    isServing: async (port) => {
      await query(url(port), "select 1");
      return true;
    },
    // Does not wait for its clients.
    stopSignal: "SIGTERM",
  });
  const dispose = async (): Promise<void> => {
    await store.kill("SIGTERM");
    await rm(folder, { recursive: true, force: true });
  };
  return Object.assign(store, { [Symbol.asyncDispose]: dispose });
}

// Few connections for each login, which its clients share all the time: what one leaves behind, another finds.
const settingsText = ({ hostname, port, username }: URL, ownPort: number, users: string): string => `[databases]
* = host=${hostname} port=${port} auth_user=${username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${ownPort}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
auth_query = SELECT usename, passwd FROM pg_shadow WHERE usename = $1
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
`;
