import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startProcess } from "#shared/testing/child-process.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { repository, run } from "../../tools/checks/run.ts";

/** What Kafka has of a message. */
export type KafkaRecord = { value: Buffer; headers: Record<string, string> };

export const sinks = join(repository, "proto/usage/sinks");

/** Compiles the broker and NATS' bridge into a folder; fetches their modules. Throws what the compiler says. */
export async function buildKafka(folder: string): Promise<void> {
  const source = join(import.meta.dirname, "kafka");
  const { code, errors } = await run("go", ["build", "-o", folder, ".", "github.com/nats-io/nats-kafka"], source);
  if (code !== 0) throw new Error(errors);
}

/** Starts the broker; `records` is what a consumer of the topic got. */
export async function startKafka(folder: string, topic: string) {
  const records: KafkaRecord[] = [];
  let address = "";
  const onLine = (line: string): void => {
    if (address === "") address = line;
    else {
      const { value, headers } = JSON.parse(line) as { value: string; headers: Record<string, string> };
      records.push({ value: Buffer.from(value, "base64"), headers });
    }
  };
  const plan = { command: join(folder, "kafka"), args: [topic], environment: process.env, onLine };
  const broker = await startProcess({ ...plan, orphanSignal: "SIGKILL" });
  await until("the broker serves", () => address !== "");
  return { address, records, [Symbol.asyncDispose]: () => broker.end("SIGKILL") };
}

/** Starts the bridge with nats-kafka.conf, whose addresses are replaced by those of the test. */
export async function startBridge(folder: string, { nats, kafka }: { nats: string; kafka: string }) {
  const file = join(folder, "nats-kafka.conf");
  const text = (await readFile(join(sinks, "nats-kafka.conf"), "utf8"))
    .replace("nats://nats-kafka:PASSWORD@nats:4222", nats)
    .replace("kafka:9092", kafka)
    .replace("9222", String(await freePort()));
  await writeFile(file, text);
  const lines: string[] = [];
  const plan = { command: join(folder, "nats-kafka"), args: ["-c", file], environment: process.env };
  const bridge = await startProcess({
    ...plan,
    onLine: (line) => void lines.push(line),
    orphanSignal: "SIGKILL",
  });
  await until("the bridge reads", () => {
    if (!bridge.isRunning()) throw new Error(lines.join("\n"));
    return lines.some((line) => line.includes("started connection"));
  });
  return {
    kill: () => bridge.end("SIGKILL"),
    lines,
    [Symbol.asyncDispose]: () => bridge.end("SIGKILL"),
  };
}
