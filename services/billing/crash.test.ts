import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pace } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { startProcess, type ChildProcess } from "#shared/testing/child-process.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { consumerName } from "./intake/stream.ts";
import { serveAuthQuotaStub } from "./testing/auth-quota-stub.ts";
import { encodeBatch, encodeEvent, makeEvent } from "./testing/events.ts";
import { countLines, createLedger, findImbalance, readLedger } from "./testing/ledger.ts";
import { startNats } from "./testing/nats.ts";

const entry = fileURLToPath(new URL("main.ts", import.meta.url));

type Addresses = { url: string; natsUrl: string; authQuotaAddress: string };

async function startMain({ url, natsUrl, authQuotaAddress }: Addresses): Promise<ChildProcess> {
  const environment = {
    LOG_LEVEL: "info",
    GRPC_PORT: "0",
    OPS_PORT: "0",
    DATABASE_URL: url,
    NATS_URL: natsUrl,
    AUTH_QUOTA_ADDRESS: authQuotaAddress,
    HOLD_PROOF_KEYS: holdProofKeys,
    ALLOW_PLAIN_GRPC: "always",
    USAGE_ACK_WAIT_MS: "1000",
  };
  return await startProcess({ command: process.execPath, args: [entry], environment, orphanSignal: "SIGKILL" });
}

async function startAll() {
  const resources = new AsyncDisposableStack();
  const { postgres } = resources.use(await startStores({ postgres: true }));
  const nats = resources.use(await startNats());
  const stub = resources.use(await serveAuthQuotaStub());
  const ledger = resources.use(await createLedger(postgres));
  const connection = await nats.connect();
  resources.defer(() => connection.close());
  const start = async (): Promise<ChildProcess> => {
    const child = await startMain({ url: ledger.url, natsUrl: nats.url, authQuotaAddress: stub.address });
    resources.defer(() => child.end("SIGKILL"));
    return child;
  };
  const publish = (records: Uint8Array[]) =>
    until(
      "published",
      () => jetstream(connection).publish(usageSubject, encodeBatch(records), { timeout: 1_000 }),
      20_000,
    );
  const lineCount = () => countLines(ledger.ownerUrl);
  const manager = await jetstreamManager(connection);
  const unacknowledged = async () => (await manager.consumers.info(usageStream, consumerName)).num_ack_pending;
  return {
    stub,
    ledger,
    start,
    publish,
    lineCount,
    unacknowledged,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

const encoded = (count: number): Uint8Array[] => Array.from({ length: count }, () => encodeEvent(makeEvent()));

test("killed -9 between commit and acknowledgement: the next process books nothing twice and tells", async () => {
  await using all = await startAll();
  const { stub } = all;
  // Telling comes after the commit and before the acknowledgement: who holds it holds billing between the two.
  const held = Promise.withResolvers<void>();
  stub.onPost = () => held.promise;
  const first = await all.start();
  await all.publish(encoded(30));
  await until("the batch is committed", async () => (await all.lineCount()) === 30, 20_000);
  assert.equal(await all.unacknowledged(), 1);
  await first.end("SIGKILL");
  held.resolve();
  stub.posts.length = 0;
  stub.onPost = () => Promise.resolve();

  await all.start();
  await until("auth-quota is told of all calls", () => stub.posts.flatMap(({ calls }) => calls).length >= 30, 20_000);
  await until("the message is acknowledged", async () => (await all.unacknowledged()) === 0, 20_000);
  assert.equal(await all.lineCount(), 30);
  assert.deepEqual(await findImbalance(all.ledger.ownerUrl), []);
  assert.equal(stub.balanceOf("acct_test"), -12_000n);
});

test("killed -9 again and again under load: every event is booked once, the balance told is right", async () => {
  await using all = await startAll();
  let published = 0;
  let isLoading = true;
  let billing = await all.start();
  const load = (async () => {
    while (isLoading) {
      await all.publish(encoded(50));
      published += 50;
      await pace(5);
    }
  })();
  for (let kill = 0; kill < 4; kill += 1) {
    const before = await all.lineCount();
    await until("it books", async () => (await all.lineCount()) > before + 200, 30_000);
    // Somewhere within a batch: its place differs from run to run.
    await pace(Math.random() * 50);
    await billing.end("SIGKILL");
    billing = await all.start();
  }
  isLoading = false;
  await load;
  await until("all is booked", async () => (await all.lineCount()) >= published, 60_000);
  await until("all is acknowledged", async () => (await all.unacknowledged()) === 0, 20_000);
  assert.equal(await all.lineCount(), published);
  assert.deepEqual(await findImbalance(all.ledger.ownerUrl), []);
  await until("the balance is told", () => all.stub.balanceOf("acct_test") === BigInt(published) * -400n, 20_000);
});

function opsUrlOf(child: ChildProcess): string | undefined {
  const line = child.lastLines().find((text) => text.includes("billing is ready"));
  return line && `http://127.0.0.1:${JSON.parse(line).opsPort}`;
}

test("SIGTERM: what is in hand is finished, the process ends with code 0, nothing is left to repeat", async () => {
  await using all = await startAll();
  const billing = await all.start();
  await all.publish(encoded(100));
  await until("it books", async () => (await all.lineCount()) === 100, 20_000);
  const opsUrl = await until("it says its port", () => opsUrlOf(billing));
  assert.equal((await fetch(`${opsUrl}/readyz`)).status, 200);
  assert.match(await (await fetch(`${opsUrl}/metrics`)).text(), /billing_events_booked_total\{kind="charge".*\} 100/);
  await billing.end("SIGTERM");
  assert.equal(await billing.ended, "exit code 0", billing.lastLines().join("\n"));
  assert.equal(await all.unacknowledged(), 0);
  assert.deepEqual((await readLedger(all.ledger.ownerUrl)).quarantine, []);
});
