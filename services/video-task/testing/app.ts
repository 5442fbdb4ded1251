import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { startApp } from "../app.ts";
import { readConfig } from "../config.ts";

export type AppOptions = {
  databaseUrl: string;
  upstreamUrl: string;
  variables?: Record<string, string>;
  /** Makes the catalog's file of a text that can be used; left out: it is that. */
  catalog?: (good: string) => string;
};

/** Nobody listens there. */
const away = "127.0.0.1:1";

/** The whole service in this process, without NATS and billing, and a client for its calls. */
export async function serveVideoTask({ databaseUrl, upstreamUrl, variables, catalog = (good) => good }: AppOptions) {
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "video-task-"));
  resources.defer(() => rm(folder, { recursive: true }));
  const upstream = { base_url: upstreamUrl, credential: { env: "STUDIO_KEY" }, cool_down: "false" };
  const file = join(folder, "catalog.yaml");
  const dialects = { first: "openai-videos", second: "gemini-videos" };
  const entries = Object.entries(dialects).map(([name, dialect]) => [name, { ...upstream, dialects: [dialect] }]);
  await writeFile(file, catalog(JSON.stringify({ upstreams: Object.fromEntries(entries) })));
  const given = {
    GRPC_PORT: "0",
    OPS_PORT: "0",
    DATABASE_URL: databaseUrl,
    NATS_URL: `nats://${away}`,
    BILLING_ADDRESS: away,
    CATALOG_FILE: file,
    POLL_INTERVAL_MS: "20",
    DRAIN_MS: "10000",
    ALLOW_PLAIN_GRPC: "always",
    ...variables,
  };
  const app = resources.use(
    await startApp(readConfig(given), createLog("test", "silent"), { STUDIO_KEY: "sk-studio-0123456789" }),
  );
  const channel = connectGrpc(`127.0.0.1:${app.grpcPort}`);
  const owned = resources.move();
  return {
    tasks: unaryClient(VideoTaskService, channel, 30_000),
    /** A client that waits for 100 ms. */
    hasty: unaryClient(VideoTaskService, channel, 100),
    opsUrl: `http://127.0.0.1:${app.opsPort}`,
    [Symbol.asyncDispose]: async () => {
      await owned.disposeAsync();
      channel[Symbol.dispose]();
    },
  };
}
