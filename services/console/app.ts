import { forgetLinks } from "./store/invitations.ts";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { systemClock, type Clock } from "#shared/process/clock.ts";
import { endServing } from "#shared/process/end-serving.ts";
import { streamingClient } from "#shared/grpc/stream.ts";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import type { Identity } from "#shared/grpc/identity.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { createHealth } from "#shared/process/health.ts";
import { every } from "#shared/process/lifecycle.ts";
import { publicRules, type FetchRules } from "#shared/net/guarded-agent.ts";
import type { Logger } from "#shared/process/log.ts";
import { createRegistry, serveOps } from "#shared/metrics/ops.ts";
import { createPool, probe, type Pool } from "#shared/stores/postgres.ts";
import { traceShareOf } from "#shared/process/tracing.ts";
import { deliverDue } from "./alerts/deliver.ts";
import { findCrossings } from "./alerts/find-crossings.ts";
import { lookAtDomains } from "./domains/look-again.ts";
import { createTxtRecords } from "./txt-records.ts";
import { createMailer } from "./mailer.ts";
import { ensureBootstrap } from "./sign-in/bootstrap.ts";
import type { Config } from "./config.ts";
import type { Deps } from "./deps.ts";
import { createMetrics } from "./metrics.ts";
import { oidcOf } from "./credentials/oidc.ts";
import { createPasswords } from "./credentials/passwords.ts";
import { chargeDue, chargePending } from "./top-ups/automatic.ts";
import { endPlaygroundKeys } from "./playground-key.ts";
import { createTellAgain } from "./top-ups/tell-again.ts";
import { settlePendingTopUps } from "./top-ups/settle.ts";
import { createPayments } from "./payments/settings.ts";
import { createRelays } from "./relays.ts";
import { resealAll } from "./reseal.ts";
import { allRoutes } from "./routes.ts";
import { createSecretBox, readSecretsKeys } from "./credentials/secrets.ts";
import { buildServer } from "./http/server.ts";
import { deleteOldDeliveries } from "./store/deliveries.ts";
import { deleteEndedAttempts } from "./store/identities.ts";
import { deleteEndedSessions } from "./store/sessions.ts";

/** The running service; disposal drains it. */
export type App = AsyncDisposable & { httpPort: number; opsPort: number };

const callTimeoutMs = 5_000;
const patientMs = 60_000;
// A stream may take longer; one that says nothing for this long has ended without a word.
const idleMs = 60_000;
const relayTimeoutMs = 2_000;
const probeMs = 2_000;
const sweepMs = 60_000;
const maxSwept = 10_000;
const alertsMs = 2_000;
const deliveriesMs = 1_000;
const chargesMs = 5_000;
const resealMs = 600_000;
const tellAgainMs = 600_000;

/** What is outside, where tests have their own. */
export type Outside = {
  /** Where webhooks may be. */
  webhookRules?: FetchRules;
  /** Servers that are asked for DNS records; none: those of the machine. */
  dnsServers?: readonly string[];
};

