// Measures pairs of Reserve and Settle per second: one auth-quota process on a real Redis and PostgreSQL, asked by one
// relay over gRPC in batches. Run: node_modules/.bin/node deploy/bench/auth-quota/main.ts [seconds] [calls per batch]
import { hash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { v7 } from "uuid";
import { AuthQuotaService, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { connectGrpc, unaryClient } from "#shared/grpc.ts";
import { createLog } from "#shared/log.ts";
import { maxAccountNanos } from "#shared/money.ts";
import { startProcess } from "#shared/testing/child-process.ts";
import { startStores } from "#shared/testing/stores.ts";
import { readProcessUse } from "../process-use.ts";
import { migrate } from "../../../services/auth-quota/store/migrate.ts";
import { openRelayLine } from "../../../services/auth-quota/testing/relay-line.ts";
import { startStubBilling } from "../../../services/auth-quota/testing/stub-billing.ts";

const seconds = Number(process.argv[2] ?? 5);
const perBatch = Number(process.argv[3] ?? 64);
const batchesAtOnce = 8;
const accounts = 16;
// About the size of a real usage record.
const record = Buffer.alloc(300, 7);

const log = createLog("bench", "warn");
await using stores = await startStores({ redis: true, postgres: true });
const databaseUrl = await stores.postgres.createDatabase();
await migrate(databaseUrl, log);
await using billing = await startStubBilling(log);

const ready = Promise.withResolvers<number>();
const service = await startProcess({
  command: process.execPath,
  args: [fileURLToPath(new URL("../../../services/auth-quota/main.ts", import.meta.url))],
  environment: {
    DATABASE_URL: databaseUrl,
    REDIS_URL: stores.redis.url,
    BILLING_ADDRESS: billing.address,
    GRPC_PORT: "0",
    OPS_PORT: "0",
  },
  orphanSignal: "SIGKILL",
  onLine: (line) => {
    const { grpcPort } = JSON.parse(line) as { grpcPort?: number };
    if (grpcPort) ready.resolve(grpcPort);
  },
});
using channel = connectGrpc(`127.0.0.1:${await ready.promise}`);
const admin = unaryClient(AuthQuotaService, channel, 5_000);

type Payer = { accountId: string; keyId: string; keyHash: Uint8Array };
const payers: Payer[] = [];
for (let made = 0; made < accounts; made += 1) {
  const accountId = `acct_bench_${made}`;
  billing.balances.set(accountId, { nanos: maxAccountNanos, version: 1n });
  await admin.createAccount({ accountId, name: "bench", requestsPerMinute: 1_000_000 });
  const { key, secret } = await admin.createKey({ accountId, name: "bench" });
  payers.push({ accountId, keyId: key?.keyId ?? "", keyHash: hash("sha256", secret, "buffer") });
}

using line = openRelayLine(channel, "relay_bench");
let pairs = 0;
const refused = new Map<string, number>();

function count(results: { verdict: Verdict }[], step: string): void {
  for (const { verdict } of results) {
    if (verdict !== Verdict.OK) refused.set(`${step} ${verdict}`, (refused.get(`${step} ${verdict}`) ?? 0) + 1);
  }
}

async function runCalls(untilMs: number): Promise<void> {
  while (performance.now() < untilMs) {
    const calls = Array.from({ length: perBatch }, (_, index) => {
      const { keyHash, accountId, keyId } = payers[index % accounts] as Payer;
      return { rid: v7(), keyHash, accountId, keyId };
    });
    const reserved = await line.send(
      calls.map(({ rid, keyHash }) => ({
        case: "reserve",
        value: { rid, keyHash, model: "m", estimateNanos: 1_000_000n },
      })),
    );
    const settled = await line.send(
      calls.map(({ rid, accountId, keyId }) => ({
        case: "settle",
        value: { rid, accountId, keyId, costNanos: 700_000n, record },
      })),
    );
    count(reserved, "reserve");
    count(settled, "settle");
    pairs += perBatch;
  }
}

async function measure(durationMs: number): Promise<number> {
  pairs = 0;
  const startedAt = performance.now();
  const untilMs = startedAt + durationMs;
  await Promise.all(Array.from({ length: batchesAtOnce }, () => runCalls(untilMs)));
  return (pairs * 1_000) / (performance.now() - startedAt);
}

const processes = { "auth-quota": service.pid, redis: stores.redis.pid, "the asking relay": process.pid };
const usedUs = () => Object.values(processes).map((pid) => readProcessUse(pid).cpuUs);

await measure(1_000);
const usedBefore = usedUs();
const perSecond = await measure(seconds * 1_000);
const usedAfter = usedUs();
const perPair = Object.keys(processes).map((name, index) => {
  const microseconds = ((usedAfter[index] ?? Number.NaN) - (usedBefore[index] ?? Number.NaN)) / pairs;
  return `${name} ${microseconds.toFixed(1)} us`;
});
const refusals = [...refused].map(([what, times]) => `${what} × ${times}`).join(", ") || "none";
process.stdout.write(
  `${Math.round(perSecond).toLocaleString("en")} pairs of Reserve and Settle per second ` +
    `(batches of ${perBatch}, ${batchesAtOnce} at once, ${seconds} s); refused: ${refusals}\n` +
    `CPU per pair: ${perPair.join(", ")}\n`,
);
await service.end("SIGTERM");
