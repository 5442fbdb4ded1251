import { join } from "node:path";
import { freePort } from "#shared/testing/free-port.ts";
import { type Service, startService } from "./service.ts";

const host = "127.0.0.1";
const entry = join(import.meta.dirname, "../../../services/relay/main.ts");

type RelayPlan = { name: string; environment: Record<string, string>; stopGraceMs: number };

/** Starts one more relay beside that of a stack, on ports of its own, and waits until it is ready. */
export async function startOneMoreRelay({ name, environment, stopGraceMs }: RelayPlan): Promise<Service> {
  const [port, opsPort, grpcPort] = [await freePort(), await freePort(), await freePort()];
  const relay = await startService({
    name,
    url: `http://${host}:${port}`,
    opsUrl: `http://${host}:${opsPort}`,
    entry,
    environment: {
      PATH: process.env["PATH"],
      HTTP_PORT: String(port),
      OPS_PORT: String(opsPort),
      GRPC_PORT: String(grpcPort),
      ...environment,
    },
    onLine: () => undefined,
    stopGraceMs,
  });
  await relay.ready();
  return relay;
}
