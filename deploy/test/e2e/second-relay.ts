import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import { startOneMoreRelay } from "../../tools/local/more-relays.ts";
import type { Service } from "../../tools/local/service.ts";
import type { World } from "./world.ts";

/** Starts one more relay beside the stack's own, with a spool folder of its own, and waits until it is ready. */
export function startSecondRelay(
  { stack }: World,
  spoolFolder: string,
  variables: Record<string, string> = {},
): Promise<Service> {
  return startOneMoreRelay({
    name: "second relay",
    environment: {
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
    stopGraceMs: 10_000,
  });
}
