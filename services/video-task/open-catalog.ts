import { readFileSync } from "node:fs";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { openFileCatalog, type OpenCatalog } from "#shared/catalog/last-good.ts";
import { createRestrict } from "#shared/catalog/restrict.ts";
import { followStoredCatalog } from "#shared/catalog/stored.ts";
import type { GrpcCredentials } from "#shared/grpc/credentials.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { followUpstreams, parseUpstreams, type Upstreams, type UpstreamsFollower } from "./catalog.ts";
import { variables, type Config } from "./config.ts";
import { keeperIn } from "./store/kept-catalog.ts";

export type OpenUpstreamsDeps = {
  config: Config;
  pool: Pool;
  credentials: GrpcCredentials;
  environment: NodeJS.ProcessEnv;
  onReplaced: (upstreams: Upstreams) => void;
  log: Logger;
};

/** Begins with the catalog of the configured source and follows it. */
export async function openUpstreams(deps: OpenUpstreamsDeps): Promise<OpenCatalog<Upstreams>> {
  return deps.config.CATALOG_SOURCE === "stored" ? await openStored(deps) : await openFile(deps);
}

async function openFile(deps: OpenUpstreamsDeps): Promise<OpenCatalog<Upstreams>> {
  const { config, pool, environment, onReplaced, log } = deps;
  const path = config.CATALOG_FILE;
  const open = (fallback?: string): UpstreamsFollower =>
    followUpstreams(path, environment, log, { onReplaced, fallback });
  return await openFileCatalog(open, keeperIn(pool), { path, environment, log });
}

async function openStored(deps: OpenUpstreamsDeps): Promise<OpenCatalog<Upstreams>> {
  const { config, credentials, environment, onReplaced, log } = deps;
  await using resources = new AsyncDisposableStack();
  const channel = resources.use(connectGrpc(config.AUTH_QUOTA_ADDRESS, credentials, "auth-quota"));
  const readFile = (): string => readFileSync(config.CATALOG_FILE, "utf8");
  const ownVariables = Object.keys(variables.properties);
  const parse = (text: string, restrict?: ReturnType<typeof createRestrict>): Upstreams =>
    parseUpstreams(text, "catalog", environment, restrict);
  const upstreams = resources.use(
    await followStoredCatalog({
      source: unaryClient(AuthQuotaService, channel, 5_000),
      readFile,
      takeFile: (text) => parse(text),
      takeApplied: (text) => parse(text, createRestrict({ fileText: readFile(), ownVariables })),
      onReplaced,
      log,
    }),
  );
  const owned = resources.move();
  return { ...upstreams, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
