import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { after, test } from "node:test";
import { Redis } from "ioredis";
import { connect } from "@nats-io/transport-node";
import { query } from "#shared/testing/postgres.ts";
import { chat, makeCall } from "./ask.ts";
import { startWorld } from "./world.ts";

// What whoever stole a login of a store can do with it, at the servers as `npm start` has them. The rest of the table
// in services/shared/README.md#what-a-stolen-credential-can-do is tested where the table says.

const given: Record<string, Record<string, string>> = {};
const world = await startWorld({
  console: {},
  reroute: (name, variables) => {
    given[name] = variables;
    return variables;
  },
});
after(() => world[Symbol.asyncDispose]());
const { urls } = world.stack.stores;
const variable = (service: string, name: string): string => given[service]?.[name] ?? assert.fail(`no ${name}`);

const redisOf = (url: string): Redis => {
  const redis = new Redis(url, { enableReadyCheck: false, disableClientInfo: true, retryStrategy: () => null });
  redis.on("error", () => undefined);
  after(() => redis.disconnect());
  return redis;
};

const refusedByRedis = { message: /^(?:ERR )?(?:NOPERM|NOAUTH|WRONGPASS)/ };

test("stolen: auth-quota's Redis login: its own keys, and nothing of the server", async () => {
  const redis = redisOf(variable("auth-quota", "REDIS_URL"));
  assert.equal(await redis.set("{auth-quota}:call:forged", "x"), "OK", "it may write what is auth-quota's");
  const refused: [command: string, ...values: string[]][] = [
    ["SET", "other", "x"],
    ["GET", "other"],
    ["DEL", "{auth-quota}:call:forged"],
    ["KEYS", "*"],
    ["FLUSHALL"],
    ["FLUSHDB"],
    ["CONFIG", "SET", "dir", "/tmp"],
    ["CONFIG", "GET", "*"],
    ["ACL", "SETUSER", "mine", "on", "nopass", "+@all"],
    ["ACL", "LIST"],
    ["SHUTDOWN", "NOSAVE"],
    ["REPLICAOF", "127.0.0.1", "1"],
    ["MODULE", "LOAD", "/tmp/x.so"],
    ["DEBUG", "SLEEP", "0"],
    ["MONITOR"],
    ["CLIENT", "LIST"],
    ["SCRIPT", "FLUSH"],
    ["FUNCTION", "FLUSH"],
    ["SUBSCRIBE", "x"],
    ["EVAL", "return redis.call('FLUSHALL')", "0"],
    ["EVAL", "return redis.call('GET', 'other')", "0"],
  ];
  for (const [command, ...values] of refused) {
    const asking = redis.call(command, ...values);
    await assert.rejects(
      asking,
      { message: /NOPERM|ACL failure|can't (?:run|access)|not allowed/ },
      [command, ...values].join(" "),
    );
  }
  const operator = redisOf(urls.redis);
  await operator.del("{auth-quota}:call:forged");
});

test("stolen: none, inside the network: no store answers whoever does not log in", async () => {
  const { host } = new URL(urls.redis);
  const asked = [["PING"], ["GET", "{auth-quota}:service"], ["INFO"], ["EVAL", "return 1", "0"]] as const;
  for (const [command, ...values] of asked) {
    await assert.rejects(redisOf(`redis://${host}`).call(command, ...values), refusedByRedis, command);
  }
  for (const login of ["auth-quota:guessed", "default:guessed", "default:"]) {
    await assert.rejects(redisOf(`redis://${login}@${host}`).ping(), login);
  }
  await assert.rejects(connect({ servers: new URL(urls.nats).host, reconnect: false }), /Authorization Violation/i);
  const postgres = new URL(urls.postgres);
  postgres.password = "guessed";
  await assert.rejects(query(postgres.href, "select 1"), /password authentication failed/);
});

const schemas: Record<string, string> = {
  "auth-quota": "auth_quota",
  billing: "billing",
  "video-task": "video_task",
};

for (const [service, schema] of Object.entries(schemas)) {
  test(`stolen: a service's PostgreSQL login: ${service}'s reads no other schema and changes no table`, async () => {
    const url = variable(service, "DATABASE_URL");
    const { rows } = (await query(
      urls.postgres,
      `select schemaname, tablename from pg_tables where schemaname in ('auth_quota', 'billing', 'video_task')`,
    )) as { rows: { schemaname: string; tablename: string }[] };
    assert.ok(rows.length > 10);
    for (const { schemaname, tablename } of rows) {
      const table = `${schemaname}."${tablename}"`;
      if (schemaname !== schema) await assert.rejects(query(url, `select from ${table}`), /permission denied/, table);
      await assert.rejects(query(url, `drop table ${table}`), /permission denied|must be owner/, table);
      await assert.rejects(query(url, `truncate ${table}`), /permission denied/, table);
    }
    for (const statement of [
      `create table ${schema}.mine (a int)`,
      "create table public.mine (a int)",
      "create role mine",
      `alter role current_user superuser`,
      "select pg_read_file('/etc/passwd')",
      "copy (select 1) to program 'true'",
      "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'postgres'",
      `set role postgres`,
    ]) {
      const refusal = /permission denied|must be|only roles|Only roles|denied to/i;
      await assert.rejects(query(url, statement), refusal, statement);
    }
  });
}

/** What a member of the console's role may; its login is in no variable of a service that this test reads. */
const asConsole = (statement: string) => query(urls.postgres, `set role console_rw; ${statement}`);

test("stolen: console's PostgreSQL login: makes itself an operator, and hides nothing of it", async () => {
  const [personId, token] = [randomUUID(), randomBytes(32).toString("base64url")];
  const pages = world.stack.console?.url ?? assert.fail("no console");
  const look = () =>
    fetch(new URL("/operator/accounts", pages), { headers: { cookie: `session=${token}` }, redirect: "manual" });
  assert.notEqual((await look()).status, 200);
  await asConsole(
    `insert into console.person (person_id, email, password_hash, is_operator)
       values ('${personId}', 'thief@example.org', '', true);
     insert into console.session (session_id, token_hash, person_id, is_complete, address, browser)
       values (gen_random_uuid(), sha256('${token}'), '${personId}', true, '', '')`,
  );
  assert.equal((await look()).status, 200, "so it can do what the console's certificate can");
  for (const statement of [
    "delete from console.audit_entry",
    "update console.audit_entry set address = ''",
    "truncate console.audit_entry",
    "delete from console.person",
    "delete from console.top_up",
    "update console.top_up set amount_nanos = 1",
    "select from billing.usage_quarantine",
    "select from auth_quota.key",
    "select from video_task.task",
    "create table console.mine (a int)",
    "create role mine",
  ]) {
    await assert.rejects(asConsole(statement), /permission denied/, statement);
  }
});

test("stolen: video-task's PostgreSQL login: gives videos away and reads prompts, and cannot delete any", async () => {
  const url = variable("video-task", "DATABASE_URL");
  const { rows } = (await query(
    url,
    `select column_name as name from information_schema.columns
     where table_schema = 'video_task' and table_name = 'task'
       and has_column_privilege('video_task.task', column_name, 'select, update')`,
  )) as { rows: { name: string }[] };
  const names = rows.map(({ name }) => name);
  // What a caller is given goes by these; where a file is read from is guarded by the relay.
  for (const name of ["account_id", "prompt", "content_url", "state"]) assert.ok(names.includes(name), name);
  for (const table of ["task", "money_event", "charges_checked"]) {
    await assert.rejects(query(url, `delete from video_task.${table}`), /permission denied/, table);
  }
});

/** The passwords in variables that are addresses, and those that are keys or passwords themselves. */
const secretsOf = (variables: Record<string, string>): string[] =>
  Object.entries(variables).flatMap(([name, value]) => {
    if (/(?:SECRET|PASSWORD|TOKEN|_KEY)$/.test(name)) return [value];
    return value.split(",").flatMap((part) => (URL.canParse(part) ? [new URL(part).password] : []));
  });

async function argumentsOfProcesses(): Promise<string[]> {
  const processes = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  // Some end while they are looked at.
  const read = processes.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""));
  return (await Promise.all(read)).filter((text) => text !== "");
}

