import type { Registry } from "prom-client";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { allowCallers } from "#shared/grpc/callers.ts";
import { openGrpcCredentials, type GrpcCredentials } from "#shared/grpc/credentials.ts";
import { grpcMetrics } from "#shared/grpc/metrics.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers, type GrpcListener } from "#shared/grpc/grpc.ts";
import { readProofKeys } from "#shared/money/hold-proof.ts";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import { createRegistry, serveOps } from "#shared/metrics/ops.ts";
import { accountHandlers } from "./handlers/accounts.ts";
import { callers } from "./callers.ts";
import { auditHandler } from "./handlers/audit.ts";
import { catalogHandlers } from "./handlers/catalog.ts";
import type { Config } from "./config.ts";
import { createDecide } from "./session/decide.ts";
import { holdHandlers } from "./handlers/holds.ts";
import { createIdentities } from "./hot/identity.ts";
import { keyHandlers } from "./handlers/keys.ts";
import { forgetRefusals, refusalHandlers } from "./handlers/refusals.ts";
import { createLoad } from "./hot/load.ts";
import { followMaintenance } from "./handlers/maintenance.ts";
import { createMetrics, watchSessions, type Metrics } from "./metrics.ts";
import { postHandler } from "./handlers/post.ts";
import { beginBudgets, renewDueBudgets } from "./hot/budgets.ts";
import { createPush, type Push } from "./hot/push.ts";
import { createRebuild } from "./hot/rebuild.ts";
import { createRestoreWatch } from "./hot/restores.ts";
import { sessionMethod } from "./session/session-wire.ts";
import { createSessions } from "./session/session.ts";
import { createHotStore, type CallLimits, type HotStore } from "./store/hot.ts";
import { findIdentities, type Identity } from "./store/keys.ts";
import { connectPostgres, type Database } from "./store/postgres.ts";
import { connectRedis, type HotRedis } from "./store/redis.ts";
import { sweep } from "./hot/sweep.ts";

/** The running service; disposal drains it. */
export type App = AsyncDisposable & { grpcPort: number; opsPort: number };

const billingTimeoutMs = 5_000;
const sweepMs = 2_000;
const repairMs = 2_000;
const rebuildCheckMs = 500;
const budgetsMs = 1_000;
const gaugesMs = 5_000;
const forgetMs = 600_000;

const limitsOf = (config: Config): CallLimits => ({
  accountPerMinute: config.ACCOUNT_REQUESTS_PER_MINUTE,
  ipPerMinute: config.IP_REQUESTS_PER_MINUTE,
  accountConcurrent: config.ACCOUNT_MAX_CONCURRENT,
});

