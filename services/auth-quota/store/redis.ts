import { Redis } from "ioredis";
import type { Logger } from "#shared/log.ts";
import { moneyScript } from "./script.ts";

const commandTimeoutMs = 1_500;
const longestReconnectMs = 500;

/** A connected Redis and the commands that the store uses of it. */
export type HotRedis = Redis & {
  /** Runs the money script: the key prefix, then its arguments as described in apply.lua. */
  applyMoney: (prefix: string, ...values: (string | Buffer)[]) => Promise<(number | string)[]>;
};

/**
 * Connects in the background and again for ever. While there is no connection every command fails at once: a command
 * that waited could be answered long after its caller has gone, and one that was sent is never sent again by itself.
 */
export function connectRedis(url: string, log: Logger): HotRedis & Disposable {
  const redis = new Redis(url, {
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    // Fails the commands under way as soon as the connection is lost; their outcome is unknown.
    maxRetriesPerRequest: 0,
    commandTimeout: commandTimeoutMs,
    connectTimeout: 2_000,
    retryStrategy: (attempt) => Math.min(attempt * 50, longestReconnectMs),
    connectionName: "auth-quota",
    scripts: { applyMoney: { lua: moneyScript, numberOfKeys: 1 } },
  });
  redis.on("error", (error: Error) => log.warn({ err: error }, "redis connection"));
  redis.on("ready", () => log.info("redis is ready"));
  return Object.assign(redis as HotRedis, { [Symbol.dispose]: () => redis.disconnect() });
}
