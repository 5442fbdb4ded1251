import { startRedisCluster } from "../../../services/auth-quota/testing/redis-cluster.ts";
import { startHoldWorld, untilServing, type HoldPlan } from "../auth-quota/hold-world.ts";
import { runPairs, type Variant } from "../auth-quota/pairs.ts";
import { startMeter } from "../cpu-meter.ts";
import { readProcessUse } from "../process-use.ts";
import { median } from "../statistics.ts";
import { formatFigure, renderTable } from "../table.ts";

/** What Reserve and Settle cost with so many masters, shards and accounts. */
export type ShardPoint = {
  masters: number;
  shards: number;
  accounts: number;
  pairsPerSecond: number;
  redisUs: number;
  authQuotaUs: number;
};

const sizes = [
  { masters: 1, shards: 1, accounts: 1 },
  { masters: 1, shards: 1, accounts: 100 },
  { masters: 3, shards: 3, accounts: 100 },
  { masters: 3, shards: 6, accounts: 100 },
  { masters: 3, shards: 12, accounts: 100 },
];
const perBatch = 64;
const warmupMs = 1_500;
const windowMs = 2_500;

/** Measures pairs of Reserve and Settle, batches of 64, by the number of masters of a Redis Cluster and of shards. */
export async function measureShards(rounds: number, say: (text: string) => void): Promise<ShardPoint[]> {
  const points: ShardPoint[] = [];
  for (const size of sizes) {
    say(`shards: ${size.shards} on ${size.masters} masters, ${size.accounts} accounts`);
    points.push(await measureSize(size, rounds));
  }
  say(`\n${renderShards(points)}`);
  return points;
}

async function measureSize(size: (typeof sizes)[number], rounds: number): Promise<ShardPoint> {
  await using resources = new AsyncDisposableStack();
  const { masters, shards, accounts } = size;
  const plan: HoldPlan = { accounts, shards };
  if (masters > 1) {
    const cluster = resources.use(await startRedisCluster());
    // It follows one of the masters, which then costs more than the others.
    await cluster.replica.kill();
    plan.redis = { url: cluster.url, pids: [cluster.master, ...cluster.others].map(({ pid }) => pid) };
  }
  const world = resources.use(await startHoldWorld(plan));
  const variant: Variant = { ask: world.openLine("relay_shards"), perBatch, payers: world.payers };
  for (const payer of world.payers) await untilServing(variant.ask, payer);
  let { settled } = await runPairs(variant, warmupMs);
  const windows: Pick<ShardPoint, "pairsPerSecond" | "redisUs" | "authQuotaUs">[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const stop = startMeter({
      redis: () => world.redisPids.reduce((sum, pid) => sum + readProcessUse(pid).cpuUs, 0),
      authQuota: () => readProcessUse(world.service.pid).cpuUs,
    });
    const run = await runPairs(variant, windowMs);
    const { cpuUs, elapsedMs } = stop();
    settled += run.settled;
    const [redisUs = Number.NaN, authQuotaUs = Number.NaN] = ["redis", "authQuota"].map(
      (name) => (cpuUs[name] ?? Number.NaN) / run.pairs,
    );
    windows.push({ pairsPerSecond: (run.pairs * 1_000) / elapsedMs, redisUs, authQuotaUs });
  }
  const wrong = await world.audit(settled);
  if (wrong !== "") throw new Error(`the holds are wrong: ${wrong}`);
  const of = (name: keyof (typeof windows)[number]): number => median(windows.map((window) => window[name]));
  return { ...size, pairsPerSecond: of("pairsPerSecond"), redisUs: of("redisUs"), authQuotaUs: of("authQuotaUs") };
}

function renderShards(points: readonly ShardPoint[]): string {
  const base = points.find(({ masters, accounts }) => masters === 1 && accounts === 100);
  const rows = points.map(({ masters, shards, accounts, pairsPerSecond, redisUs, authQuotaUs }) => [
    String(masters),
    String(shards),
    String(accounts),
    formatFigure(pairsPerSecond),
    formatFigure(redisUs),
    formatFigure(1_000_000 / redisUs),
    formatFigure(redisUs / (base?.redisUs ?? Number.NaN)),
    formatFigure(authQuotaUs),
  ]);
  const heads = ["masters", "shards", "accounts", "pairs/s", "CPU µs of Redis per pair"];
  heads.push("pairs per CPU second of Redis", "times one master", "CPU µs of auth-quota per pair");
  return renderTable(heads, rows);
}
