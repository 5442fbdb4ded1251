import { join } from "node:path";
import { freePort } from "#shared/testing/free-port.ts";
import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import { type Service, startService } from "../../tools/local/service.ts";
import type { World } from "./world.ts";

const entry = join(import.meta.dirname, "../../../services/relay/main.ts");

/** Starts one more relay beside the stack's own, with a spool folder of its own, and waits until it is ready. */
export async function startSecondRelay(
  { stack }: World,
  spoolFolder: string,
  variables: Record<string, string> = {},
): Promise<Service> {
  const [port, opsPort, grpcPort] = [await freePort(), await freePort(), await freePort()];
  const host = "127.0.0.1";
  const relay = await startService({
    name: "second relay",
    url: `http://${host}:${port}`,
    opsUrl: `http://${host}:${opsPort}`,
    entry,
    environment: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      HTTP_PORT: String(port),
      OPS_PORT: String(opsPort),
      GRPC_PORT: String(grpcPort),
      ...grpcFilesIn(stack.tlsFolder, "relay"),
      AUTH_QUOTA_ADDRESS: stack.addresses.authQuotaAddress,
      NATS_URL: stack.stores.natsUrls.relay,
      CATALOG_FILE: stack.catalogFile,
      SPOOL_DIR: spoolFolder,
      ALLOW_PLAIN_HTTP: "loopback",
      DEMO_API_KEY: "demo",
      DRAIN_MS: "5000",
      ...variables,
    },
    onLine: () => undefined,
    stopGraceMs: 10_000,
  });
  await relay.ready();
  return relay;
}
