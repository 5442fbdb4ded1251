import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { createInbox, type NatsConnection } from "@nats-io/transport-node";
import { createLog } from "#shared/process/log.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { keepConnected } from "#shared/stores/nats.ts";
import { fundsStream, usageStream } from "#shared/stores/usage-stream.ts";
import type { RestoreConfig } from "./config.ts";

/** The streams of a backup. */
export const backedUpStreams = [usageStream, fundsStream];

/** What JetStream says of a stream. */
export type StreamImage = { config: unknown; state: unknown };

const chunkBytes = 131_072;
const connectMs = 15_000;
const answerMs = 30_000;
// JetStream waits for each chunk to be acknowledged; nothing for so long is the end of it.
const silentMs = 60_000;
const noStream = 10_059;

/** Works with NATS on a connection of its own; throws `unavailable` when there is none. */
export async function withNats<T>(config: RestoreConfig, work: (connection: NatsConnection) => Promise<T>): Promise<T> {
  let problem: string | undefined;
  const options = { name: "backup", login: config, log: createLog("backup", "silent") };
  await using link = keepConnected(config.NATS_URL, { ...options, onState: (state) => (problem = state) });
  const deadlineMs = performance.now() + connectMs;
  while (!link.current() && performance.now() < deadlineMs) await pause(50);
  const connection = link.current();
  if (!connection) throw new ServiceError("unavailable", `NATS cannot be reached: ${problem ?? "no answer"}`);
  return await work(connection);
}

type ApiAnswer = Partial<StreamImage> & {
  deliver_subject?: string;
  error?: { description: string; err_code?: number };
};

async function ask(connection: NatsConnection, api: string, question: object): Promise<ApiAnswer> {
  const answer = await connection.request(`$JS.API.STREAM.${api}`, JSON.stringify(question), { timeout: answerMs });
  return answer.json<ApiAnswer>();
}

/** Writes a snapshot of a stream and its consumers (JetStream's own, ADR-1); undefined when there is no such stream. */
export async function saveStream(
  connection: NatsConnection,
  stream: string,
  file: string,
): Promise<StreamImage | undefined> {
  const inbox = createInbox("_INBOX_backup");
  const chunks = connection.subscribe(inbox);
  const output = createWriteStream(file, { mode: 0o600 });
  let isWhole = false;
  const silence = setTimeout(() => chunks.unsubscribe(), silentMs);
  try {
    const question = { deliver_subject: inbox, chunk_size: chunkBytes, no_consumers: false };
    const { config, state, error } = await ask(connection, `SNAPSHOT.${stream}`, question);
    if (error?.err_code === noStream) return undefined;
    if (error) throw new ServiceError("unavailable", `NATS makes no snapshot of ${stream}: ${error.description}`);
    for await (const chunk of chunks) {
      silence.refresh();
      if ((chunk.headers?.code ?? 0) >= 400) break;
      if (chunk.data.length === 0) {
        isWhole = true;
        break;
      }
      if (!output.write(chunk.data)) await once(output, "drain");
      chunk.respond();
    }
    if (!isWhole) throw new ServiceError("unavailable", `the snapshot of ${stream} ended before its end`);
    return { config, state };
  } finally {
    clearTimeout(silence);
    chunks.unsubscribe();
    output.end();
    await once(output, "close");
  }
}

/** Makes a stream from its snapshot. One that is there is left alone, for it holds as much or more. */
export async function loadStream(
  connection: NatsConnection,
  stream: string,
  { image, file }: { image: StreamImage; file: string },
): Promise<"made" | "found"> {
  const { error: missing } = await ask(connection, `INFO.${stream}`, {});
  if (!missing) return "found";
  const refuse = (words: string): never => {
    throw new ServiceError("unavailable", `NATS does not restore ${stream}: ${words}`);
  };
  if (missing.err_code !== noStream) refuse(missing.description);
  const begun = await ask(connection, `RESTORE.${stream}`, image);
  const { deliver_subject: subject } = begun;
  if (begun.error || subject === undefined) return refuse(begun.error?.description ?? "no place for its chunks");
  const send = async (chunk: Uint8Array): Promise<void> => {
    const answer = await connection.request(subject, chunk, { timeout: answerMs });
    if (answer.data.length === 0) return;
    const { error } = answer.json<ApiAnswer>();
    if (error) refuse(error.description);
  };
  for await (const chunk of createReadStream(file, { highWaterMark: chunkBytes })) await send(chunk as Buffer);
  await send(new Uint8Array());
  return "made";
}
