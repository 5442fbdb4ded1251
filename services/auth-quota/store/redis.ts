import { Redis } from "ioredis";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import { keyPrefix } from "./key-prefix.ts";
import { createRunner, type RunAnswer, type RunValues } from "./money-command.ts";
import { addressOf, connectorTo, findOwner, readRedisUrl, type RedisAddress, type RedisNode } from "./redis-node.ts";
import { moneyScript } from "./script.ts";

const commandTimeoutMs = 1_500;
// A server that is cut off or hangs ends no connection; TCP by itself would wait for a quarter of an hour.
const silentMs = 2 * commandTimeoutMs;
const longestReconnectMs = 500;
const followMs = 1_000;

/** A connected Redis, where the names of one shard lie, and the commands that the store uses of it. */
export type HotRedis = Redis & {
  /** Beginning of all names of the shard. */
  prefix: string;
  /** Runs the money script: the key prefix, then its arguments as described in apply.lua. */
  applyMoney: (prefix: string, values: RunValues) => Promise<RunAnswer>;
};

/** What a node of a cluster says that does not hold the slot, or not now. */
const isElsewhere = ({ message }: Error): boolean => /^(?:MOVED|ASK|CLUSTERDOWN|READONLY|MASTERDOWN) /.test(message);

/**
 * Connects in the background and again for ever. While there is no connection every command fails at once: a command
 * that waited could be answered long after its caller has gone, and one that was sent is never sent again by itself.
 * Of a cluster it takes the one node that holds all keys of the shard, over one connection as of a single Redis: a
 * command that finds the keys moved away fails, and the next connection goes to where they are by then. Behind
 * Sentinels it takes their master, and leaves it within two seconds when they name another.
 */
export function connectRedis(url: string, log: Logger, caFile = "", prefix: string = keyPrefix): HotRedis & Disposable {
  const place = readRedisUrl(url, caFile);
  const { login, isTls } = place;
  let connectedTo = "";
  const find = async (): Promise<RedisNode> => {
    const node = await findNode(place, prefix);
    connectedTo = addressOf(node);
    return node;
  };
  const redis = new Redis({
    ...login,
    ...(isTls ? { tls: {} } : {}),
    Connector: connectorTo({ isTls, caFile, find }),
    reconnectOnError: isElsewhere,
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    // Fails the commands under way as soon as the connection is lost; their outcome is unknown.
    maxRetriesPerRequest: 0,
    commandTimeout: commandTimeoutMs,
    socketTimeout: silentMs,
    connectTimeout: 2_000,
    retryStrategy: (attempt) => Math.min(attempt * 50, longestReconnectMs),
    connectionName: "auth-quota",
    // Redis 7.0 has no CLIENT SETINFO, so that no list of rights can name it.
    disableClientInfo: true,
  });
  // Not the error itself, to which a refused login adds the password.
  redis.on("error", ({ message }: Error) => log.warn({ reason: message, shard: prefix }, "redis connection"));
  redis.on("ready", () => log.info({ shard: prefix }, "redis is ready"));
  const applyMoney = createRunner(redis, moneyScript);
  const watch = place.sentinel && every(followMs, () => leaveFormerMaster(redis, place, () => connectedTo), log);
  const dispose = (): void => {
    void watch?.[Symbol.asyncDispose]();
    redis.disconnect();
  };
  return Object.assign(redis, { prefix, applyMoney, [Symbol.dispose]: dispose });
}

async function findNode(place: RedisAddress, prefix: string): Promise<RedisNode> {
  const [single] = place.nodes;
  return single && place.nodes.length === 1 && !place.sentinel ? single : findOwner(place, prefix);
}

// A master that is cut off from its Sentinels goes on answering whoever still reaches it, and what it takes is lost.
async function leaveFormerMaster(redis: Redis, place: RedisAddress, connectedTo: () => string): Promise<void> {
  if (redis.status !== "ready") return;
  const asked = connectedTo();
  const master = await findNode(place, keyPrefix).catch(() => undefined);
  if (master && connectedTo() === asked && addressOf(master) !== asked) redis.disconnect(true);
}
