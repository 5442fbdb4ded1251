import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Authority } from "#shared/testing/authority.ts";
import { findStoreBinary, type StoreName } from "#shared/testing/binaries.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { natsProgram } from "#shared/testing/nats.ts";
import { showCertificate } from "#shared/testing/postgres-tls.ts";
import { redisProgram } from "#shared/testing/redis.ts";
import { startStore } from "#shared/testing/store.ts";
import { startStores } from "#shared/testing/stores.ts";
import type { StoreUrls } from "../../tools/local/local-stores.ts";

export type EncryptedStores = AsyncDisposable & {
  urls: StoreUrls;
  /** Where a user of NATS logs in; `urls` has the one of billing. */
  natsUrlOf: (user: "relay" | "billing" | "video-task") => string;
};

const usersFile = join(import.meta.dirname, "../../stores/nats-users.conf");

/** The three stores with certificates of an authority; NATS has a user for each service and wants a certificate. */
export async function startEncryptedStores(folder: string, authority: Authority): Promise<EncryptedStores> {
  await using resources = new AsyncDisposableStack();
  const pair = async (name: string) => {
    const files = { certFile: join(folder, `${name}.cert`), keyFile: join(folder, `${name}.key`) };
    await authority.issue(files, name, "DNS:localhost");
    return files;
  };
  const place = (name: StoreName) => {
    const binary = findStoreBinary(name) ?? name;
    return { binary, folder: join(folder, name), orphanSignal: "SIGKILL" as const };
  };
  const { caFile } = authority;

  const forNats = await pair("nats-server");
  const settings = join(folder, "nats.conf");
  const tls = `cert_file: "${forNats.certFile}", key_file: "${forNats.keyFile}", ca_file: "${caFile}", verify: true`;
  const users = readFileSync(usersFile, "utf8").replaceAll(/\$NATS_\w+_PASSWORD/g, '"p@ss"');
  writeFileSync(settings, `tls { ${tls} }\n${users}`);
  const natsPlan = natsProgram(place("nats"));
  const withSettings = (port: number) => {
    const planned = natsPlan.plan(port);
    return { ...planned, args: [...planned.args, "-c", settings] };
  };
  const nats = resources.use(await startStore({ ...natsPlan, plan: withSettings }));

  const forRedis = await pair("redis-server");
  const tlsPort = await freePort();
  const files = [
    "--tls-cert-file",
    forRedis.certFile,
    "--tls-key-file",
    forRedis.keyFile,
    "--tls-ca-cert-file",
    caFile,
  ];
  const user = "--user quota on >p@ss ~{auth-quota* +@all -@dangerous +info".split(" ");
  const redisPlan = redisProgram(place("redis"));
  const withTls = (port: number) => {
    const planned = redisPlan.plan(port);
    const more = ["--tls-port", String(tlsPort), "--tls-auth-clients", "no", ...files, ...user];
    return { ...planned, args: [...planned.args, ...more] };
  };
  resources.use(await startStore({ ...redisPlan, plan: withTls }));

  const { postgres } = resources.use(await startStores({ postgres: true }));
  await showCertificate(postgres.url, await pair("postgres-server"));
  const database = (await postgres.createDatabase()).replace("127.0.0.1", "localhost");
  const owned = resources.move();
  const natsUrlOf: EncryptedStores["natsUrlOf"] = (user) => `nats://${user}:p%40ss@localhost:${nats.port}`;
  return {
    natsUrlOf,
    urls: {
      nats: natsUrlOf("billing"),
      redis: `rediss://quota:p%40ss@localhost:${tlsPort}`,
      postgres: `${database}?sslmode=verify-full&sslrootcert=${caFile}`,
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
