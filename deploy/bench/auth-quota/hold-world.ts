import { hash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { AuthQuotaService, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { migrate } from "../../../services/auth-quota/store/migrate.ts";
import { openRelayLine } from "../../../services/auth-quota/testing/relay-line.ts";
import { startStubBilling } from "../../../services/auth-quota/testing/stub-billing.ts";
import { startAnnounced, type Started } from "../announced.ts";
import { costNanos, type SendBatch, type Payer } from "./pairs.ts";
import { UnaryService } from "./unary-contract.ts";

/** Auth-quota on real Redis and PostgreSQL, the same behind unary calls, and accounts whose money does not run out. */
export type HoldWorld = AsyncDisposable & {
  service: Started;
  unary: Started;
  redisPids: readonly number[];
  payers: readonly Payer[];
  /** One batch of the session stream; its own stream for each `relaySession`. */
  openLine: (relaySession: string) => SendBatch;
  /** One unary call with these operations. */
  callUnary: SendBatch;
  /** What is wrong with the accounts when `settled` charges were taken and no hold is open; empty when nothing is. */
  audit: (settled: number) => Promise<string>;
};

const perMinute = 1_000_000;
const callTimeoutMs = 10_000;
const entries = {
  service: fileURLToPath(import.meta.resolve("../../../services/auth-quota/main.ts")),
  unary: fileURLToPath(import.meta.resolve("./unary-process.ts")),
};

type Admin = UnaryClient<typeof AuthQuotaService>;

/** How many accounts there are, and in which Redis with how many shards; without one it is a single Redis. */
export type HoldPlan = { accounts: number; shards: number; redis?: { url: string; pids: readonly number[] } };

/** Starts it. Rates are raised, not switched off: each call still asks for those of its account and its address. */
export async function startHoldWorld(plan: HoldPlan = { accounts: 16, shards: 1 }): Promise<HoldWorld> {
  await using resources = new AsyncDisposableStack();
  const log = createLog("bench", "warn");
  const stores = resources.use(await startStores({ redis: true, postgres: true }));
  const databaseUrl = await stores.postgres.createDatabase();
  await migrate(databaseUrl, log);
  const billing = resources.use(await startStubBilling(log));
  const environment = {
    DATABASE_URL: databaseUrl,
    REDIS_URL: plan.redis?.url ?? stores.redis.url,
    REDIS_SHARDS: String(plan.shards),
    BILLING_ADDRESS: billing.address,
    HOLD_PROOF_KEYS: holdProofKeys,
    GRPC_PORT: "0",
    OPS_PORT: "0",
    ALLOW_PLAIN_GRPC: "always",
    IP_REQUESTS_PER_MINUTE: String(perMinute),
  };
  const start = (entry: string, portField: string): Promise<Started> =>
    startAnnounced({ command: process.execPath, args: [entry], environment, portField });
  const service = resources.use(await start(entries.service, "grpcPort"));
  const unary = resources.use(await start(entries.unary, "port"));
  const channel = resources.use(connectGrpc(`127.0.0.1:${service.port}`));
  const unaryChannel = resources.use(connectGrpc(`127.0.0.1:${unary.port}`));

  const admin = unaryClient(AuthQuotaService, channel, callTimeoutMs);
  const payers = await openAccounts(admin, plan.accounts, (id) =>
    billing.balances.set(id, { nanos: maxAccountNanos, version: 1n }),
  );
  const naive = unaryClient(UnaryService, unaryChannel, callTimeoutMs);
  const owned = resources.move();
  return {
    service,
    unary,
    redisPids: plan.redis?.pids ?? [stores.redis.pid],
    payers,
    openLine: (relaySession) => owned.use(openRelayLine(channel, relaySession)).send,
    callUnary: async (operations) => {
      const asked = operations.map((operation) => ({ operation }));
      return (await naive.decide({ relaySession: "relay_unary", operations: asked })).results;
    },
    audit: (settled) => audit(admin, payers, settled),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function openAccounts(admin: Admin, accounts: number, fund: (accountId: string) => void): Promise<Payer[]> {
  const payers: Payer[] = [];
  for (let made = 0; made < accounts; made += 1) {
    const accountId = `acct_bench_${made}`;
    fund(accountId);
    await admin.createAccount({ accountId, name: "Bench", requestsPerMinute: perMinute });
    const { key, secret } = await admin.createKey({ accountId, name: "Bench" });
    const keyHash = hash("sha256", secret, "buffer");
    payers.push({ accountId, keyId: key?.keyId ?? "", keyHash, ip: `198.51.100.${made % 200}` });
  }
  return payers;
}

/** Waits until a key is found good: until then auth-quota may still be making Redis ready. */
export async function untilServing(ask: SendBatch, { keyHash, ip }: Payer): Promise<void> {
  await until("auth-quota answers", async () => {
    const [answer] = await ask([{ case: "authorize", value: { keyHash, ip } }]);
    return answer?.verdict === Verdict.OK;
  });
}

// Nothing is booked here, so each charge that was taken must still be waiting for the ledger, and no hold may be open.
async function audit(admin: Admin, payers: readonly Payer[], settled: number): Promise<string> {
  const sums = await Promise.all(payers.map(({ accountId }) => admin.getHolds({ accountId })));
  const total = (read: (of: (typeof sums)[number]) => bigint): bigint =>
    sums.reduce((sum, account) => sum + read(account), 0n);
  const found = {
    openHolds: total(({ openHolds }) => openHolds),
    heldNanos: total(({ heldNanos }) => heldNanos),
    unpostedCalls: total(({ unpostedCalls }) => unpostedCalls),
    unpostedNanos: total(({ unpostedNanos }) => unpostedNanos),
  };
  const expected = {
    openHolds: 0n,
    heldNanos: 0n,
    unpostedCalls: BigInt(settled),
    unpostedNanos: BigInt(settled) * costNanos,
  };
  const names = Object.keys(expected) as (keyof typeof expected)[];
  const wrong = names.filter((name) => found[name] !== expected[name]);
  return wrong.map((name) => `${name} is ${found[name]} instead of ${expected[name]}`).join(", ");
}
