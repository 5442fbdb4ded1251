import { readdirSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { startProcess } from "#shared/testing/child-process.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { usageStream, usageSubject } from "#shared/usage-stream.ts";
import { declareStream } from "../../../services/billing/stream.ts";
import { serveAuthQuotaStub } from "../../../services/billing/testing/auth-quota-stub.ts";
import { encodeBatch, encodeEvent, makeEvent } from "../../../services/billing/testing/events.ts";
import { createLedger, findImbalance } from "../../../services/billing/testing/ledger.ts";
import { readProcessUse } from "../process-use.ts";

// Events booked per second: the stream is filled first, then one billing process books it into PostgreSQL, while
// NATS, PostgreSQL and a stand-in for auth-quota share the machine with it.
// Run: node_modules/.bin/node deploy/bench/billing/main.ts
const { values: options } = parseArgs({
  options: { events: { type: "string", default: "200000" }, batch: { type: "string", default: "256" } },
});
const total = Number(options.events);
const perMessage = Number(options.batch);
const say = (text: string): void => void process.stdout.write(`${text}\n`);

await using stores = await startStores({ nats: true, postgres: true });
await using stub = await serveAuthQuotaStub();

for (const accounts of [1, 100]) await measure(accounts);

async function measure(accounts: number): Promise<void> {
  await using ledger = await createLedger(stores.postgres);
  const connection = await connect({ servers: stores.nats.url });
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => undefined);
  await declareStream(manager, { replicas: 1, maxBytes: 4 * 2 ** 30, ackWaitMs: 60_000 });
  await publish(connection, accounts);
  await connection.close();
  stub.posts.length = 0;

  const environment = {
    LOG_LEVEL: "warn",
    GRPC_PORT: "0",
    OPS_PORT: "0",
    DATABASE_URL: ledger.url,
    NATS_URL: stores.nats.url,
    AUTH_QUOTA_ADDRESS: stub.address,
    USAGE_STREAM_MAX_BYTES: String(4 * 2 ** 30),
  };
  const startedMs = performance.now();
  const entry = new URL("../../../services/billing/main.ts", import.meta.url).pathname;
  const billing = await startProcess({
    command: process.execPath,
    args: [entry],
    environment,
    orphanSignal: "SIGKILL",
    onLine: say,
  });
  const booked = async (): Promise<number> => {
    // On a standing connection: making one for each look would take half a core from what is measured.
    const { rows } = await ledger.pool.query("SELECT coalesce(sum(charged_nanos), 0) AS sum FROM billing.account");
    return Number(rows[0].sum) / 400;
  };
  const first = await until("the first batch is booked", async () => await booked(), 30_000);
  const firstMs = performance.now();
  // From here on: what starting costs is not the price of an event.
  const before = useOf(billing.pid);
  await until("all is booked", async () => (await booked()) >= total, 600_000);
  const endMs = performance.now();
  const rate = Math.round((total - first) / ((endMs - firstMs) / 1_000));
  const after = useOf(billing.pid);
  const perEvent = (part: "billing" | "postgres" | "nats"): string =>
    ((after[part] - before[part]) / (total - first)).toFixed(1);
  const imbalance = await findImbalance(ledger.ownerUrl);
  say(
    `${accounts} account(s): ${rate} events/s (${Math.round(endMs - startedMs)} ms with start), ` +
      `CPU per event: billing ${perEvent("billing")} us, PostgreSQL ${perEvent("postgres")} us, ` +
      `NATS ${perEvent("nats")} us; ` +
      `${Math.round(readProcessUse(billing.pid).residentMb)} MB, ` +
      `${stub.posts.length} posts, ${imbalance.length} imbalances`,
  );
  await billing.end("SIGTERM");
}

function useOf(billingPid: number): Record<"billing" | "postgres" | "nats", number> {
  return {
    billing: readProcessUse(billingPid).cpuUs,
    postgres: cpuOfTree(stores.postgres.pid),
    nats: readProcessUse(stores.nats.pid).cpuUs,
  };
}

// PostgreSQL works in a process per connection; those that have ended count in none.
function cpuOfTree(pid: number): number {
  const children = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && parentOf(name) === pid);
  return [pid, ...children.map(Number)].reduce((sum, child) => sum + (readProcessUse(child).cpuUs || 0), 0);
}

function parentOf(pid: string): number {
  try {
    return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1]);
  } catch {
    return Number.NaN;
  }
}

async function publish(connection: NatsConnection, accounts: number): Promise<void> {
  const stream = jetstream(connection);
  for (let done = 0; done < total; done += perMessage) {
    const events = Array.from({ length: Math.min(perMessage, total - done) }, (_, index) => {
      const number = (done + index) % accounts;
      return encodeEvent(
        makeEvent({ accountId: `acct_${number}`, keyId: `key_${number}`, sequence: BigInt(done + index) }),
      );
    });
    await stream.publish(usageSubject, encodeBatch(events));
  }
}
