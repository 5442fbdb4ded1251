import { join } from "node:path";
import { freePort } from "#shared/testing/free-port.ts";
import { startService } from "../tools/local/service.ts";
import type { Cores } from "./cores.ts";
import type { RelayTarget } from "./relay-target.ts";
import type { Target } from "./targets.ts";

const host = "127.0.0.1";
const entry = join(import.meta.dirname, "../../services/relay/main.ts");

/** Starts one more relay on the stack of another, which admits calls of busy keys within leases. */
export async function startLeased(
  { environment, headers }: RelayTarget,
  cores: Cores,
): Promise<Target & AsyncDisposable> {
  const [port, opsPort, grpcPort] = [await freePort(), await freePort(), await freePort()];
  const relay = await startService({
    name: "leased relay",
    url: `http://${host}:${port}`,
    opsUrl: `http://${host}:${opsPort}`,
    entry,
    environment: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      ...environment,
      HTTP_PORT: String(port),
      OPS_PORT: String(opsPort),
      GRPC_PORT: String(grpcPort),
      SPOOL_DIR: `${environment["SPOOL_DIR"]}-leased`,
      LEASE_FROM_CALLS_PER_SECOND: "10",
    },
    onLine: () => undefined,
    stopGraceMs: 20_000,
  });
  await relay.ready();
  cores.moveToMeasured(relay.pid);
  return {
    name: "leased",
    port,
    pid: relay.pid,
    headers,
    isVerbatim: true,
    [Symbol.asyncDispose]: () => relay[Symbol.asyncDispose](),
  };
}