test("no process has a secret among its arguments, where every user of the machine reads it", async (context) => {
  if (process.platform !== "linux") return context.skip("only Linux tells the arguments of processes as files");
  const customer = await world.createCustomer();
  const found = [...Object.values(given), world.stack.stores.urls as unknown as Record<string, string>].flatMap(
    secretsOf,
  );
  const secrets = [...new Set([customer.secret, ...found])].filter((secret) => secret.length >= 8);
  assert.ok(secrets.length > 8, `each service has logins of its own: ${secrets.length}`);
  const all = await argumentsOfProcesses();
  assert.ok(
    all.some((text) => /services\/auth-quota\/main\.m?[jt]s/.test(text)),
    "the services are among them",
  );
  const shown = all.filter((text) => secrets.some((secret) => text.includes(secret)));
  assert.deepEqual(
    shown.map((text) => text.split("\0")[0]),
    [],
  );
});

test("the services themselves are refused nothing by Redis", async () => {
  const operator = redisOf(urls.redis);
  await operator.call("ACL", "LOG", "RESET");
  const customer = await world.createCustomer();
  const { rid } = await makeCall(world.relayUrl, customer.secret, { side: chat });
  await world.untilBooked(customer.accountId, rid);
  await world.holdsOf(customer.accountId);
  await world.stack.services.authQuota.kill("SIGTERM");
  await world.stack.services.authQuota.restart();
  await makeCall(world.relayUrl, customer.secret, { side: chat });
  assert.deepEqual(await operator.call("ACL", "LOG"), []);
});
