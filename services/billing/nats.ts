import { connect, type NatsConnection } from "@nats-io/transport-node";
import type { Logger } from "#shared/log.ts";
import type { Health } from "#shared/health.ts";
import { createStop, pause } from "#shared/stop.ts";

/** The way to NATS. It is kept up for as long as it is not disposed. */
export type NatsLink = AsyncDisposable & {
  /** The connection, while it stands. */
  current: () => NatsConnection | undefined;
};

const retryMs = 500;

/**
 * Connects to NATS and stays connected: servers that are away at the start, or for long, or that refuse for a while,
 * are tried for ever. Returns at once.
 */
export function keepConnected(url: string, { health, log }: { health: Health; log: Logger }): NatsLink {
  const stop = createStop();
  let connection: NatsConnection | undefined;
  let isUp = false;
  const told = (problem: string | undefined): void => {
    isUp = problem === undefined;
    health.set("NATS", problem);
  };
  const loop = async (): Promise<void> => {
    while (!stop.isStopped()) {
      try {
        connection = await connect({
          servers: url.split(","),
          name: "billing",
          maxReconnectAttempts: -1,
          reconnectTimeWait: retryMs,
          timeout: 5_000,
          pingInterval: 10_000,
        });
        told(undefined);
        void watch(connection, told, log).catch(() => undefined);
        await Promise.race([connection.closed(), stop.stopped]);
      } catch (error) {
        told(String(error));
        await pause(retryMs, stop);
      }
    }
  };
  const running = loop();
  return {
    current: () => (isUp && connection?.isClosed() === false ? connection : undefined),
    [Symbol.asyncDispose]: async () => {
      stop.stop();
      await running;
      await leave(connection);
    },
  };
}

const leaveMs = 2_000;

// Acknowledgements that were written must get out; but a server that is away is not waited for.
async function leave(connection: NatsConnection | undefined): Promise<void> {
  if (!connection || connection.isClosed()) return;
  const limit = createStop();
  const drained = connection.drain().catch(() => undefined);
  await Promise.race([drained, pause(leaveMs, limit)]);
  limit.stop();
  await connection.close();
}

type Tell = (problem: string | undefined) => void;

async function watch(connection: NatsConnection, tell: Tell, log: Logger): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === "disconnect") {
      tell("disconnected");
      log.warn("NATS is away");
    } else if (status.type === "reconnect") {
      tell(undefined);
      log.info("NATS is back");
    }
  }
}
