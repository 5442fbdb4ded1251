import type { Registry } from "prom-client";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { allowCallers } from "#shared/grpc/callers.ts";
import { openGrpcCredentials, type GrpcCredentials } from "#shared/grpc/credentials.ts";
import { debugServices } from "#shared/grpc/debug.ts";
import { grpcMetrics } from "#shared/grpc/metrics.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers, type GrpcListener } from "#shared/grpc/grpc.ts";
import { readProofKeys } from "#shared/money/hold-proof.ts";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import { createRegistry, serveOps } from "#shared/metrics/ops.ts";
import { accountHandlers } from "./handlers/accounts.ts";
import { callers } from "./callers.ts";
import { appliedCatalogHandlers } from "./handlers/applied-catalog.ts";
import { auditHandler } from "./handlers/audit.ts";
import { catalogHandlers } from "./handlers/catalog.ts";
import type { Config } from "./config.ts";
import { createDecide } from "./session/decide.ts";
import { leaseMsOf } from "./session/operations.ts";
import { findLostChargesHandler } from "./handlers/find-lost-charges.ts";
import { holdHandlers } from "./handlers/holds.ts";
import { forgetDeletedKeys } from "./hot/forget-keys.ts";
import { createIdentities } from "./hot/identity.ts";
import { keyHandlers } from "./handlers/keys.ts";
import { forgetRefusals, refusalHandlers } from "./handlers/refusals.ts";
import { createLoad } from "./hot/load.ts";
import { followMaintenance } from "./handlers/maintenance.ts";
import { createMetrics, watchMoves, watchSessions, watchShards, type Metrics } from "./metrics.ts";
import { shardHandlers } from "./handlers/shards.ts";
import { moveHandlers } from "./handlers/move-account.ts";
import { postHandler } from "./handlers/post.ts";
import { beginBudgets, renewDueBudgets } from "./hot/budgets.ts";
import { createMoves } from "./hot/moves.ts";
import { createPush, type Push } from "./hot/push.ts";
import { createRebuild, type RebuildDeps } from "./hot/rebuild.ts";
import { createRestoreWatch } from "./hot/restores.ts";
import { sessionMethod } from "./session/session-wire.ts";
import { createSessions } from "./session/session.ts";
import { findIdentities, type Identity } from "./store/keys.ts";
import { connectPostgres, type Database } from "./store/postgres.ts";
import type { HotRedis } from "./store/redis.ts";
import { readTotals, type Shard, type Shards } from "./store/shards.ts";
import { openShards, takeLayout, watchLayout } from "./open-shards.ts";
import { sweep } from "./hot/sweep.ts";

/** The running service; disposal drains it. */
export type App = AsyncDisposable & {
  grpcPort: number;
  opsPort: number;
  /** Resolves when the process must end because the number of shards was changed. */
  outdated: Promise<string>;
};

const billingTimeoutMs = 5_000;
const sweepMs = 2_000;
const repairMs = 2_000;
const rebuildCheckMs = 500;
const budgetsMs = 1_000;
const movesMs = 1_000;
const gaugesMs = 5_000;
const forgetMs = 600_000;

/**
 * Starts the service. Redis, PostgreSQL and billing may be up, down or on their way: it finds them when they come; only
 * several shards wait for PostgreSQL. Rejects when their number is not that of the installation.
 */
