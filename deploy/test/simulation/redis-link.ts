import type { HotRedis } from "../../../services/auth-quota/store/redis.ts";
import { enter, type Process } from "./clock.ts";
import type { LuaScript, LuaValue } from "./lua.ts";
import { asking, createPipe, later, step, type Network } from "./network.ts";
import type { MemoryRedis } from "./redis.ts";

/** A Redis of the world, with one shard of the hot money. */
export type RedisServer = {
  name: string;
  /** Beginning of the names of its shard. */
  prefix: string;
  memory: MemoryRedis;
  script: LuaScript;
  isDown: boolean;
  /** How far its machine's clock is ahead. */
  clockAheadMs: number;
  /** Told after each run of the script. */
  onRun: (values: string[], answer: LuaValue) => void;
};

const timeoutMs = 1_500;

type PendingRequest = { process: Process; answer: PromiseWithResolvers<LuaValue> };

/** One connection: commands arrive in order, and so do their answers; when it is lost nobody knows what was done. */
type Connection = {
  isUp: boolean;
  /** What was sent over an earlier connection and is still on its way arrives only if this is its number. */
  number: number;
  asked: Set<PendingRequest>;
};

function lose(connection: Connection, network: Network): void {
  connection.isUp = false;
  if (network.random.chance(0.5)) connection.number += 1;
  for (const { process, answer } of connection.asked) {
    enter(process, () => answer.reject(new Error("Connection is closed.")));
  }
  connection.asked.clear();
  later(() => (connection.isUp = true), network.random.between(50, 500));
}

type Runner = (work: () => LuaValue) => Promise<LuaValue>;

function createRunner(server: RedisServer, network: Network, from: string): Runner {
  const connection: Connection = { isUp: true, number: 0, asked: new Set() };
  const there = createPipe(network, from, server.name);
  const back = createPipe(network, server.name, from);
  return (work) => {
    const process = asking();
    const answer = Promise.withResolvers<LuaValue>();
    if (!step(process)) return answer.promise;
    if (!connection.isUp || server.isDown) return Promise.reject(new Error("Connection is closed."));
    const asked = { process, answer };
    connection.asked.add(asked);
    const timer = setTimeout(() => {
      connection.asked.delete(asked);
      answer.reject(new Error("Command timed out"));
    }, timeoutMs);
    const { number } = connection;
    there(() => {
      if (server.isDown || connection.number !== number) return;
      const result = work();
      back(() => {
        if (connection.asked.delete(asked)) enter(process, () => (clearTimeout(timer), answer.resolve(result)));
      });
    });
    if (network.isLost()) later(() => lose(connection, network), network.delayMs());
    return answer.promise;
  };
}

/** The connection of one auth-quota process: what its store uses of the Redis client. */
export function connectSimulatedRedis(server: RedisServer, network: Network, from: string): HotRedis {
  const run = createRunner(server, network, from);
  const plain =
    (name: string) =>
    (...parts: (string | number)[]) =>
      run(() => server.memory.execute([name, ...parts.map(String)]));
  const applyMoney = (prefix: string, given: readonly (string | Buffer)[]) => {
    const values = given.map((value) => Buffer.from(value as string).toString("latin1"));
    return run(() => {
      const answer = server.memory.evaluate(server.script, prefix, values);
      server.onRun(values, answer);
      return answer;
    });
  };
  const mgetBuffer = async (...keys: string[]): Promise<(Buffer | null)[]> => {
    const found = (await plain("MGET")(...keys)) as (string | null)[];
    return found.map((text) => (text === null ? null : Buffer.from(text, "latin1")));
  };
  const hgetallBuffer = async (key: string): Promise<Record<string, Buffer>> => {
    const flat = (await plain("HGETALL")(key)) as string[];
    const found: Record<string, Buffer> = {};
    for (let at = 0; at < flat.length; at += 2) found[flat[at] ?? ""] = Buffer.from(flat[at + 1] ?? "", "latin1");
    return found;
  };
  const names = ["hget", "hmget", "hgetall", "get", "time", "zadd", "zcard", "zscore", "zrange", "zmscore"];
  names.push("zrangebyscore", "zremrangebyscore", "smembers", "scard", "exists");
  const commands = Object.fromEntries(names.map((name) => [name, plain(name.toUpperCase())]));
  // No memory limit, so that there is nothing to tell.
  const info = async (): Promise<string> => "";
  return {
    status: "ready",
    prefix: server.prefix,
    ...commands,
    info,
    applyMoney,
    mgetBuffer,
    hgetallBuffer,
  } as unknown as HotRedis;
}
