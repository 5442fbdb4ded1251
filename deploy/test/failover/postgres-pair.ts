import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { findStoreBinary } from "#shared/testing/binaries.ts";
import { createDatabase, postgresProgram, query, unprivilegedUser } from "#shared/testing/postgres.ts";
import { startStore, type Store } from "#shared/testing/store.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { type Proxy, startProxy } from "../chaos/proxy.ts";

const run = promisify(execFile);

/** A primary and its streaming replica behind one address that the operator moves. */
export type PostgresPair = AsyncDisposable & {
  /** The database of the superuser, at the address that moves. */
  url: string;
  primary: Store;
  replica: Store;
  /** What the replica hears of the primary. */
  replication: Proxy;
  /** The address: connections to it lead to the one or the other. */
  front: Proxy;
  /** Ends the recovery of the replica. */
  promote: () => Promise<void>;
};

/** The superuser's URL at another port. */
function atPort(url: string, port: number): string {
  return Object.assign(new URL(url), { port: String(port) }).href;
}

/** Starts both; the replica has caught up when this returns. */
export async function startPostgresPair(): Promise<PostgresPair> {
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "relay-postgres-pair-"));
  // PostgreSQL runs as another user when this is root, and must pass through.
  await chmod(folder, 0o711);
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const binary = findStoreBinary("postgres");
  if (!binary) throw new Error("PostgreSQL is not installed");
  const programIn = (place: string) => ({
    ...postgresProgram({ binary, folder: place, password: "", isDurable: false, orphanSignal: "SIGQUIT" }),
    stopSignal: "SIGQUIT" as const,
  });
  const primary = resources.use(await startStore(programIn(join(folder, "primary"))));
  const ownUrl = await createDatabase(primary.url);
  const replication = resources.use(await startProxy());
  replication.leadTo(primary.port);
  const copy = join(folder, "replica");
  await copyPrimary(binary, copy, atPort(primary.url, replication.port));
  const replica = resources.use(await startStore(programIn(copy)));
  const front = resources.use(await startProxy());
  front.leadTo(primary.port);
  const standing = "SELECT FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()";
  await until("the replica follows", async () => (await query(primary.url, standing)).rowCount === 1, 60_000);
  const owned = resources.move();
  return {
    url: atPort(ownUrl, front.port),
    primary,
    replica,
    replication,
    front,
    promote: async () => void (await query(replica.url, "SELECT pg_promote()")),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function copyPrimary(binary: string, folder: string, url: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 });
  const user = unprivilegedUser();
  if (user) await run("chown", [`${user.uid}:${user.gid}`, folder]);
  const program = join(dirname(binary), "pg_basebackup");
  await run(program, ["-D", folder, "-R", "-X", "stream", "-c", "fast", "-d", url], { cwd: "/", ...user });
}
