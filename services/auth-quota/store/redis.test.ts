import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { makeAuthority } from "#shared/testing/authority.ts";
import { findStoreBinary } from "#shared/testing/binaries.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { redisProgram } from "#shared/testing/redis.ts";
import { startStore } from "#shared/testing/store.ts";
import { until } from "#shared/testing/until.ts";
import { connectRedis } from "./redis.ts";
import { readRedisUrl } from "./redis-node.ts";

const folder = mkdtempSync(join(tmpdir(), "redis-tls-"));
const [ours, theirs] = await Promise.all([makeAuthority(folder, "ours"), makeAuthority(folder, "theirs")]);
const shown = { certFile: join(folder, "server.cert"), keyFile: join(folder, "server.key") };
await ours.issue(shown, "server", "DNS:localhost");
const caFile = join(folder, "ca.pem");
copyFileSync(ours.caFile, caFile);
const tlsPort = await freePort();

/** A Redis that takes TLS beside plain connections, and one user beside the one that tests use. */
async function start() {
  const binary = findStoreBinary("redis") ?? "redis-server";
  const program = redisProgram({ binary, folder: join(folder, "data"), orphanSignal: "SIGKILL" });
  const tls = ["--tls-port", String(tlsPort), "--tls-auth-clients", "no", "--tls-ca-cert-file", ours.caFile];
  const user = ["--user", "quota", "on", ">p@ss:word", "~{auth-quota}*", "+@all"];
  const files = ["--tls-cert-file", shown.certFile, "--tls-key-file", shown.keyFile];
  const plan = (port: number) => {
    const planned = program.plan(port);
    return { ...planned, args: [...planned.args, ...tls, ...files, ...user] };
  };
  return startStore({ ...program, plan });
}

const server = await start();
after(async () => {
  await server[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const lines: string[] = [];
const log = createLog("test", "info", { write: (line) => void lines.push(line) });
const login = `quota:${encodeURIComponent("p@ss:word")}`;
const urlOf = (user: string, host = "localhost"): string => `rediss://${user}@${host}:${tlsPort}`;

/** Waits for the reason why a connection is not made. */
async function refusalOf(url: string, file = caFile): Promise<string> {
  lines.length = 0;
  using redis = connectRedis(url, log, file);
  await until("it is refused", () => lines.some((line) => line.includes("redis connection")));
  assert.notEqual(redis.status, "ready");
  return lines.join("");
}

test("rediss:// encrypts and logs in with user and password; another authority, name or password is refused", async () => {
  using redis = connectRedis(urlOf(login), log, caFile);
  await until("redis is ready", () => redis.status === "ready");
  assert.equal(await redis.call("ACL", "WHOAMI"), "quota");
  assert.equal(await redis.set("{auth-quota}:x", "1"), "OK");
  assert.match(await refusalOf(urlOf(login), theirs.caFile), /self-signed|unable to verify/);
  assert.match(await refusalOf(urlOf(login, "127.0.0.1")), /altnames/);
  const wrong = await refusalOf(urlOf("quota:hunter2"));
  assert.match(wrong, /WRONGPASS/);
  assert.doesNotMatch(wrong, /hunter2/);
});

test("another authority's file counts at the next connecting", async () => {
  using redis = connectRedis(urlOf(login), log, caFile);
  await until("redis is ready", () => redis.status === "ready");
  await theirs.issue(shown, "server", "DNS:localhost");
  copyFileSync(theirs.caFile, caFile);
  await server.kill();
  await until("the loss is noticed", () => redis.status !== "ready");
  await server.restart();
  await until("redis is ready again", () => redis.status === "ready");
});

test("a file of authorities that is missing, and a cluster of which no node answers, are tried again for ever", async () => {
  assert.match(await refusalOf(urlOf(login), join(folder, "none")), /ENOENT/);
  assert.match(await refusalOf("redis://127.0.0.1:1,redis://127.0.0.1:2"), /no node of the Redis Cluster answers/);
});

test("what is no URL of Redis is refused without its text", () => {
  for (const url of [
    "localhost:6379",
    "redis://a,rediss://b",
    "https://quota:hunter2@redis",
    "",
    "redis://x:hunter2@",
  ]) {
    const wrong = (): unknown => readRedisUrl(url, "");
    assert.throws(
      wrong,
      (error: Error) => /REDIS_URL/.test(error.message) && !JSON.stringify(error).includes("hunter2"),
    );
  }
  const place = readRedisUrl("redis://u:p%40@[::1]/2", "");
  assert.deepEqual(place.nodes, [{ host: "::1", port: 6379, serverName: "" }]);
  assert.deepEqual(place.login, { username: "u", password: "p@", db: 2 });
});

test("Sentinels are read from one URL, with a login of their own", () => {
  const place = readRedisUrl("rediss+sentinel://u:p%40@s1:26380,s2,[::1]/money/2?sentinelPassword=p%26w", "ca.pem");
  assert.deepEqual(
    place.nodes.map(({ host, port }) => [host, port]),
    [
      ["s1", 26_380],
      ["s2", 26_379],
      ["::1", 26_379],
    ],
  );
  assert.deepEqual(place.login, { username: "u", password: "p@", db: 2 });
  assert.deepEqual(place.sentinel, { master: "money", login: { password: "p&w" } });
  assert.equal(place.isTls, true);
  for (const url of ["redis+sentinel://u:hunter2@s1", "redis+sentinel:///money", "redis+sentinel://s1,,s2/money"]) {
    assert.throws(
      () => readRedisUrl(url, ""),
      (error: Error) => !error.message.includes("hunter2"),
    );
  }
});
