import { join } from "node:path";
import { freePort } from "#shared/testing/free-port.ts";
import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import { type Service, startService } from "../../tools/local/service.ts";
import type { World } from "./world.ts";

const entry = join(import.meta.dirname, "../../../services/video-task/main.ts");

/** Starts one more video-task on the database of the stack's own, and waits until it is ready. No relay asks it. */
export async function startSecondVideoTask({ stack }: World, variables: Record<string, string> = {}): Promise<Service> {
  const [port, opsPort] = [await freePort(), await freePort()];
  const host = "127.0.0.1";
  const videoTask = await startService({
    name: "second video-task",
    url: `${host}:${port}`,
    opsUrl: `http://${host}:${opsPort}`,
    entry,
    environment: {
      PATH: process.env["PATH"],
      GRPC_PORT: String(port),
      OPS_PORT: String(opsPort),
      DATABASE_URL: stack.logins.videoTask,
      NATS_URL: stack.stores.natsUrls["video-task"],
      ...grpcFilesIn(stack.tlsFolder, "video-task"),
      BILLING_ADDRESS: stack.addresses.billingAddress,
      CATALOG_FILE: stack.catalogFile,
      DEMO_API_KEY: "demo",
      POLL_INTERVAL_MS: "50",
      CONFIRM_MS: "100",
      DRAIN_MS: "5000",
      ...variables,
    },
    onLine: () => undefined,
    stopGraceMs: 10_000,
  });
  await videoTask.ready();
  return videoTask;
}
