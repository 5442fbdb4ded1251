import { readFileSync } from "node:fs";
import { connect as connectPlain, isIP, Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { AbstractConnector, Redis, type RedisOptions } from "ioredis";

/** A node as a URL names it. `serverName` is what its certificate must be for, "" for the host. */
export type RedisNode = { host: string; port: number; serverName: string };

/** What REDIS_URL and REDIS_CA_FILE say: one Redis, or some nodes of a cluster. */
export type RedisAddress = {
  nodes: RedisNode[];
  login: Pick<RedisOptions, "username" | "password" | "db">;
  isTls: boolean;
  caFile: string;
};

/** Reads the URLs, with commas between them. Throws for what is none, without its text, which may hold a password. */
export function readRedisUrl(text: string, caFile: string): RedisAddress {
  const urls = text.split(",").map((url) => URL.parse(url.trim()));
  const [first] = urls;
  const isUsable = urls.every((url) => url && /^rediss?:$/.test(url.protocol) && url.hostname !== "");
  if (!first || !isUsable || urls.some((url) => url?.protocol !== first.protocol)) {
    throw new Error(
      "REDIS_URL must be such as rediss://user:password@host:6379, with commas between nodes of a cluster",
    );
  }
  const nodes = urls.map((url) => {
    const host = (url?.hostname ?? "").replace(/^\[(.+)\]$/, "$1");
    return { host, port: Number(url?.port || 6379), serverName: "" };
  });
  const login = {
    ...(first.username === "" ? {} : { username: decodeURIComponent(first.username) }),
    ...(first.password === "" ? {} : { password: decodeURIComponent(first.password) }),
    ...(first.pathname.length > 1 ? { db: Number(first.pathname.slice(1)) } : {}),
  };
  return { nodes, login, isTls: first.protocol === "rediss:", caFile };
}

const askMs = 1_000;

/** Asks a node of a cluster who holds the keys of a name. */
async function askOwner(node: RedisNode, { login, isTls, caFile }: RedisAddress, name: string): Promise<RedisNode> {
  const probe = new Redis({
    ...login,
    ...limits,
    ...(isTls ? { tls: {} } : {}),
    Connector: connectorTo({ isTls, caFile, find: async () => node }),
  });
  probe.on("error", () => undefined);
  try {
    await probe.connect();
    const slot = await probe.cluster("KEYSLOT", name);
    const ranges = await probe.cluster("SLOTS");
    const owner = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2];
    if (!owner) throw new Error(`nobody holds the slot ${slot}`);
    const host = owner[0] || node.host;
    // Nodes call each other by addresses, certificates are for names.
    const serverName = isIP(host) > 0 && isIP(node.host) === 0 ? node.host : "";
    return { host, port: owner[1], serverName };
  } finally {
    probe.disconnect();
  }
}

const limits = {
  lazyConnect: true,
  enableReadyCheck: false,
  connectTimeout: askMs,
  commandTimeout: askMs,
  maxRetriesPerRequest: 0,
  retryStrategy: () => null,
} as const;

/**
 * Finds the node that holds the keys of a name: the one whom more than half of the given nodes name, or, when all have
 * answered or failed, whom most do. One that is cut off from the rest may name itself for long.
 */
export async function findOwner(place: RedisAddress, name: string): Promise<RedisNode> {
  const votes = new Map<string, number>();
  const { promise, resolve } = Promise.withResolvers<RedisNode>();
  const owners: RedisNode[] = [];
  const asking = place.nodes.map(async (node) => {
    const owner = await askOwner(node, place, name);
    owners.push(owner);
    const count = (votes.get(addressOf(owner)) ?? 0) + 1;
    votes.set(addressOf(owner), count);
    if (count * 2 > place.nodes.length) resolve(owner);
  });
  const answered = Promise.allSettled(asking).then((outcomes) => {
    const most = Math.max(...votes.values());
    const owner = owners.find((one) => votes.get(addressOf(one)) === most);
    if (owner) return owner;
    const [failure] = outcomes.filter((outcome) => outcome.status === "rejected");
    throw new Error("no node of the Redis Cluster answers", { cause: failure?.reason });
  });
  return Promise.race([promise, answered]);
}

const addressOf = ({ host, port }: RedisNode): string => `${host}:${port}`;

type NodeConnection = { isTls: boolean; caFile: string; find: () => Promise<RedisNode> };

/** How ioredis gets a connection: each time to the node that is found then, with the authorities of that moment. */
export function connectorTo({ isTls, caFile, find }: NodeConnection) {
  return class extends AbstractConnector {
    constructor() {
      super(askMs);
    }

    /** Never rejects, which would be the end of all tries: a connection that failed is one that is closed. */
    async connect(): Promise<Socket> {
      this.connecting = true;
      try {
        const { host, port, serverName } = await find();
        if (!this.connecting) throw new Error("Connection is closed.");
        const ca = caFile === "" ? {} : { ca: readFileSync(caFile) };
        const servername = serverName === "" ? {} : { servername: serverName };
        this.stream = isTls ? connectTls({ host, port, ...servername, ...ca }) : connectPlain({ host, port });
        this.stream.once("error", (error: Error) => (this.firstError = error));
      } catch (error) {
        this.firstError = error instanceof Error ? error : new Error(String(error));
        this.stream = new Socket().destroy();
      }
      return this.stream as Socket;
    }
  };
}
