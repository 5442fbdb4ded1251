import { readFileSync } from "node:fs";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { systemClock } from "#shared/process/clock.ts";
import { allowCallers } from "#shared/grpc/callers.ts";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import { debugServices } from "#shared/grpc/debug.ts";
import { grpcMetrics } from "#shared/grpc/metrics.ts";
import { connectGrpc, serveGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { every, stopOrFault } from "#shared/process/lifecycle.ts";
import { createLog } from "#shared/process/log.ts";
import { createRegistry, serveOps } from "#shared/metrics/ops.ts";
import { buildApp } from "./app.ts";
import { callers } from "./callers.ts";
import { archiveLogin, readConfig } from "./config.ts";
import { startConsumer } from "./intake/consume.ts";
import { createArchivePass } from "./archive/pass.ts";
import { openPlace } from "./archive/open-place.ts";
import { createClosePass } from "./handlers/day-close.ts";
import { createHealth } from "#shared/process/health.ts";
import { createMetrics } from "./metrics.ts";
import { keepConnected } from "./intake/nats.ts";
import { createOutboxPass } from "./intake/outbox.ts";
import { createReconcilePass } from "./reconcile/reconcile.ts";
import { readSigningKey } from "#shared/money/report.ts";
import { createProofs } from "./records/proofs.ts";
import { createLedgerDays } from "./store/days.ts";
import { makeSums } from "./store/make-sums.ts";
import { sumUpQuarantine } from "./store/quarantine.ts";
import { readSumsLag } from "./store/sum-state.ts";
import { createPool, probe } from "#shared/stores/postgres.ts";
import { startTracing } from "#shared/process/tracing.ts";
import { encodePost } from "./intake/post-wire.ts";
import { createBalancePusher, createNewerBalances } from "./intake/push-balances.ts";
import { createLedgerRepair } from "./intake/repair-ledger.ts";
import { createFundsPublisher } from "./intake/publish-funds.ts";
import { rebookFunds } from "./intake/rebook-funds.ts";
import { replayAll } from "./handlers/replay.ts";

const config = readConfig(process.env);
const log = createLog("billing", config.LOG_LEVEL);
const signingFile = config.RECONCILE_SIGNING_KEY_FILE;
const signingKey = signingFile === "" ? undefined : readSigningKey(readFileSync(signingFile, "utf8"));
const proofs = createProofs(config.HOLD_PROOF_KEYS, config.HOLD_PROOF_FROM);
const clock = systemClock;
const registry = createRegistry("billing");
const metrics = createMetrics(registry);
const health = createHealth(["NATS", "PostgreSQL", "usage stream"]);

await using resources = new AsyncDisposableStack();
resources.use(await startTracing("billing", config.OTEL_EXPORTER_OTLP_ENDPOINT, log));
const ops = { host: config.OPS_HOST, port: config.OPS_PORT };
const { port: opsPort } = resources.use(await serveOps(ops, registry, health.reasons));
const onLost = (error: Error): void => log.warn({ err: error }, "lost connection to PostgreSQL");
const pool = resources.use(createPool(config.DATABASE_URL, "billing", onLost));
const readPool = resources.use(createPool(config.DATABASE_URL, "billing-read", onLost));
const credentials = resources.use(openGrpcCredentials(config, log, registry));
const channel = resources.use(connectGrpc(config.AUTH_QUOTA_ADDRESS, credentials, "auth-quota"));
const authQuota = unaryClient(AuthQuotaService, channel, 5_000, { post: encodePost });
// Counting the open calls of many accounts takes longer than anything else that is asked there.
const audit = unaryClient(AuthQuotaService, channel, 30_000);
const nats = resources.use(keepConnected(config.NATS_URL, { login: config, registry, health, log }));

const days = createLedgerDays(pool);
const newer = createNewerBalances();
const pusher = createBalancePusher({ authQuota, metrics, log, newer });
const stream = {
  replicas: config.USAGE_STREAM_REPLICAS,
  maxBytes: config.USAGE_STREAM_MAX_BYTES,
  ackWaitMs: config.USAGE_ACK_WAIT_MS,
};
const outboxWork = { authQuota, pool, nats, pusher, proofs, metrics, clock, log, ageMs: config.OUTBOX_AGE_MS };
resources.use(every(5_000, createOutboxPass(outboxWork), log));
resources.use(every(5_000, () => pusher.repair(pool), log));
const reconciling = { pool, nats, authQuota: audit, metrics, clock, log, signingKey };
resources.use(every(config.RECONCILE_MS, createReconcilePass(reconciling), log));
const closing = createClosePass({ pool: readPool, clock, log, signingKey }, metrics.closedUntil);
resources.use(every(config.RECONCILE_MS, closing, log));
resources.use(every(60_000, async () => void (await makeSums(readPool, clock.nowMs())), log));
const place = config.LEDGER_ARCHIVE_URL === "" ? undefined : openPlace(config.LEDGER_ARCHIVE_URL, archiveLogin(config));
if (place && signingKey && config.LEDGER_KEEP_DAYS > 0) {
  const archiving = { pool: readPool, place, signingKey, clock, log, keepDays: config.LEDGER_KEEP_DAYS };
  const leaving = new AbortController();
  const pass = createArchivePass(archiving, { overdue: metrics.archiveOverdue, stop: leaving.signal });
  resources.use(every(config.RECONCILE_MS, pass, log));
  // A day may take an hour, and is begun anew after a stop.
  resources.defer(() => leaving.abort());
}
const lookAtQuarantine = async (): Promise<void> => {
  const { open, oldestSeconds } = await sumUpQuarantine(readPool);
  metrics.quarantineOpen.set(open);
  metrics.quarantineOldest.set(oldestSeconds);
};
resources.use(every(15_000, lookAtQuarantine, log));
const lookAtSums = async (): Promise<void> => {
  const { behindSeconds, unsummedDays } = await readSumsLag(readPool);
  metrics.sumsBehind.set(behindSeconds);
  metrics.unsummedDays.set(unsummedDays);
};
resources.use(every(15_000, lookAtSums, log));
const look = async (): Promise<void> =>
  health.set("PostgreSQL", await probe(pool, "SELECT FROM billing.account LIMIT 1"));
await look();
resources.use(every(2_000, look, log));
const booking = { pool, days, metrics, clock, log, nats, pusher, proofs };
const publishFunds = createFundsPublisher({ pool, nats, replicas: stream.replicas });
const repair = createLedgerRepair({
  ...booking,
  newer,
  authQuota: audit,
  replayFrom: (fromMs) => replayAll(booking, fromMs),
  rebookFundsFrom: async (fromMs) => {
    await publishFunds();
    return await rebookFunds(booking, fromMs);
  },
});
resources.use(every(250, publishFunds, log));
resources.use(every(2_000, repair.pass, log));
resources.use(startConsumer({ ...booking, health, stream, repair }));

const address = { host: config.GRPC_HOST, port: config.GRPC_PORT, drainMs: config.DRAIN_MS };
const permitted = allowCallers(BillingService, callers, { credentials, log });
const listen = { ...address, credentials, interceptors: [grpcMetrics(registry), ...permitted] };
const app = buildApp({ ...reconciling, place, readPool, days, pusher, proofs });
const debug = debugServices({ isOn: config.DEBUG_CALLS === "on", credentials, log });
const { port } = resources.use(await serveGrpc([[BillingService, app], ...debug], listen));

log.info({ port, opsPort }, "billing is ready");
await stopOrFault(log);
log.info("billing is stopping");
