import { connect, type NatsConnection } from "@nats-io/transport-node";
import type { Logger } from "./log.ts";
import { createStop, pause } from "./stop.ts";

/** The way to NATS. It is kept up for as long as it is not disposed. */
export type NatsLink = AsyncDisposable & {
  /** The connection, while there is one; it may be reconnecting. */
  current: () => NatsConnection | undefined;
};

export type NatsLinkOptions = {
  /** Name of the connection, as the server shows it. */
  name: string;
  /** Told whenever the state changes: why NATS cannot be used, or undefined when it can. */
  onState: (problem: string | undefined) => void;
  log: Logger;
};

const retryMs = 500;
const leaveMs = 2_000;

/**
 * Connects to NATS and stays connected: servers (separated by commas) that are away at the start, or for long, or that
 * refuse for a while, are tried for ever. Returns at once.
 */
export function keepConnected(url: string, options: NatsLinkOptions): NatsLink {
  const stop = createStop();
  let connection: NatsConnection | undefined;
  const loop = async (): Promise<void> => {
    while (!stop.isStopped()) {
      try {
        connection = await connect({
          servers: url.split(","),
          name: options.name,
          maxReconnectAttempts: -1,
          reconnectTimeWait: retryMs,
          timeout: 5_000,
          pingInterval: 10_000,
          // Else every publish captures a stack trace, for errors that nearly none of them meets.
          noAsyncTraces: true,
        });
        options.onState(undefined);
        void watch(connection, options).catch(() => undefined);
        await Promise.race([connection.closed(), stop.stopped]);
      } catch (error) {
        options.onState(String(error));
        await pause(retryMs, stop);
      }
    }
  };
  const running = loop();
  return {
    current: () => (connection?.isClosed() === false ? connection : undefined),
    [Symbol.asyncDispose]: async () => {
      stop.stop();
      await running;
      await leave(connection);
    },
  };
}

// What was written must get out; but a server that is away is not waited for.
async function leave(connection: NatsConnection | undefined): Promise<void> {
  if (!connection || connection.isClosed()) return;
  const limit = createStop();
  const drained = connection.drain().catch(() => undefined);
  await Promise.race([drained, pause(leaveMs, limit)]);
  limit.stop();
  await connection.close();
}

async function watch(connection: NatsConnection, { onState, log }: NatsLinkOptions): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === "disconnect") {
      onState("disconnected");
      log.warn("NATS is away");
    } else if (status.type === "reconnect") {
      onState(undefined);
      log.info("NATS is back");
    }
  }
}
