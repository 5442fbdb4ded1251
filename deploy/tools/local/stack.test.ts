import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { catalogFor } from "./demo-catalog.ts";
import { startStack, type StackOptions } from "./stack.ts";

const environment = { PATH: process.env["PATH"], DEMO_API_KEY: "demo" };
const catalog = catalogFor({}, { url: "http://127.0.0.1:1", videosUrl: "http://127.0.0.1:1" });

/** Options of a stack that runs on given stores, in a folder of its own. */
async function onGivenStores() {
  const resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "relay-stack-"));
  resources.defer(() => rm(folder, { recursive: true, force: true }));
  const stores = resources.use(await startStores({ redis: true, nats: true, postgres: true }));
  const postgres = await stores.postgres.createDatabase();
  const given = { redis: stores.redis.url, nats: stores.nats.url, postgres };
  const lines: string[] = [];
  const onLine = (source: string, line: string): void => void lines.push(`${source}: ${line}`);
  const options: StackOptions = { folder, environment, given, catalog, onLine };
  return { options, stores, lines, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

test("given stores are used as they are: no store is started, and none is stopped with the stack", async () => {
  await using place = await onGivenStores();
  {
    await using stack = await startStack(place.options);
    assert.deepEqual(stack.stores.processes, {});
    assert.deepEqual(stack.stores.urls, place.options.given);
    assert.equal(stack.demo, undefined, "a given catalog needs no demo upstream");
    const models = await fetch(`${stack.addresses.relayUrl}/v1/models`, {
      headers: { authorization: `Bearer ${stack.key.secret}`, connection: "close" },
    });
    assert.equal(models.status, 200);
  }
  assert.ok(place.stores.redis.isRunning() && place.stores.nats.isRunning() && place.stores.postgres.isRunning());
});

test("each service can be killed with SIGKILL and restarted on its port, and is not restarted unasked", async () => {
  await using place = await onGivenStores();
  await using stack = await startStack(place.options);
  for (const service of Object.values(stack.services)) {
    const pidBefore = service.pid;
    await service.kill();
    assert.equal(service.isRunning(), false);
    await service.restart();
    assert.notEqual(service.pid, pidBefore);
  }
  await until("relay is ready", async () => (await fetch(`${stack.addresses.opsUrls.relay}/readyz`)).ok, 30_000);
});

test("a start that fails says which service, with its last lines, and leaves no process behind", async () => {
  await using place = await onGivenStores();
  const broken = { ...place.options, catalog: "models: {}\nupstreams: nothing\n" };
  await assert.rejects(startStack(broken), /relay stopped \(exit code 1\)[^]*catalog.yaml:2: /);
  // The folder is free again and nothing holds its ports: the same folder starts.
  await using stack = await startStack(place.options);
  assert.equal(stack.services.relay.isRunning(), true);
});