/** Starts the service. PostgreSQL, auth-quota and billing may be up, down or on their way. */
export async function startApp(
  config: Config,
  log: Logger,
  clock: Clock = systemClock,
  { webhookRules = publicRules, dnsServers = [] }: Outside = {},
): Promise<App> {
  await using resources = new AsyncDisposableStack();
  const box = createSecretBox(readSecretsKeys(readFileSync(config.SECRETS_KEY_FILE, "utf8")));
  const cost = { memoryKib: config.PASSWORD_MEMORY_KIB, passes: config.PASSWORD_PASSES };
  const onError = (error: Error): void => log.warn({ err: error }, "lost connection to PostgreSQL");
  const pool = resources.use(createPool(config.DATABASE_URL, "console", onError));
  const registry = createRegistry("console");
  const credentials = resources.use(openGrpcCredentials(config, log, registry));
  const connect = (address: string, peer: Identity) => resources.use(connectGrpc(address, credentials, peer));
  const toBilling = connect(config.BILLING_ADDRESS, "billing");
  const deps: Deps = {
    pool,
    authQuota: unaryClient(AuthQuotaService, connect(config.AUTH_QUOTA_ADDRESS, "auth-quota"), callTimeoutMs),
    billing: unaryClient(BillingService, toBilling, callTimeoutMs),
    patientBilling: unaryClient(BillingService, toBilling, patientMs),
    billingStreams: streamingClient(BillingService, toBilling, idleMs),
    videoTask: unaryClient(VideoTaskService, connect(config.VIDEO_TASK_ADDRESS, "video-task"), callTimeoutMs),
    relays: createRelays(config.RELAY_ADDRESSES, { timeoutMs: relayTimeoutMs, credentials }, clock),
    passwords: await createPasswords(cost),
    box,
    oidc: oidcOf(config, callTimeoutMs, log),
    domainSignIn: config.DOMAIN_SIGN_IN === "on",
    txtRecords: createTxtRecords(dnsServers),
    clock,
    payments: createPayments(config, clock),
    mailer: createMailer(config),
    webhookRules,
    secondFactorRequiredOf: config.SECOND_FACTOR_REQUIRED_OF,
    bootstrapAccountId: config.BOOTSTRAP_ACCOUNT === "" ? undefined : config.BOOTSTRAP_ACCOUNT,
    publicUrl: new URL(config.PUBLIC_URL),
    apiUrl: new URL(config.API_URL),
    metrics: createMetrics(registry),
    log,
  };
  const reasons = await keepWatch(resources, pool, log);
  workByItself(resources, deps);
  let isStopping = false;
  const notReady = (): string[] => [...reasons(), ...(isStopping ? ["stopping"] : [])];
  const ops = resources.use(await serveOps({ host: config.OPS_HOST, port: config.OPS_PORT }, registry, notReady));
  const server = await buildServer(deps, allRoutes(deps), {
    allowPlainHttp: config.ALLOW_PLAIN_HTTP,
    proxies: config.TRUSTED_PROXIES,
    guessesPerMinute: config.GUESSES_PER_MINUTE,
    traceShare: traceShareOf(config),
  });
  await server.listen({ host: config.HTTP_HOST, port: config.HTTP_PORT });
  resources.defer(async () => {
    isStopping = true;
    const { connections } = server;
    const close = (): Promise<void> => server.close();
    await endServing({ connections, close, drainMs: config.DRAIN_MS, cut: connections.breakAll });
  });
  const { port } = server.server.address() as AddressInfo;
  const owned = resources.move();
  return { httpPort: port, opsPort: ops.port, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** What the service does without being asked. */
function workByItself(resources: AsyncDisposableStack, deps: Deps): void {
  const { log, box } = deps;
  const { payments } = deps;
  if (payments) {
    const paying = { ...deps, payments };
    resources.use(every(sweepMs, () => settlePendingTopUps(paying), log));
    resources.use(every(alertsMs, () => chargeDue(paying), log));
    resources.use(every(chargesMs, () => chargePending(paying), log));
    resources.use(every(tellAgainMs, createTellAgain(paying), log));
  }
  resources.use(every(alertsMs, () => findCrossings(deps), log));
  resources.use(every(sweepMs, () => endPlaygroundKeys(deps), log));
  if (deps.domainSignIn) resources.use(every(sweepMs, () => lookAtDomains(deps), log));
  resources.use(every(deliveriesMs, () => deliverDue(deps), log));
  if (box.isRotating) resources.use(every(resealMs, () => resealAll(deps), log));
}

// Whether PostgreSQL answers; and the bootstrap token, as soon as it does.
async function keepWatch(resources: AsyncDisposableStack, pool: Pool, log: Logger): Promise<() => string[]> {
  const health = createHealth(["PostgreSQL"]);
  let isBootstrapped = false;
  const look = async (): Promise<void> => {
    const problem = await probe(pool, "SELECT FROM console.person LIMIT 1");
    health.set("PostgreSQL", problem);
    if (problem !== undefined || isBootstrapped) return;
    await ensureBootstrap(pool, log);
    isBootstrapped = true;
  };
  await look();
  resources.use(every(probeMs, look, log));
  const sweep = async (): Promise<void> => {
    await deleteEndedSessions(pool, maxSwept);
    await deleteEndedAttempts(pool, maxSwept);
    await deleteOldDeliveries(pool, maxSwept);
    await forgetLinks(pool, maxSwept);
  };
  resources.use(every(sweepMs, sweep, log));
  return health.reasons;
}
