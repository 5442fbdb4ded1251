import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startProcess } from "#shared/testing/child-process.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { stringify } from "yaml";

export type Sample = { metric: Record<string, string>; value: [number, string] };

/** An alert that is pending or firing. */
export type LiveAlert = { labels: Record<string, string>; annotations: Record<string, string>; state: string };

/** A running Prometheus. Disposal ends it and deletes its data. */
export type Prometheus = AsyncDisposable & {
  /** The series that an expression gives now. Throws an Error with Prometheus' words when it is refused. */
  query: (expr: string) => Promise<Sample[]>;
  alerts: () => Promise<LiveAlert[]>;
};

export type PrometheusPlan = {
  binary: string;
  /** Addresses of metrics, host:port. */
  targets: string[];
  /** Absolute paths of rule files. */
  rules: string[];
};

/** Starts a Prometheus that scrapes and evaluates every second, and waits until it answers. */
export async function startPrometheus({ binary, targets, rules }: PrometheusPlan): Promise<Prometheus> {
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "prometheus-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const config = join(folder, "prometheus.yaml");
  await writeFile(
    config,
    stringify({
      global: { scrape_interval: "1s", evaluation_interval: "1s" },
      rule_files: rules,
      scrape_configs: [{ job_name: "model-relay", honor_labels: true, static_configs: [{ targets }] }],
    }),
  );
  const address = `127.0.0.1:${await freePort()}`;
  const child = await startProcess({
    command: binary,
    args: [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, "data")}`,
      `--web.listen-address=${address}`,
      "--log.level=warn",
    ],
    orphanSignal: "SIGKILL",
  });
  resources.defer(() => child.end("SIGTERM", 5_000));
  const answer = async <T>(path: string, body?: URLSearchParams): Promise<T> => {
    const response = await fetch(`http://${address}${path}`, { ...(body && { method: "POST", body }) });
    const { status, error, data } = (await response.json()) as { status: string; error?: string; data: T };
    if (status !== "success") throw new Error(error);
    return data;
  };
  await until("Prometheus is ready", async () => {
    if (!child.isRunning()) throw new Error(child.lastLines().join("\n"));
    return (await fetch(`http://${address}/-/ready`)).ok;
  });
  const owned = resources.move();
  return {
    query: async (expr) =>
      (await answer<{ result: Sample[] }>("/api/v1/query", new URLSearchParams({ query: expr }))).result,
    alerts: async () => (await answer<{ alerts: LiveAlert[] }>("/api/v1/alerts")).alerts,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
