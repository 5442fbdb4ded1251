import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { StoreName } from "#shared/testing/binaries.ts";
import { show } from "./machine.ts";

const run = promisify(execFile);
const file = join(import.meta.dirname, "compose.yaml");
const innerPorts = { redis: 6379, nats: 4222, postgres: 5432 };

export type ContainerOptions = {
  /** Names the containers and volumes, so that two data folders do not share them. */
  project: string;
  postgresPassword: string;
  /** Variables for docker, PATH among them. */
  environment: NodeJS.ProcessEnv;
};

export type Containers = AsyncDisposable & { urls: Partial<Record<StoreName, string>> };

/** Starts stores in containers and waits until they are healthy. Disposal stops them; their volumes stay. */
export async function startContainers(stores: StoreName[], options: ContainerOptions): Promise<Containers> {
  const environment = { ...options.environment, POSTGRES_PASSWORD: options.postgresPassword };
  const compose = ["compose", "-f", file, "-p", options.project];
  const settings = { environment, output: 2 as const };
  if ((await show("docker", [...compose, "up", "-d", "--wait", ...stores], settings)) !== 0) {
    throw new Error("docker compose could not start the stores; its message is above");
  }
  const urls: Containers["urls"] = {};
  for (const store of stores) {
    const words = [...compose, "port", store, String(innerPorts[store])];
    const { stdout } = await run("docker", words, { env: environment });
    urls[store] = urlOf(store, stdout.trim(), options.postgresPassword);
  }
  return {
    urls,
    [Symbol.asyncDispose]: async () => {
      await show("docker", [...compose, "stop", ...stores], settings);
    },
  };
}

function urlOf(store: StoreName, hostAndPort: string, password: string): string {
  if (store === "postgres") return `postgres://postgres:${password}@${hostAndPort}/postgres`;
  return `${store}://${hostAndPort}`;
}