export async function startApp(config: Config, log: Logger): Promise<App> {
  const proofKeys = readProofKeys(config.HOLD_PROOF_KEYS);
  await using resources = new AsyncDisposableStack();
  const database = resources.use(connectPostgres(config.DATABASE_URL, log));
  const registry = createRegistry("auth-quota");
  const credentials = resources.use(openGrpcCredentials(config, log, registry));
  const channel = resources.use(connectGrpc(config.BILLING_ADDRESS, credentials, "billing"));
  const billing = unaryClient(BillingService, channel, billingTimeoutMs);
  const metrics = createMetrics(registry);
  const state = { problems: (): string[] => ["PostgreSQL has not told the number of shards yet"] };
  const ops = resources.use(
    await serveOps({ host: config.OPS_HOST, port: config.OPS_PORT }, registry, () => state.problems()),
  );
  const layout = await takeLayout(database, config.REDIS_SHARDS, log);
  const { shards, connections } = openShards(config, layout, { resources, log });
  watchShards(registry, shards.all);
  const load = createLoad(database, billing, shards);
  const moves = createMoves({ database, shards, log });
  await moves.look();
  watchMoves(registry, moves.oldestSeconds);
  const push = createPush({ database, shards, moves, log });
  const identities = createIdentities((hashes) => readIdentities(database, hashes));
  const maintenance = resources.use(followMaintenance(database, log));
  const leaseMs = leaseMsOf({ relaySilentMs: config.RELAY_SILENT_MS, rebuildMs: config.REBUILD_MS });
  const decide = createDecide({ shards, identities, load, moves, proofKeys, leaseMs, metrics, log });
  const sessions = createSessions(decide, maintenance.current, log);

  const repair = createRepair(connections, push, metrics);
  const works = tendShards({ config, shards, connections, repair, database, billing, push, moves, metrics, log });
  for (const work of works) resources.use(work);
  resources.use(every(repairMs, createRestoreWatch({ database, billing, identities, shards, log }), log));
  resources.use(every(repairMs, repair, log));
  resources.use(every(movesMs, () => moves.look().then(moves.advance), log));
  const budgets = { database, billing, push };
  resources.use(every(budgetsMs, () => renewDueBudgets(budgets), log));
  resources.use(every(forgetMs, () => forgetRefusals(database), log));
  resources.use(every(forgetMs, async () => void (await forgetDeletedKeys(database, shards)), log));
  resources.use(every(gaugesMs, () => tellTotals(shards, metrics), log));

  const unary = unaryHandlers(
    AuthQuotaService,
    {
      post: postHandler({ shards, moves, billing, metrics, log }),
      ...holdHandlers(shards, load),
      auditAccounts: auditHandler(shards),
      ...shardHandlers({ database, shards, layout, log }),
      ...moveHandlers({ database, shards, moves }),
      ...accountHandlers(database, push, (accountId) => beginBudgets(budgets, "account", [accountId])),
      ...keyHandlers(database, push, (keyId) => beginBudgets(budgets, "key", [keyId])),
      ...maintenance.handlers,
      ...catalogHandlers(database),
      ...appliedCatalogHandlers(database, log),
      ...refusalHandlers(database),
      findLostCharges: findLostChargesHandler(billing),
    },
    log,
  );
  const { look, outdated } = watchLayout(database, layout, connections, log);
  resources.use(every(repairMs, look, log));
  state.problems = () => [...problemsOf(shards), ...(sessions.isEnding() ? ["stopping"] : [])];
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
  return { grpcPort: grpc.port, opsPort: ops.port, outdated, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

type Tending = Omit<RebuildDeps, "hot" | "repush" | "rebuildMs"> & {
  config: Config;
  shards: Shards;
  connections: readonly HotRedis[];
  repair: () => Promise<void>;
  push: Push;
};

/** Looks after each shard by itself: the holds of silent relays end, and what is lost is rebuilt. */
function tendShards({ config, shards, connections, repair, push, ...deps }: Tending): AsyncDisposable[] {
  const { metrics, log } = deps;
  return connections.flatMap((redis, index) => {
    const hot = shards.all[index] ?? shards.all[0];
    const rebuild = createRebuild({ ...deps, hot, rebuildMs: config.REBUILD_MS, repush: push.repush });
    const whenBack = (): Promise<void> => rebuild().then(repair);
    redis.on("ready", () => void whenBack().catch((error: unknown) => log.error({ err: error }, "repair failed")));
    const sweepSilent = () => sweep({ hot, metrics, log }, config.RELAY_SILENT_MS);
    return [every(sweepMs, whenReady(hot, sweepSilent), log), every(rebuildCheckMs, whenReady(hot, rebuild), log)];
  });
}

const whenReady = (hot: Shard, work: () => Promise<void>) => async (): Promise<void> => {
  if (hot.isReady()) await work();
};

async function tellTotals({ all }: Shards, metrics: Metrics): Promise<void> {
  const ready = all.filter((shard) => shard.isReady());
  if (ready.length > 0) metrics.totals(await readTotals(ready));
}

/** Pushes what Redis lacks, after a shard was away also what that may have lost. */
function createRepair(connections: readonly HotRedis[], push: Push, metrics: Metrics): () => Promise<void> {
  const distrusted = new Set(connections);
  // It may come back with less than it had acknowledged.
  for (const redis of connections) redis.on("close", () => distrusted.add(redis));
  return async () => {
    const ready = connections.filter(({ status }) => status === "ready");
    if (ready.length === 0) return;
    const back = ready.filter((redis) => distrusted.has(redis));
    if (back.length > 0) await push.distrust();
    for (const redis of back) distrusted.delete(redis);
    metrics.unpushed(await push.repair());
  };
}

async function readIdentities(database: Database, hashes: string[]): Promise<Map<string, Identity>> {
  const found = await findIdentities(database, hashes);
  return new Map(found.map(({ hash, keyId, accountId }) => [hash, { keyId, accountId }]));
}

/**
 * Why nothing can be decided; one shard that is ready is enough to be asked. Nothing can before a shard is established,
 * as that of a new installation is at the first look.
 */
function problemsOf({ all }: Shards): string[] {
  const problems = all.flatMap((shard) => {
    const name = all.length === 1 ? "redis" : `redis of shard ${shard.index}`;
    if (!shard.isReady()) return [`${name} is ${shard.status()}`];
    return shard.generation() === "" ? [`${name} is not established yet`] : [];
  });
  return problems.length < all.length ? [] : problems;
}

function serve(
  config: Config,
  { credentials, registry, log }: { credentials: GrpcCredentials; registry: Registry; log: Logger },
  handlers: ReturnType<typeof unaryHandlers>,
): Promise<GrpcListener> {
  const interceptors = [grpcMetrics(registry), ...allowCallers(AuthQuotaService, callers, { credentials, log })];
  const listen = { drainMs: config.DRAIN_MS, credentials, interceptors };
  const place = { host: config.GRPC_HOST, port: config.GRPC_PORT, ...listen };
  const debug = debugServices({ isOn: config.DEBUG_CALLS === "on", credentials, log });
  return serveGrpc([[AuthQuotaService, handlers, { session: sessionMethod }], ...debug], place);
}
