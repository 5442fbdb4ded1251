import { Redis } from "ioredis";
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { connectNats } from "#shared/testing/nats-login.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { connect, ensureLogin, loginName } from "../../tools/migrate/logins.ts";
import type { Schema } from "../../tools/migrate/names.ts";
import type { Stack } from "../../tools/local/stack.ts";
import type { FleetName } from "./fleet.ts";

/** What the services of a name are told besides. */
export type Change = Record<FleetName, Record<string, string>>;

/** Logins that both the old and the new processes have; `dropOld` refuses the old ones and fails where it does not. */
export type ChangedLogins = { told: Change; dropOld: () => Promise<void> };

const patienceMs = 10_000;

/** Makes new logins to all stores beside those in use, as deploy/operations/rotation.md says. */
export async function addLogins(stack: Stack): Promise<ChangedLogins> {
  const postgres = await addPostgresLogins(stack);
  const nats = await addNatsUsers(stack);
  const redis = await addRedisPassword(stack);
  return {
    told: {
      "auth-quota": { DATABASE_URL: postgres.urls.auth_quota, REDIS_URL: redis.url },
      billing: { DATABASE_URL: postgres.urls.billing, NATS_URL: nats.urlOf(stack.stores.natsUrls.billing) },
      "video-task": {
        DATABASE_URL: postgres.urls.video_task,
        NATS_URL: nats.urlOf(stack.stores.natsUrls["video-task"]),
      },
      relay: { NATS_URL: nats.urlOf(stack.stores.natsUrls.relay) },
      console: { DATABASE_URL: postgres.urls.console },
    },
    dropOld: async () => {
      for (const drop of [postgres.dropOld, nats.dropOld, redis.dropOld]) await drop();
    },
  };
}

const newPassword = (): string => `p${randomBytes(16).toString("hex")}`;

async function addPostgresLogins({ logins, stores }: Stack) {
  await using owner = await connect(stores.urls.postgres);
  const add = async (old: string, schema: Schema): Promise<string> => {
    const url = new URL(old);
    Object.assign(url, { username: `${schema}_next`, password: newPassword() });
    await ensureLogin(owner, { url: url.href, schema });
    return url.href;
  };
  const urls: Record<Schema, string> = {
    auth_quota: await add(logins.authQuota, "auth_quota"),
    billing: await add(logins.billing, "billing"),
    video_task: await add(logins.videoTask, "video_task"),
    console: await add(logins.console, "console"),
  };
  const dropOld = async (): Promise<void> => {
    for (const old of Object.values(logins)) await query(stores.urls.postgres, `DROP ROLE "${loginName(old)}"`);
  };
  return { urls, dropOld };
}

async function addNatsUsers({ catalogFile, stores }: Stack) {
  const server = stores.processes.nats;
  if (!server) throw new Error("NATS is not one of our own");
  const file = join(dirname(catalogFile), "nats/nats.conf");
  const before = await readFile(file, "utf8");
  const [first, last] = [before.indexOf("users = [") + "users = [".length, before.lastIndexOf("]")];
  const inUse = before.slice(first, last);
  const operator = /^.*user: operator.*$/m.exec(inUse)?.[0] ?? "";
  const password = newPassword();
  const next = inUse
    .replace(operator, "")
    .replaceAll(/user: (\S+)/g, "user: $1-next")
    .replaceAll(/password: \S+/g, `password: ${password}`);
  const reload = async (users: string): Promise<void> => {
    await writeFile(file, before.slice(0, first) + users + before.slice(last));
    process.kill(server.pid, "SIGHUP");
  };
  const urlOf = (old: string): string => {
    const url = new URL(old);
    Object.assign(url, { username: `${url.username}-next`, password });
    return url.href;
  };
  const isAccepted = async (url: string): Promise<boolean> => {
    try {
      await (await connectNats(url)).close();
      return true;
    } catch {
      return false;
    }
  };
  const { relay } = stores.natsUrls;
  await reload(inUse + next);
  await until("NATS knows the new users", () => isAccepted(urlOf(relay)), patienceMs);
  const dropOld = async (): Promise<void> => {
    await reload(`\n${operator}\n${next}`);
    await until("NATS refuses the old users", async () => !(await isAccepted(relay)), patienceMs);
  };
  return { urlOf, dropOld };
}

async function addRedisPassword({ stores }: Stack) {
  const url = new URL(stores.redisUrl);
  const { username, password: old } = url;
  url.password = newPassword();
  const setUser = async (change: string): Promise<void> => {
    const redis = new Redis(stores.urls.redis, { lazyConnect: true });
    try {
      await redis.call("ACL", "SETUSER", username, change);
    } finally {
      redis.disconnect();
    }
  };
  await setUser(`>${url.password}`);
  return { url: url.href, dropOld: () => setUser(`<${old}`) };
}