/** Starts the service. Redis, PostgreSQL and billing may be up, down or on their way: it finds them when they come. */
export async function startApp(config: Config, log: Logger): Promise<App> {
  const proofKeys = readProofKeys(config.HOLD_PROOF_KEYS);
  await using resources = new AsyncDisposableStack();
  const redis = resources.use(connectRedis(config.REDIS_URL, log, config.REDIS_CA_FILE));
  const database = resources.use(connectPostgres(config.DATABASE_URL, log));
  const registry = createRegistry("auth-quota");
  const credentials = resources.use(openGrpcCredentials(config, log, registry));
  const channel = resources.use(connectGrpc(config.BILLING_ADDRESS, credentials, "billing"));
  const billing = unaryClient(BillingService, channel, billingTimeoutMs);
  const metrics = createMetrics(registry);
  const hot = createHotStore(redis, limitsOf(config));
  const load = createLoad(database, billing, hot.generation);
  const push = createPush(database, hot, log);
  const identities = createIdentities((hashes) => readIdentities(database, hashes));
  const maintenance = resources.use(followMaintenance(database, log));
  const decide = createDecide({ hot, identities, load, proofKeys, metrics, log });
  const sessions = createSessions(decide, maintenance.current, log);

  const whenBack = (): Promise<void> => rebuild().then(repair);
  redis.on("ready", () => void whenBack().catch((error: unknown) => log.error({ err: error }, "repair failed")));
  const repair = createRepair(redis, push, metrics);
  const rebuild = createRebuild({ hot, database, billing, metrics, log, rebuildMs: config.REBUILD_MS });
  const whenReady = (work: () => Promise<void>) => async (): Promise<void> => {
    if (redis.status === "ready") await work();
  };
  const sweepSilent = whenReady(() => sweep({ hot, metrics, log }, config.RELAY_SILENT_MS));
  resources.use(every(sweepMs, sweepSilent, log));
  resources.use(every(rebuildCheckMs, whenReady(rebuild), log));
  resources.use(every(repairMs, createRestoreWatch({ database, billing, identities, hot, log }), log));
  resources.use(every(repairMs, repair, log));
  const budgets = { database, billing, push };
  resources.use(every(budgetsMs, () => renewDueBudgets(budgets), log));
  resources.use(every(forgetMs, () => forgetRefusals(database), log));
  const tellTotals = whenReady(async () => metrics.totals(await hot.readTotals()));
  resources.use(every(gaugesMs, tellTotals, log));

  const unary = unaryHandlers(
    AuthQuotaService,
    {
      post: postHandler({ hot, billing, metrics, log }),
      ...holdHandlers(hot, load),
      auditAccounts: auditHandler(redis, hot),
      ...accountHandlers(database, push, (accountId) => beginBudgets(budgets, "account", [accountId])),
      ...keyHandlers(database, push, (keyId) => beginBudgets(budgets, "key", [keyId])),
      ...maintenance.handlers,
      ...catalogHandlers(database),
      ...refusalHandlers(database),
    },
    log,
  );
  const notReady = (): string[] => [...problemOfRedis(redis, hot), ...(sessions.isEnding() ? ["stopping"] : [])];
  const ops = resources.use(await serveOps({ host: config.OPS_HOST, port: config.OPS_PORT }, registry, notReady));
  const grpc = resources.use(
    await serve(config, { credentials, registry, log }, { ...unary, session: sessions.handler }),
  );
  resources.defer(() => {
    // A relay that knows this replica only asks the DNS for others when its connection is told to close.
    grpc.turnAway();
    return sessions.end(config.DRAIN_MS);
  });
  watchSessions(registry, sessions.open);

  const owned = resources.move();
  return { grpcPort: grpc.port, opsPort: ops.port, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Pushes what Redis lacks, after it was away also what it may have lost. */
function createRepair(redis: HotRedis, push: Push, metrics: Metrics): () => Promise<void> {
  let isTrusted = false;
  // It may come back with less than it had acknowledged.
  redis.on("close", () => (isTrusted = false));
  return async () => {
    if (redis.status !== "ready") return;
    if (!isTrusted) await push.distrust();
    isTrusted = true;
    metrics.unpushed(await push.repair());
  };
}

async function readIdentities(database: Database, hashes: string[]): Promise<Map<string, Identity>> {
  const found = await findIdentities(database, hashes);
  return new Map(found.map(({ hash, keyId, accountId }) => [hash, { keyId, accountId }]));
}

/** Nothing can be decided before Redis is established, as that of a new installation is at the first look. */
function problemOfRedis({ status }: HotRedis, hot: HotStore): string[] {
  if (status !== "ready") return [`redis is ${status}`];
  return hot.generation() === "" ? ["redis is not established yet"] : [];
}

function serve(
  config: Config,
  { credentials, registry, log }: { credentials: GrpcCredentials; registry: Registry; log: Logger },
  handlers: ReturnType<typeof unaryHandlers>,
): Promise<GrpcListener> {
  const interceptors = [grpcMetrics(registry), ...allowCallers(AuthQuotaService, callers, { credentials, log })];
  const listen = { drainMs: config.DRAIN_MS, credentials, interceptors };
  const place = { host: config.GRPC_HOST, port: config.GRPC_PORT, ...listen };
  return serveGrpc([[AuthQuotaService, handlers, { session: sessionMethod }]], place);
}
