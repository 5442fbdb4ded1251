import { setFlagsFromString } from "node:v8";
import { jetstream, type JetStreamClient } from "@nats-io/jetstream";
import { v7 } from "uuid";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { RelayService } from "#proto/relay/v1/relay_pb.ts";
import { allowCallers } from "#shared/grpc/callers.ts";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import { debugServices } from "#shared/grpc/debug.ts";
import { grpcMetrics } from "#shared/grpc/metrics.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { drainMsAfter, every, stopOrFault } from "#shared/process/lifecycle.ts";
import { createLog, gatherLines } from "#shared/process/log.ts";
import { keepConnected } from "#shared/stores/nats.ts";
import { createRegistry, serveOps } from "#shared/metrics/ops.ts";
import { createActiveSet } from "#shared/process/active-set.ts";
import { startTracing } from "#shared/process/tracing.ts";
import { buildApp } from "./app.ts";
import { breakSlowReaders } from "./http/slow-readers.ts";
import { callers } from "./callers.ts";
import { createBodyBudget } from "./http/body-budget.ts";
import { createItemMemory } from "./conversion/item-memory.ts";
import type { Relay } from "./call.ts";
import { upstreamsOf, type Catalog } from "./catalog/catalog.ts";
import { openCatalog } from "./catalog/open.ts";
import { catalogProblem } from "#shared/catalog/last-good.ts";
import { readConfig } from "./config.ts";
import { drain } from "./drain.ts";
import { guardLive } from "./stream/guard.ts";
import { createOrphans } from "./stream/orphans.ts";
import { createReplyRoom } from "./http/reply-room.ts";
import { createCandidateCheck } from "./report/check-candidate.ts";
import { watchCatalog } from "./catalog/gauges.ts";
import { createMetrics, watchGauges } from "./metrics.ts";
import { watchModels, watchUpstreams } from "./upstream/gauges.ts";
import { createPublisher } from "./charge/publish.ts";
import { createLeases, leaseSettings } from "./charge/leases.ts";
import { openQuotaSession } from "./charge/quota-session.ts";
import { createRestore } from "./charge/restore.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { createRefusals } from "./report/refusals.ts";
import type { StateParts } from "./report/state.ts";
import { serveState } from "./report/serve-state.ts";
import { createStanding } from "./report/readiness.ts";
import { replaySpool } from "./charge/replay-spool.ts";
import { confirmBooked, ridOfRecord, type SettlementDeps } from "./charge/settle.ts";
import { openSpool, spoolLimits } from "./charge/spool.ts";
import { createBookedSample, createTellLost } from "./charge/tell-lost.ts";
import { followCertificate } from "./http/tls.ts";
import { traceSettingsOf } from "./report/trace-call.ts";
import { countThreads, createThreads } from "./threads/threads.ts";
import { createUpstreamTest } from "./upstream/test-upstream.ts";
import { createUpstreamHealth } from "./upstream/health.ts";
import { connectVideoTasks } from "./videos/tasks.ts";
import { createVideos } from "./videos/videos.ts";

// Where most of what a line of code makes outlives a young collection or two, V8 makes its like in the old space from
// then on (allocation sites). Calls that wait for a slow upstream do, and what short ones leave there afterwards stays
// until a full collection, with all that it leads to: 9 of 47 KB of a call, and pauses of 20 to 30 ms instead of 2.
// Some processes came to that by what was under way at their start.
setFlagsFromString("--no-allocation-site-pretenuring");

const config = readConfig(process.env);
const logLines = gatherLines("relay");
const log = createLog("relay", config.LOG_LEVEL, logLines);
const relaySession = v7();
const startedAt = new Date();

await using resources = new AsyncDisposableStack();
resources.use(await startTracing("relay", config.OTEL_EXPORTER_OTLP_ENDPOINT, log));
resources.defer(() => logLines.flushSync());
const registry = createRegistry("relay");
const metrics = createMetrics(registry);
const pools = resources.use(createPools());
const threads = resources.use(createThreads(countThreads(metrics, log)));
const health = createUpstreamHealth();
const credentials = resources.use(openGrpcCredentials(config, log, registry));
const { VIDEO_TASK_ADDRESS: videoAddress } = config;
const videoTasks = videoAddress === "" ? undefined : resources.use(connectVideoTasks(videoAddress, credentials));
const videos = resources.use(createVideos(videoTasks));
const followUpstreams = (replaced: Catalog): void => {
  const upstreams = upstreamsOf(replaced);
  pools.retain(upstreams);
  videos.filePools.retain(upstreams);
  health.retain(upstreams);
};
const channel = resources.use(connectGrpc(config.AUTH_QUOTA_ADDRESS, credentials, "auth-quota"));
const keeper = unaryClient(AuthQuotaService, channel, 5_000);
const opening = { config, keeper, environment: process.env, onReplaced: followUpstreams, log };
const catalog = resources.use(await openCatalog(opening));
const limits = spoolLimits(config.SPOOL_MAX_BYTES);
const spool = resources.use(await openSpool(config.SPOOL_DIR, relaySession, { log, ridOf: ridOfRecord, limits }));

const quota = resources.use(openQuotaSession(channel, relaySession, log));
// The relay serves without NATS: records wait in the spool and in auth-quota's outbox.
const link = { name: "relay", login: config, registry, onState: () => undefined, log };
const nats = resources.use(keepConnected(config.NATS_URL, link));
const jetStream = (): JetStreamClient | undefined => {
  const connection = nats.current();
  return connection && jetstream(connection);
};
const counts = {
  published: (records: number, seconds: number) => {
    metrics.published.inc(records);
    metrics.publishSeconds.observe(seconds);
  },
  failed: () => metrics.publishFailures.inc(),
  dropped: () => metrics.publishDropped.inc(),
};
const publisher = resources.use(createPublisher(jetStream, relaySession, counts, log));

