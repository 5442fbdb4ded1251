import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { jetstreamManager, type ConsumerConfig } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { findProgram } from "#shared/testing/binaries.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { pythonWith } from "#shared/testing/python.ts";
import { until } from "#shared/testing/until.ts";
import { declareStream } from "../../../services/billing/intake/stream.ts";
import { repository, run } from "../../tools/checks/run.ts";
import { startClickHouse } from "./clickhouse.ts";
import { encodeGolden, goldenBatches } from "./golden-events.ts";
import { buildKafka, sinks, startBridge, startKafka } from "./kafka.ts";
import { goldenLines } from "./prove-consumer.ts";
import { publishAll, randomPassword, startNatsWith } from "./stage.ts";

// What `npm run test:examples` runs: it compiles Go and fetches ClickHouse's engine.
const payloads = goldenBatches.map(encodeGolden);
const bridgedMs = 120_000;

describe("nats-kafka", { skip: findProgram("go") ? false : "go is not on this machine" }, () => {
  test("brings every message with its headers, whatever dies meanwhile", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "usage-kafka-"));
    await buildKafka(folder.path);
    const passwords = { MODEL_RELAY_PASSWORD: randomPassword(), NATS_KAFKA_PASSWORD: randomPassword() };
    await using nats = await startNatsWith(join(sinks, "nats-authorization.conf"), passwords);
    const services = await connect({
      servers: nats.store.url,
      user: "model-relay",
      pass: passwords.MODEL_RELAY_PASSWORD,
      maxReconnectAttempts: -1,
    });
    await using _services = { [Symbol.asyncDispose]: () => services.close() };
    const manager = await jetstreamManager(services);
    await declareStream(manager, { replicas: 1, maxBytes: 2 ** 26, ackWaitMs: 60_000 });
    const config = JSON.parse(await readFile(join(sinks, "nats-kafka.json"), "utf8")) as ConsumerConfig;
    await manager.consumers.add(usageStream, { ...config, ack_wait: 2_000_000_000 });
    await using kafka = await startKafka(folder.path, usageSubject);
    const own = `nats://nats-kafka:${passwords.NATS_KAFKA_PASSWORD}@127.0.0.1:${nats.store.port}`;
    const start = () => startBridge(folder.path, { nats: own, kafka: kafka.address });

    const untilBridged = (...names: string[]): Promise<unknown> =>
      until(
        `${names.join()} is in Kafka`,
        () => {
          const ids = new Set(kafka.records.map(({ headers }) => headers["ce-id"]));
          return names.every((name) => payloads.every((_, number) => ids.has(`${name}:${number}`)));
        },
        bridgedMs,
      );
    {
      await using bridge = await start();
      await publishAll(services, "first", payloads);
      await untilBridged("first");
      await bridge.kill();
    }
    await publishAll(services, "while it is away", payloads);
    await using _bridge = await start();
    await untilBridged("first", "while it is away");
    await nats.store.restart();
    await until(
      "the services publish again",
      () => publishAll(services, "after a restart", payloads).then(() => true),
      bridgedMs,
    );
    await untilBridged("after a restart");

    for (const { value, headers } of kafka.records) {
      const number = Number(headers["ce-id"]?.split(":")[1]);
      assert.deepEqual(value, Buffer.from(payloads[number] ?? []));
      assert.equal(headers["ce-type"], "usage.v1.recorded");
    }
    await until("all is acknowledged", async () => {
      const { num_pending: pending, num_ack_pending: open } = await manager.consumers.info(usageStream, "nats-kafka");
      return pending === 0 && open === 0;
    });
  });
});

const python = await pythonWith("chdb==4.4.0", "duckdb==2.0.1", "moto[s3,server]==5.2.5");

/** A file of usage.proto where ClickHouse finds it, with the import that its server comes with. */
async function writeSchema(folder: string): Promise<string> {
  const timestamp =
    'syntax = "proto3"; package google.protobuf; message Timestamp { int64 seconds = 1; int32 nanos = 2; }';
  await mkdir(join(folder, "google/protobuf"), { recursive: true });
  await writeFile(join(folder, "google/protobuf/timestamp.proto"), timestamp);
  const file = join(folder, "usage.proto");
  await writeFile(file, await readFile(join(repository, "proto/usage/v1/usage.proto")));
  return file;
}

const readSql = (name: string): Promise<string> => readFile(join(sinks, name), "utf8");
const statementsOf = (sql: string): string[] => sql.split(/;\n/).filter((text) => text.trim() !== "");
const kafkaEngine = /\n\) ENGINE = Kafka [^;]*/;

