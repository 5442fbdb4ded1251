import assert from "node:assert/strict";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { test } from "node:test";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { usageStream } from "#shared/stores/usage-stream.ts";
import { findProgram } from "#shared/testing/binaries.ts";
import { until } from "#shared/testing/until.ts";
import { declareStream } from "../../../services/billing/intake/stream.ts";
import { startNatsNodes } from "../failover/nats-nodes.ts";
import { goExample, pythonExample, typescriptExample } from "./examples.ts";
import { encodeGolden, goldenBatches } from "./golden-events.ts";
import { type Example, goldenLines } from "./prove-consumer.ts";
import { publishAll, renewConsumer, startBooks, startConsumer, untilConsumed } from "./stage.ts";

// What `npm run test:examples` runs: each of three servers is one process more than a test of `npm test` may take.
const stillMs = 5_000;

/**
 * Runs an example against three servers: their leader is killed, the next one stands still, the consumer is killed and
 * gets everything again. Messages are published meanwhile, all of them several times.
 */
async function proveInCluster(example: Example): Promise<void> {
  await using nodes = await startNatsNodes();
  await using books = await startBooks();
  const connection = await connect({ servers: nodes.url.split(","), maxReconnectAttempts: -1, reconnectTimeWait: 200 });
  await using _connection = { [Symbol.asyncDispose]: () => connection.close() };
  const manager = await jetstreamManager(connection, { timeout: 10_000 });
  await declareStream(manager, { replicas: 3, maxBytes: 2 ** 26, ackWaitMs: 60_000 });
  await renewConsumer(manager);
  const environment = { ...example.environment, NATS_URL: nodes.nodes[0]?.url, DATABASE_URL: books.url };
  const start = () => startConsumer({ ...example, environment });
  const payloads = goldenBatches.map(encodeGolden);
  // Under the same names again, where an answer is lost: the stream holds each once.
  const publish = (name: string): Promise<unknown> =>
    until(
      "all is published",
      () =>
        publishAll(connection, name, payloads)
          .then(() => true)
          .catch(() => false),
      60_000,
    );
  const consumed = (): Promise<unknown> =>
    until(
      "all is consumed",
      () =>
        untilConsumed(manager)
          .then(() => true)
          .catch(() => false),
      60_000,
    );

  {
    await using consumer = await start();
    await publish("before");
    await consumed();
    const first = await nodes.leaderOf(usageStream);
    await first.kill();
    await publish("without the leader");
    await consumed();
    await first.restart();
    const second = await nodes.leaderOf(usageStream);
    process.kill(second.pid, "SIGSTOP");
    const published = publish("while one stands still");
    await wait(stillMs).finally(() => process.kill(second.pid, "SIGCONT"));
    await published;
    await consumed();
    await consumer.kill();
  }
  await renewConsumer(manager);
  await using consumer = await start();
  await consumed();
  const { end, totals, lines } = await consumer.stop();
  assert.equal(end, "exit code 0", lines.join("\n"));
  assert.deepEqual(totals, goldenLines());
  const { rows } = await books.pool.query("SELECT count(*)::int AS events FROM usage_event");
  assert.deepEqual(rows, [{ events: goldenBatches.flatMap(({ events }) => events).length }]);
}

const says = "counts each event once while a leader is killed and another stands still";

test(`the TypeScript consumer ${says}`, () => proveInCluster(typescriptExample));

const python = await pythonExample();
test(`the Python consumer ${says}`, { skip: "missing" in python && python.missing }, async () => {
  assert.ok("command" in python);
  await proveInCluster(python);
});

test(`the Go consumer ${says}`, { skip: findProgram("go") ? false : "go is not on this machine" }, async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "usage-go-"));
  await proveInCluster(await goExample(folder.path));
});
