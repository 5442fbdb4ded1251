import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startProcess } from "#shared/testing/child-process.ts";
import { freePort, isPortFree } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import type { Cores } from "./cores.ts";
import { nginxConfig } from "./nginx-config.ts";
import { openFilesLimit } from "./open-files.ts";
import type { Target } from "./targets.ts";

const places = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];

/** Starts nginx as a proxy on the measured core; undefined where it is not installed. */
export async function startNginx(upstreamPort: number, cores: Cores): Promise<(Target & AsyncDisposable) | undefined> {
  const binary = places.find((place) => existsSync(place));
  if (binary === undefined) return undefined;
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "nginx-bench-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true }));
  const port = await freePort();
  const file = join(folder, "nginx.conf");
  await writeFile(file, nginxConfig({ port, upstreamPort, folder, files: openFilesLimit() }));
  const command = cores.measured(binary, ["-p", folder, "-c", file, "-e", "stderr"]);
  const child = await startProcess({ ...command, orphanSignal: "SIGTERM" });
  resources.defer(() => child.end("SIGTERM"));
  const isListening = async (): Promise<boolean> => {
    if (child.isRunning()) return !(await isPortFree(port));
    throw new Error(child.lastLines().join("\n"));
  };
  await until("nginx listens", isListening);
  const owned = resources.move();
  return {
    name: "nginx",
    port,
    pid: child.pid,
    headers: {},
    isVerbatim: true,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
