import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { startApp } from "./app.ts";
import { readConfig } from "./config.ts";

test("a replica is not ready before its Redis is established: it could decide nothing", async () => {
  await using stores = await startStores({ redis: true });
  const away = `127.0.0.1:${await freePort()}`;
  const own = {
    ALLOW_PLAIN_GRPC: "always",
    REDIS_URL: stores.redis.url,
    DATABASE_URL: `postgres://${away}/none`,
    BILLING_ADDRESS: away,
    HOLD_PROOF_KEYS: holdProofKeys,
  };
  const config = { ...readConfig(own), GRPC_PORT: 0, OPS_PORT: 0, DRAIN_MS: 0 };
  await using app = await startApp(config, createLog("auth-quota", "silent"));
  const readyz = async (): Promise<string> => (await fetch(`http://127.0.0.1:${app.opsPort}/readyz`)).text();
  await until("Redis is connected", async () => !/redis is (?:wait|connecting|connect)\n/.test(await readyz()));
  assert.equal(await readyz(), "redis is not established yet\n");
});
