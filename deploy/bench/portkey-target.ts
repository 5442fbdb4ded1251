import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { startProcess } from "#shared/testing/child-process.ts";
import { freePort, isPortFree } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import type { Cores } from "./cores.ts";
import type { Target } from "./targets.ts";

// Later versions of the server below it refuse every stream with 500.
const packageName = "@portkey-ai/gateway";
const version = "1.15.2";
const overrides = { "@hono/node-server": "1.13.8", hono: "4.9.7" };
const cacheFolder = join(import.meta.dirname, `../../.local/bench-peers/portkey-${version}`);
const startTimeoutMs = 30_000;

/** Starts the gateway that the npm package is, on the measured core; installs it beside the repository's packages. */
export async function startPortkey(
  upstreamPort: number,
  cores: Cores,
  say: (text: string) => void,
): Promise<Target & AsyncDisposable> {
  const entry = join(cacheFolder, "node_modules", packageName, "build/start-server.js");
  if (!existsSync(entry)) await install(say);
  const port = await freePort();
  const command = cores.measured(process.execPath, [entry, `--port=${port}`, "--headless"]);
  const environment = { ...process.env, NODE_ENV: "production" };
  const child = await startProcess({ ...command, environment, folder: cacheFolder, orphanSignal: "SIGTERM" });
  const isListening = async (): Promise<boolean> => {
    if (child.isRunning()) return !(await isPortFree(port));
    throw new Error(child.lastLines().join("\n"));
  };
  await until(`${packageName} listens`, isListening, startTimeoutMs);
  return {
    name: "portkey",
    port,
    pid: child.pid,
    headers: {
      authorization: "Bearer none",
      "x-portkey-provider": "openai",
      "x-portkey-custom-host": `http://127.0.0.1:${upstreamPort}/v1`,
    },
    isVerbatim: false,
    [Symbol.asyncDispose]: () => child.end("SIGTERM"),
  };
}

async function install(say: (text: string) => void): Promise<void> {
  say(`installing ${packageName} ${version} for this bench alone`);
  await mkdir(cacheFolder, { recursive: true });
  const manifest = { private: true, dependencies: { [packageName]: version }, overrides };
  await writeFile(join(cacheFolder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  await promisify(execFile)("npm", ["install", ...options], { cwd: cacheFolder });
}