let sequence = 0n;
const nextSequence = (): bigint => sequence++;
const bookedSample = createBookedSample();
const settling: SettlementDeps = {
  relaySession,
  spool,
  quota,
  publisher,
  metrics,
  log,
  nextSequence,
  refused: new Set(),
  onBooked: bookedSample.note,
  watch: { lookedAtMs: Date.now(), look: () => guardLive(settling, relay.live) },
};
const leaseCounts = { admitted: () => metrics.leasedCalls.inc(), recalled: () => metrics.recalledLeases.inc() };
const { LEASE_FROM_CALLS_PER_SECOND: leastPerSecond } = config;
const leases = leastPerSecond > 0 ? createLeases(quota, leaseCounts, { ...leaseSettings, leastPerSecond }) : undefined;
const refusals = createRefusals(keeper, { onOmitted: (refused) => metrics.omittedRefusals.inc(refused), log });
resources.defer(refusals.report);
const relay: Relay = {
  refusals,
  leases,
  catalog,
  pools,
  health,
  threads,
  bodyBudget: createBodyBudget(config.MAX_BODY_BYTES_IN_FLIGHT),
  replies: createReplyRoom(config.MAX_REPLY_BYTES),
  items: createItemMemory(),
  settling,
  metrics,
  log,
  limits: { maxReplyBytes: config.MAX_REPLY_BYTES, maxEventBytes: config.MAX_STREAM_EVENT_BYTES },
  live: createActiveSet(),
  orphans: createOrphans(settling),
  videos,
  loggedShare: config.LOG_SUCCESS_SHARE,
  tracing: traceSettingsOf(config),
  isDraining: false,
};
watchGauges(registry, {
  liveCalls: () => relay.live.size,
  orphans: () => relay.orphans.size,
  isDraining: () => relay.isDraining,
  isQuotaConnected: quota.isConnected,
  clockAheadMs: quota.clockAheadMs,
  spoolBytes: spool.bytes,
  spoolMaxBytes: () => config.SPOOL_MAX_BYTES,
  spoolRecords: spool.openRecords,
  spoolOldestMs: spool.oldestMs,
  publishWaiting: publisher.waiting,
  publishOldestMs: publisher.oldestMs,
  quotaQueued: quota.queued,
  leases: () => leases?.size() ?? 0,
  bodyBytes: relay.bodyBudget.bytes,
  threadWaiting: threads.waiting,
  replyBytes: relay.replies.bytes,
  repliesWaiting: relay.replies.waiting,
  submissions: () => videos.submissions,
  downloads: () => videos.downloads.size,
});
watchUpstreams(registry, health);
watchModels(registry, health, () => catalog.current().models.values());
watchCatalog(registry, catalog);

const standing = createStanding({
  isDraining: () => relay.isDraining,
  isQuotaConnected: quota.isConnected,
  clockAheadMs: quota.clockAheadMs,
  spoolProblem: spool.problem,
  catalogProblem: () => catalogProblem(catalog),
});
const opsPlace = { host: config.OPS_HOST, port: config.OPS_PORT };
const ops = resources.use(await serveOps(opsPlace, registry, standing.notReady, standing.problems));

const inForce = catalog.current;
const gatherState = (): StateParts => ({
  relaySession,
  startedAt,
  isDraining: relay.isDraining,
  notReady: standing.problems(),
  liveCalls: relay.live.size,
  catalog: catalog.current(),
  file: catalog.file(),
  health,
  recentCalls: metrics.recentCalls.of,
  offersVideos: videos.tasks !== undefined,
  now: { monotonicMs: performance.now(), clockMs: Date.now() },
});
const permitted = allowCallers(RelayService, callers, { credentials, log });
const state = await serveState(
  { host: config.GRPC_HOST, port: config.GRPC_PORT, credentials, interceptors: [grpcMetrics(registry), ...permitted] },
  {
    gather: gatherState,
    file: catalog.file,
    check: createCandidateCheck({
      inForce,
      environment: process.env,
      offersVideos: () => videos.tasks !== undefined,
      restriction: catalog.restriction,
    }),
    test: createUpstreamTest({ inForce, pools, log }),
    debug: debugServices({ isOn: config.DEBUG_CALLS === "on", credentials, log }),
  },
  log,
);
resources.use(state);

void replaySpool(settling);
resources.use(every(2_000, async () => void (await confirmBooked(settling)), log));
resources.use(every(5_000, refusals.report, log));
if (leases) resources.use(every(500, async () => leases.sweep(), log));
const tellLost = createTellLost({ ...settling, bookedSample, numbered: () => sequence, quota: keeper });
resources.use(every(10_000, tellLost, log));
resources.use(every(500, createRestore(settling, relay.live), log));
resources.use(every(1_000, async () => guardLive(settling, relay.live, config.STREAM_HEARTBEAT_MS), log));

const certificate =
  config.TLS_CERT_FILE === ""
    ? undefined
    : resources.use(followCertificate({ certFile: config.TLS_CERT_FILE, keyFile: config.TLS_KEY_FILE }, log, registry));
const app = buildApp(config, relay, { certificate });
resources.use(every(5_000, breakSlowReaders(app.server, log), log));
resources.use(every(1_000, async () => relay.replies.makeRoom(), log));
await app.listen({ host: config.HTTP_HOST, port: config.HTTP_PORT });
log.info({ addresses: app.addresses(), opsPort: ops.port, grpcPort: state.port, relaySession }, "relay is ready");
const reason = await stopOrFault(log);
relay.isDraining = true;
leases?.close();
await drain(app, relay, drainMsAfter(reason, config.DRAIN_MS));
