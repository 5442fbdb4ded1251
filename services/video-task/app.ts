import { jetstream, type JetStreamClient } from "@nats-io/jetstream";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { catalogProblem } from "#shared/catalog/last-good.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { allowCallers } from "#shared/grpc/callers.ts";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import { debugServices } from "#shared/grpc/debug.ts";
import { grpcMetrics } from "#shared/grpc/metrics.ts";
import { connectGrpc, serveGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { createHealth } from "#shared/process/health.ts";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import { keepConnected } from "#shared/stores/nats.ts";
import { createRegistry, serveOps } from "#shared/metrics/ops.ts";
import { createPool, probe } from "#shared/stores/postgres.ts";
import { createProviderRequests } from "./providers/request.ts";
import { callers } from "./callers.ts";
import { buildCalls } from "./handlers/calls.ts";
import type { Upstreams } from "./catalog.ts";
import { openUpstreams } from "./open-catalog.ts";
import type { Config } from "./config.ts";
import { createGaugesPass } from "./gauges.ts";
import { createPollPass } from "./polling/poll.ts";
import { createMetrics, watchCatalog } from "./metrics.ts";
import { createChargePass } from "./charges/charge-outbox.ts";
import { createLostTaskPass } from "./charges/find-lost-tasks.ts";
import { createSlots, defaultSlotLimits, type SubmissionSlots } from "./submission/slots.ts";
import { createForgetPass } from "./store/forget-tasks.ts";
import { createPromptPass } from "./store/prompts.ts";
import { createSweepPass } from "./submission/sweep.ts";

/** The running service; disposal drains it. */
export type App = AsyncDisposable & { grpcPort: number; opsPort: number };

const elapsedMs = (): number => performance.now();

// Minimum interval at which passes query PostgreSQL for due work.
const passMs = 1_000;

/**
 * Starts the service. PostgreSQL, NATS and billing may be up, down or starting: it connects when they come up.
 * `environment` holds the variables named by the catalog's credentials. Throws for an invalid catalog, unless one was
 * taken before it: that is served with.
 */
export async function startApp(config: Config, log: Logger, environment: NodeJS.ProcessEnv): Promise<App> {
  await using resources = new AsyncDisposableStack();
  const slots = createSlots({ ...defaultSlotLimits, drainMs: config.DRAIN_MS });
  const reached = await connect(resources, config, { log, environment });
  const { pool, upstreams } = reached;
  const opsPort = await watch(resources, config, { ...reached, log, slots });
  const work = { ...reached, log };
  keepWorking(resources, config, { ...work, isStopping: slots.stop.isStopped });

  resources.use(slots);
  const drawnMs = (): number => config.POLL_INTERVAL_MS * (0.5 + Math.random());
  const submitting = { ...work, pool, upstreams, slots, leaseMs: config.SUBMIT_LEASE_MS, firstPollMs: drawnMs };
  const { credentials } = reached;
  const place = { host: config.GRPC_HOST, port: config.GRPC_PORT, drainMs: config.DRAIN_MS };
  const permitted = allowCallers(VideoTaskService, callers, { credentials, log });
  const listen = { ...place, credentials, interceptors: [grpcMetrics(reached.registry), ...permitted] };
  const debug = debugServices({ isOn: config.DEBUG_CALLS === "on", credentials, log });
  const calls = buildCalls(submitting);
  const { port: grpcPort } = resources.use(await serveGrpc([[VideoTaskService, calls], ...debug], listen));
  // Runs first at the end: waiting callers are sent to another replica, and no more calls are taken.
  resources.defer(slots.stop.stop);
  const owned = resources.move();
  return { grpcPort, opsPort, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

type Start = { log: Logger; environment: NodeJS.ProcessEnv };

// All connections of this process, and their metrics.
async function connect(resources: AsyncDisposableStack, config: Config, { log, environment }: Start) {
  const registry = createRegistry("video-task");
  const metrics = createMetrics(registry);
  const onError = (error: Error): void => log.warn({ err: error }, "lost connection to PostgreSQL");
  const pool = resources.use(createPool(config.DATABASE_URL, "video-task", onError));
  const pools = resources.use(createPools());
  const credentials = resources.use(openGrpcCredentials(config, log, registry));
  const onReplaced = (replaced: Upstreams): void => pools.retain([...replaced.values()]);
  const opening = { config, pool, credentials, environment, onReplaced, log };
  const upstreams = resources.use(await openUpstreams(opening));
  watchCatalog(registry, upstreams);
  const channel = resources.use(connectGrpc(config.BILLING_ADDRESS, credentials, "billing"));
  const billing = unaryClient(BillingService, channel, 5_000);
  // Tasks run without NATS: charges wait in PostgreSQL.
  const link = { name: "video-task", login: config, registry, onState: () => undefined, log };
  const nats = resources.use(keepConnected(config.NATS_URL, link));
  const jetStream = (): JetStreamClient | undefined => {
    const connection = nats.current();
    return connection && jetstream(connection);
  };
  return {
    registry,
    metrics,
    credentials,
    pool,
    requestProvider: createProviderRequests(pools),
    upstreams,
    billing,
    jetStream,
  };
}

type Connections = Awaited<ReturnType<typeof connect>>;

async function watch(
  resources: AsyncDisposableStack,
  config: Config,
  { pool, registry, upstreams, log, slots }: Connections & { log: Logger; slots: SubmissionSlots },
): Promise<number> {
  const health = createHealth(["PostgreSQL"]);
  const poll = async (): Promise<void> =>
    health.set("PostgreSQL", await probe(pool, "SELECT FROM video_task.task LIMIT 1"));
  await poll();
  resources.use(every(2_000, poll, log));
  const reasons = (): string[] => [...health.reasons(), ...(slots.stop.isStopped() ? ["stopping"] : [])];
  const notes = (): string[] => [catalogProblem(upstreams)].filter((note) => note !== undefined);
  const ops = await serveOps({ host: config.OPS_HOST, port: config.OPS_PORT }, registry, reasons, notes);
  return resources.use(ops).port;
}

function keepWorking(
  resources: AsyncDisposableStack,
  config: Config,
  { isStopping, ...work }: Connections & { log: Logger; isStopping: () => boolean },
): void {
  const { log } = work;
  const { POLL_INTERVAL_MS: pollMs, SUBMIT_LEASE_MS: leaseMs, CONFIRM_MS: confirmMs } = config;
  const rules = { pollMs, graceMs: config.GRACE_SECONDS * 1_000, random: Math.random };
  const pollPass = resources.use(createPollPass({ ...work, rules, maxPolls: config.MAX_POLLS }));
  const poll = async (): Promise<void> => {
    while ((await pollPass()) && !isStopping());
  };
  resources.use(every(Math.min(pollMs / 2, passMs), poll, log));
  resources.use(every(Math.min(confirmMs, passMs), createChargePass({ ...work, confirmMs }), log));
  resources.use(every(Math.min(leaseMs / 4, passMs), createSweepPass({ ...work, leaseMs, elapsedMs }), log));
  resources.use(every(60_000, createLostTaskPass(work), log));
  resources.use(every(600_000, createForgetPass(work.pool), log));
  const kept = { days: config.PROMPT_RETENTION_DAYS, nowMs: Date.now };
  resources.use(every(60_000, createPromptPass(work.pool, kept), log));
  resources.use(every(5_000, createGaugesPass(work), log));
}
