import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { chown, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import type { SystemUser } from "./child-process.ts";
import { copyTemplate, templateFolder, templatePassword } from "./postgres-template.ts";
import type { StoreProgram } from "./store.ts";
import type { StoreFolder } from "./store-folder.ts";

const run = promisify(execFile);

export type PostgresFolder = StoreFolder & {
  /** Password of the superuser `postgres`; fixed when the folder is first made. */
  password: string;
  /** Whether commits wait for the disk; false only for throw-away data, which has the password of its template. */
  isDurable: boolean;
};

/** PostgreSQL. As root it runs under another user, who must be able to reach the folder. */
export function postgresProgram(options: PostgresFolder): StoreProgram {
  const { binary, folder, orphanSignal, onLine } = options;
  let { password } = options;
  const url = (port: number): string => `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  const user = unprivilegedUser();
  return {
    name: "postgres",
    prepare: async () => {
      password = await initialise(options, user);
    },
    plan: (port) => ({
      command: binary,
      args: ["-D", folder, "-h", "127.0.0.1", "-p", String(port), ...settings(options.isDurable)],
      folder,
      user,
      orphanSignal,
      onLine,
    }),
    url,
    isServing: async (port) => {
      await query(url(port), "select 1");
      return true;
    },
    // Fast shutdown: open sessions are ended, nothing is lost.
    stopSignal: "SIGINT",
  };
}

function settings(isDurable: boolean): string[] {
  const always = ["unix_socket_directories=", "max_connections=200", "dynamic_shared_memory_type=mmap"];
  // Not synchronous_commit=off: a killed server would lose what it has promised. Tables made a moment ago have no
  // statistics: without jit=off PostgreSQL compiles what it takes for dear, which takes longer than to run it.
  const speed = ["fsync=off", "full_page_writes=off", "jit=off"];
  return [...always, ...(isDurable ? [] : speed)].flatMap((setting) => ["-c", setting]);
}

/** Makes the data folder where there is none; gives the superuser's password. */
async function initialise(options: PostgresFolder, user: SystemUser | undefined): Promise<string> {
  const { binary, folder, isDurable } = options;
  const template = isDurable ? undefined : templateFolder(binary);
  if (!existsSync(join(folder, "PG_VERSION"))) {
    // Made beside its place and then moved, so that an interrupted start leaves nothing half made.
    const unfinished = `${folder}.new`;
    await mkdir(dirname(folder), { recursive: true });
    await rm(unfinished, { recursive: true, force: true });
    if (template)
      await copyTemplate(template, unfinished, (place, password) => initdb(binary, place, { password, user }));
    else await initdb(binary, unfinished, { password: options.password, user });
    if (user) await run("chown", ["-R", `${user.uid}:${user.gid}`, unfinished]);
    await rename(unfinished, folder);
  }
  return template ? templatePassword(template) : options.password;
}

async function initdb(binary: string, folder: string, { password, user }: InitdbOptions): Promise<void> {
  const passwordFile = `${folder}.password`;
  await mkdir(folder, { mode: 0o700 });
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (user) {
    await chown(folder, user.uid, user.gid);
    await chown(passwordFile, user.uid, user.gid);
  }
  const options = ["-U", "postgres", "-A", "scram-sha-256", `--pwfile=${passwordFile}`, "-E", "UTF8", "--locale=C"];
  try {
    const place = { cwd: folder, ...user };
    await run(join(dirname(binary), "initdb"), ["-D", folder, "--no-sync", ...options], place);
  } finally {
    await rm(passwordFile, { force: true });
  }
}

type InitdbOptions = { password: string; user: SystemUser | undefined };

/** Whom a server runs as that refuses to run as root; undefined where this process is not root. */
export function unprivilegedUser(): SystemUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const entries = readFileSync("/etc/passwd", "utf8").split("\n");
  const fieldsOf = (name: string) => entries.find((entry) => entry.startsWith(`${name}:`))?.split(":");
  const fields = fieldsOf("postgres") ?? fieldsOf("nobody");
  if (!fields) throw new Error("PostgreSQL cannot run as root, and there is no user postgres or nobody");
  return { uid: Number(fields[2]), gid: Number(fields[3]) };
}

/** Runs one statement on a connection of its own. */
export async function query(url: string, statement: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 30_000 });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await client.query(statement);
  } finally {
    await client.end();
  }
}

/** Makes a database beside the one of the URL, empty or a copy of another one, and returns its URL. */
export async function createDatabase(url: string, copied?: string): Promise<string> {
  const name = `d${randomBytes(8).toString("hex")}`;
  const template = copied === undefined ? "" : ` template ${new URL(copied).pathname.slice(1)}`;
  await query(url, `create database ${name}${template}`);
  const own = new URL(url);
  own.pathname = `/${name}`;
  return own.href;
}
