import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { type ConsumerConfig, jetstream, jetstreamManager, type JetStreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import pg from "pg";
import { findStoreBinary } from "#shared/testing/binaries.ts";
import { startProcess } from "#shared/testing/child-process.ts";
import { natsProgram } from "#shared/testing/nats.ts";
import { startStore } from "#shared/testing/store.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { usageHeaders, usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { declareStream } from "../../../services/billing/intake/stream.ts";
import { repository } from "../../tools/checks/run.ts";

export const examples = join(repository, "proto/usage/examples");

/** NATS with the users of a configuration, whose passwords are in `environment`. */
export async function startNatsWith(configuration: string, environment: Record<string, string>) {
  const binary = findStoreBinary("nats");
  if (!binary) throw new Error("nats is not installed; `npm test` installs it, or says how");
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "usage-nats-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const program = natsProgram({ binary, folder, orphanSignal: "SIGKILL" });
  const store = resources.use(
    await startStore({
      ...program,
      plan: (port) => {
        const plan = program.plan(port);
        const args = [...plan.args, "-c", configuration];
        return { ...plan, args, environment: { ...process.env, ...environment } };
      },
    }),
  );
  const owned = resources.move();
  return { store, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** NATS with the users of nats-authorization.conf and the stream as billing declares it. */
export async function startNatsWithUsers() {
  await using resources = new AsyncDisposableStack();
  const [servicesPassword, teamPassword] = [randomPassword(), randomPassword()];
  const environment = { MODEL_RELAY_PASSWORD: servicesPassword, BILLING_TEAM_PASSWORD: teamPassword };
  const { store } = resources.use(await startNatsWith(join(examples, "nats-authorization.conf"), environment));
  const teamUrl = `nats://billing-team:${teamPassword}@127.0.0.1:${store.port}`;
  const services = await connect({ servers: store.url, user: "model-relay", pass: servicesPassword });
  resources.defer(() => services.close());
  const team = await connect({
    servers: store.url,
    user: "billing-team",
    pass: teamPassword,
    inboxPrefix: "_INBOX_billing-team",
  });
  resources.defer(() => team.close());
  const manager = await jetstreamManager(services);
  await declareStream(manager, { replicas: 1, maxBytes: 2 ** 26, ackWaitMs: 60_000 });
  /** The server stands still for so long, its connections with it; then it goes on. */
  const pause = async (ms: number): Promise<void> => {
    process.kill(store.pid, "SIGSTOP");
    await wait(ms).finally(() => process.kill(store.pid, "SIGCONT"));
  };
  const owned = resources.move();
  return {
    manager,
    services,
    team,
    teamUrl,
    pause,
    restart: store.restart,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

// A value of the environment is read like one of the configuration: digits alone would be a number.
export const randomPassword = (): string => `p${randomBytes(12).toString("hex")}`;

/** The configuration of one of the team's consumers as it is committed. */
export async function readConfig(file: "consumer.json" | "replay.json"): Promise<ConsumerConfig> {
  return JSON.parse(await readFile(join(examples, file), "utf8")) as ConsumerConfig;
}

/** A database with the tables of schema.sql. */
export async function startBooks() {
  await using resources = new AsyncDisposableStack();
  const { postgres } = resources.use(await startStores({ postgres: true }));
  const url = await postgres.createDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  pool.on("error", () => undefined);
  resources.defer(() => pool.end());
  await pool.query(await readFile(join(examples, "schema.sql"), "utf8"));
  const owned = resources.move();
  return { url, pool, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Makes the team's consumer anew: it starts at the first message. What is not acknowledged comes again in a second. */
export async function renewConsumer(manager: JetStreamManager): Promise<void> {
  const { durable_name: name = "", ...config } = await readConfig("consumer.json");
  await manager.consumers.delete(usageStream, name).catch(() => undefined);
  await manager.consumers.add(usageStream, { ...config, durable_name: name, ack_wait: 1_000_000_000 });
}

/** Puts messages on the stream, under ids that begin with `name`: NATS drops none that came under another name. */
export async function publishAll(nats: NatsConnection, name: string, payloads: readonly Uint8Array[]): Promise<void> {
  for (const [number, payload] of payloads.entries()) {
    const id = `${name}:${number}`;
    const headers = usageHeaders("relay", id, Date.now());
    await jetstream(nats).publish(usageSubject, payload, { msgID: id, headers });
  }
}

type ConsumerProcess = { command: string; args: string[]; environment: NodeJS.ProcessEnv };

/** Starts a consumer; `stop` asks it to end and gives the totals that it prints. */
export async function startConsumer({ command, args, environment }: ConsumerProcess) {
  const lines: string[] = [];
  const onLine = (line: string): void => void lines.push(line);
  const plan = { command, args, environment: { ...process.env, ...environment }, onLine };
  const consumer = await startProcess({ ...plan, orphanSignal: "SIGKILL" });
  await until("it reads", () => {
    if (!consumer.isRunning()) throw new Error(lines.join("\n"));
    return lines.some((line) => line.endsWith("reading"));
  });
  return {
    kill: () => consumer.end("SIGKILL"),
    stop: async () => {
      await consumer.end("SIGTERM");
      const totals = lines.filter((line) => line.endsWith(" provisional"));
      return { end: await consumer.ended, totals, lines };
    },
    [Symbol.asyncDispose]: () => consumer.end("SIGKILL"),
  };
}

/** Waits until the team's consumer has nothing left to deliver or to be acknowledged. */
export async function untilConsumed(manager: JetStreamManager): Promise<void> {
  await until(
    "all is acknowledged",
    async () => {
      const { num_pending: pending, num_ack_pending: unacknowledged } = await manager.consumers.info(
        usageStream,
        "billing-team",
      );
      return pending === 0 && unacknowledged === 0;
    },
    30_000,
  );
}