// The embedded engine has no thread that reads from Kafka: records are put in by hand, into columns as that would have.
const putByHand = ",\n _error String, _topic String, _offset UInt64, _raw_message String) ENGINE = Null";

/** As much of S3 as a bucket is. */
async function startBucket(program: string) {
  const port = await freePort();
  const child = spawn(program, ["-m", "moto.server", "-H", "127.0.0.1", "-p", String(port)], { stdio: "ignore" });
  const url = `http://127.0.0.1:${port}/BUCKET`;
  await until("the bucket is there", () => fetch(url, { method: "PUT" }).then(({ ok }) => ok), bridgedMs);
  return {
    url,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

describe("ClickHouse", { skip: "missing" in python && python.missing }, () => {
  test("counts each event once, keeps what it cannot decode, and writes Parquet that others read", async () => {
    assert.ok("program" in python);
    await using folder = await mkdtempDisposable(join(tmpdir(), "usage-clickhouse-"));
    await using house = startClickHouse(python.program, join(folder.path, "data"));
    const schema = await writeSchema(folder.path);
    const tables = await readSql("clickhouse.sql");
    for (const statement of statementsOf(tables.replace(kafkaEngine, putByHand))) await house.query(statement);
    const format = `SETTINGS format_schema = '${schema}:UsageBatch' FORMAT ProtobufSingle`;
    for (const round of ["first", "again"]) {
      for (const [number, payload] of payloads.entries()) {
        const file = join(folder.path, `${round}-${number}.bin`);
        await writeFile(file, payload);
        await house.query(`INSERT INTO usage_batch FROM INFILE '${file}' ${format}`);
      }
    }
    await house.query("INSERT INTO usage_batch (_error, _topic, _raw_message) VALUES ('no protobuf', 'usage', 'x')");

    const columns = "account_id, calls, charged_nanos, provisional_calls";
    const line = `format('{}: {} calls, {} nano-USD, {} provisional', ${columns})`;
    const totals = await house.query(`SELECT ${line} FROM account_total ORDER BY account_id`);
    assert.deepEqual(totals.split("\n"), goldenLines());
    assert.equal(await house.query("SELECT DISTINCT day FROM usage_event"), "2026-03-02");
    assert.equal(await house.query("SELECT reason, payload FROM dead_letter"), "no protobuf\tx");

    await using bucket = await startBucket(python.program);
    const [upload = ""] = statementsOf(
      (await readSql("parquet.sql")).replace("https://BUCKET.s3.amazonaws.com", bucket.url),
    );
    // Twice: the second replaces the first.
    for (let time = 0; time < 2; time += 1) await house.query(upload);
    const file = join(folder.path, "2026-03-02.parquet");
    // Nobody checks the signature here, but a reader without a name is refused.
    const scope = "Credential=a/20260302/us-east-1/s3/aws4_request";
    const authorization = `AWS4-HMAC-SHA256 ${scope}, SignedHeaders=host, Signature=0`;
    const object = await fetch(`${bucket.url}/usage/2026-03-02.parquet`, { headers: { authorization } });
    assert.equal(object.status, 200);
    await writeFile(file, await object.bytes());
    const counts = "count(*), count(DISTINCT (rid, kind))";
    const sums = `SELECT ${counts}, sum(cost_nanos), typeof(any_value(cost_nanos)) FROM '${file}'`;
    const read = `import duckdb; print(*duckdb.sql("${sums}").fetchall()[0])`;
    const { code, output, errors } = await run(python.program, ["-c", read], folder.path);
    assert.equal(code, 0, errors);
    const events = goldenBatches.flatMap((batch) => batch.events);
    const cost = events.reduce((sum, { costNanos }) => sum + costNanos, 0n);
    assert.equal(output.trim(), `${events.length} ${events.length} ${cost} BIGINT`);
  });

  test("takes the settings of its table for Kafka, and refuses others", async () => {
    assert.ok("program" in python);
    await using folder = await mkdtempDisposable(join(tmpdir(), "usage-clickhouse-"));
    await using house = startClickHouse(python.program, join(folder.path, "data"));
    const [engine = ""] = kafkaEngine.exec(await readSql("clickhouse.sql")) ?? [];
    const create = (name: string, text: string): Promise<string> =>
      house.query(`CREATE TABLE ${name} (a Int32 ${text}`);
    // It goes as far as the threads that the embedded engine has not.
    await assert.rejects(create("right", engine), /Shutdown was called/);
    await assert.rejects(create("wrong", engine.replace("kafka_format", "kafka_formt")), /kafka_formt/);
  });
});
