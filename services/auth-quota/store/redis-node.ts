import { readFileSync } from "node:fs";
import { connect as connectPlain, isIP, Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { AbstractConnector, Redis, type RedisOptions } from "ioredis";

/** A node as a URL names it. `serverName` is what its certificate must be for, "" for the host. */
export type RedisNode = { host: string; port: number; serverName: string };

/** What REDIS_URL and REDIS_CA_FILE say: one Redis, nodes of a cluster, or Sentinels and the name of their master. */
export type RedisAddress = {
  nodes: RedisNode[];
  login: Pick<RedisOptions, "username" | "password" | "db">;
  isTls: boolean;
  caFile: string;
  sentinel: { master: string; login: Pick<RedisOptions, "username" | "password"> } | undefined;
};

const forms = "rediss://user:password@host:6379, with commas between nodes of a cluster";
const sentinelForm = "rediss+sentinel://user:password@host:26379,host:26379/master";

/** Reads the URLs, with commas between them. Throws for what is none, without its text, which may hold a password. */
export function readRedisUrl(text: string, caFile: string): RedisAddress {
  if (/^rediss?\+sentinel:/.test(text.trim())) return readSentinelUrl(text.trim(), caFile);
  const urls = text.split(",").map((url) => URL.parse(url.trim()));
  const [first] = urls;
  const isUsable = urls.every((url) => url && /^rediss?:$/.test(url.protocol) && url.hostname !== "");
  if (!first || !isUsable || urls.some((url) => url?.protocol !== first.protocol)) {
    throw new Error(`REDIS_URL must be such as ${forms}; or ${sentinelForm}`);
  }
  const nodes = urls.map((url) => nodeOf(url as URL, 6379));
  return { nodes, login: loginOf(first), isTls: first.protocol === "rediss:", caFile, sentinel: undefined };
}

const nodeOf = ({ hostname, port }: URL, usualPort: number): RedisNode => ({
  host: hostname.replace(/^\[(.+)\]$/, "$1"),
  port: Number(port || usualPort),
  serverName: "",
});

function loginOf({ username, password, pathname }: URL): RedisAddress["login"] {
  return {
    ...(username === "" ? {} : { username: decodeURIComponent(username) }),
    ...(password === "" ? {} : { password: decodeURIComponent(password) }),
    ...(pathname.length > 1 ? { db: Number(pathname.slice(1)) } : {}),
  };
}

// No URL may name several hosts: each is read as one of its own.
const sentinelUrl = /^(rediss?)\+sentinel:\/\/((?:[^@/?]*@)?)([^@/?]+)\/([\w.-]+)(?:\/(\d*))?(\?.*)?$/;

function readSentinelUrl(text: string, caFile: string): RedisAddress {
  const [, scheme, user = "", hosts = "", master = "", db = "", query = ""] = sentinelUrl.exec(text) ?? [];
  const urls = hosts.split(",").map((host) => URL.parse(`redis://${user}${host.trim()}/${db}`));
  const [first] = urls;
  if (!first || urls.some((url) => !url || url.hostname === "")) {
    throw new Error(
      `REDIS_URL must be such as ${sentinelForm}, followed by ?sentinelUsername=…&sentinelPassword=… if need be`,
    );
  }
  const asked = new URLSearchParams(query);
  const [username, password] = [asked.get("sentinelUsername"), asked.get("sentinelPassword")];
  const nodes = urls.map((url) => nodeOf(url as URL, 26_379));
  const login = { ...(username !== null && { username }), ...(password !== null && { password }) };
  return { nodes, login: loginOf(first), isTls: scheme === "rediss", caFile, sentinel: { master, login } };
}

const askMs = 1_000;

/** Asks a node of a cluster who holds the keys of a name, or a Sentinel where its master is. */
async function askOwner(node: RedisNode, place: RedisAddress, name: string): Promise<RedisNode> {
  const { isTls, caFile, sentinel } = place;
  const probe = new Redis({
    ...(sentinel ? sentinel.login : place.login),
    ...limits,
    ...(isTls ? { tls: {} } : {}),
    Connector: connectorTo({ isTls, caFile, find: async () => node }),
  });
  probe.on("error", () => undefined);
  try {
    await probe.connect();
    const [told, port] = sentinel ? await askMaster(probe, sentinel.master) : await askHolder(probe, name);
    const host = told || node.host;
    // They call each other by addresses, certificates are for names.
    const serverName = isIP(host) > 0 && isIP(node.host) === 0 ? node.host : "";
    return { host, port, serverName };
  } finally {
    probe.disconnect();
  }
}

async function askHolder(probe: Redis, name: string): Promise<[host: string, port: number]> {
  const slot = await probe.cluster("KEYSLOT", name);
  const ranges = await probe.cluster("SLOTS");
  const owner = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2];
  if (!owner) throw new Error(`nobody holds the slot ${slot}`);
  return [owner[0], owner[1]];
}

async function askMaster(probe: Redis, master: string): Promise<[host: string, port: number]> {
  const found = await probe.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master);
  if (!Array.isArray(found)) throw new Error(`no Sentinel knows the master ${master}`);
  return [String(found[0]), Number(found[1])];
}

const limits = {
  lazyConnect: true,
  enableReadyCheck: false,
  disableClientInfo: true,
  connectTimeout: askMs,
  commandTimeout: askMs,
  maxRetriesPerRequest: 0,
  retryStrategy: () => null,
} as const;

/**
 * Finds the node that holds the keys of a name, or the master of the Sentinels: the one whom more than half of the
 * given nodes name, or, when all have answered or failed, whom most do. One that is cut off may name a former one.
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
    throw new Error(`no ${place.sentinel ? "Sentinel" : "node of the Redis Cluster"} answers`, {
      cause: failure?.reason,
    });
  });
  return Promise.race([promise, answered]);
}

/** Where a node is, in a word. */
export const addressOf = ({ host, port }: RedisNode): string => `${host}:${port}`;

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
