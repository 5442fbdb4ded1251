import { readFileSync } from "node:fs";
import { connect, credsAuthenticator, type ConnectionOptions, type NatsConnection } from "@nats-io/transport-node";
import type { Registry } from "prom-client";
import { expiryGauge, readCertificate } from "./certificate.ts";
import { followFiles } from "../process/follow-files.ts";
import type { NatsLogin } from "./link-variables.ts";
import type { Logger } from "../process/log.ts";
import { createStop, pause } from "../process/stop.ts";

/** The connection to NATS, kept up until disposal. */
export type NatsLink = AsyncDisposable & {
  /** The connection, while there is one; it may be reconnecting. */
  current: () => NatsConnection | undefined;
};

export type NatsLinkOptions = {
  /** Name of the connection, as the server shows it. */
  name: string;
  /** TLS and credential files for NATS; read on each connect. */
  login?: NatsLogin | undefined;
  /** Gets the gauge of the client certificate's expiry. */
  registry?: Registry | undefined;
  /** Called on each change of state: why NATS cannot be used, or undefined when it can. */
  onState: (problem: string | undefined) => void;
  log: Logger;
};

const retryMs = 500;
const leaveMs = 2_000;

/**
 * Connects to NATS and stays connected: servers (comma-separated) that are down at the start or for long, or refuse for
 * a while, are retried for ever. Returns at once; throws for an invalid URL.
 */
export function keepConnected(url: string, options: NatsLinkOptions): NatsLink {
  const way = { ...serversOf(url, options.login), ...authenticationOf(options.login) };
  const expiry = followExpiry(options);
  const stop = createStop();
  let connection: NatsConnection | undefined;
  const loop = async (): Promise<void> => {
    while (!stop.isStopped()) {
      try {
        connection = await connect({
          ...way,
          name: options.name,
          // Answers to others stay theirs: a login may read those of its own name only.
          inboxPrefix: `_INBOX_${options.name}`,
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
      expiry?.[Symbol.dispose]();
      await running;
      await leave(connection);
    },
  };
}

type ConnectionSettings = Pick<ConnectionOptions, "servers" | "user" | "pass" | "tls">;

/** Takes user and password out of the URLs, where the client does not look for them: the first that has them counts. */
function serversOf(text: string, login: NatsLogin | undefined): ConnectionSettings {
  const urls = text.split(",").map(parseServer);
  const { username = "", password = "" } = urls.find(({ username }) => username !== "") ?? {};
  const files = {
    ...(login?.NATS_CA_FILE ? { caFile: login.NATS_CA_FILE } : {}),
    ...(login?.NATS_CERT_FILE ? { certFile: login.NATS_CERT_FILE, keyFile: login.NATS_KEY_FILE } : {}),
  };
  const isTls = Object.keys(files).length > 0 || urls.some(({ protocol }) => protocol === "tls:");
  return {
    servers: urls.map(({ host }) => host),
    ...(username === "" ? {} : { user: decodeURIComponent(username), pass: decodeURIComponent(password) }),
    ...(isTls ? { tls: files } : {}),
  };
}

function parseServer(text: string): URL {
  const address = text.trim();
  const url = URL.parse(address.includes("://") ? address : `nats://${address}`);
  // Not the text itself: it may hold a password.
  if (!url?.host)
    throw new Error("NATS_URL must be such as nats://user:password@host:4222, with commas between several");
  return url;
}

function authenticationOf(login: NatsLogin | undefined): Pick<ConnectionOptions, "authenticator"> {
  const file = login?.NATS_CREDS_FILE;
  return file ? { authenticator: (nonce) => credsAuthenticator(readFileSync(file))(nonce) } : {};
}

// The client reads the files itself; this only keeps the expiry gauge current.
function followExpiry({ login, registry, log }: NatsLinkOptions): Disposable | undefined {
  if (!login?.NATS_CERT_FILE) return undefined;
  const files = { certFile: login.NATS_CERT_FILE, keyFile: login.NATS_KEY_FILE };
  const tell = expiryGauge(registry, "nats");
  const read = () => readCertificate(files).notAfter;
  const onRefused = (error: unknown): void => log.error({ err: error }, "NATS certificate unusable");
  const followed = followFiles([files.certFile, files.keyFile], read, { onReplaced: tell, onRefused });
  tell(followed.current());
  return followed;
}

// Flushes what was written, but does not wait for a server that is down.
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
      log.warn("lost connection to NATS");
    } else if (status.type === "reconnect") {
      onState(undefined);
      log.info("reconnected to NATS");
    }
  }
}
