import { startRedisCluster } from "../../../services/auth-quota/testing/redis-cluster.ts";
import { startHoldWorld, untilServing, type HoldPlan } from "../auth-quota/hold-world.ts";
import { operationsInFlight, runPairs, type Variant } from "../auth-quota/pairs.ts";
import { renderBars, type Bar } from "../bars.ts";
import { startMeter } from "../cpu-meter.ts";
import { readProcessUse } from "../process-use.ts";
import { median, pairedSpread } from "../statistics.ts";
import { formatFigure, renderTable } from "../table.ts";

/** `load`: how many times 512 operations are in flight. */
type ShardSize = { masters: number; shards: number; accounts: number; load: number };

/** What Reserve and Settle cost with so many masters, shards and accounts. */
export type ShardPoint = ShardSize & {
  pairsPerSecond: number;
  redisUs: number;
  authQuotaUs: number;
  redisUsOfRounds: number[];
};

const one: ShardSize = { masters: 1, shards: 1, accounts: 100, load: 1 };
const oneAccount: ShardSize = { ...one, accounts: 1 };
const three: ShardSize = { ...one, masters: 3, shards: 3 };
// As much for each master as one alone has.
const threeBusy: ShardSize = { ...three, load: 3 };
const sizes = [oneAccount, one, three, threeBusy, { ...three, shards: 6 }, { ...three, shards: 12 }];
const perBatch = 64;
const warmupMs = 1_500;
const windowMs = 2_500;

/** Measures pairs of Reserve and Settle, batches of 64, by the number of masters of a Redis Cluster and of shards. */
export async function measureShards(rounds: number, say: (text: string) => void): Promise<ShardPoint[]> {
  const points: ShardPoint[] = [];
  for (const size of sizes) {
    say(`shards: ${size.shards} on ${size.masters} masters, ${size.accounts} accounts, load ${size.load}`);
    points.push(await measureSize(size, rounds));
  }
  say(`\n${renderShards(points)}\n\n${renderBars(barsOf(points))}`);
  return points;
}

async function measureSize(size: ShardSize, rounds: number): Promise<ShardPoint> {
  await using resources = new AsyncDisposableStack();
  const { masters, shards, accounts, load } = size;
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
  let { settled } = await runPairs(variant, warmupMs, load * operationsInFlight);
  const windows: { pairsPerSecond: number; redisUs: number; authQuotaUs: number }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const stop = startMeter({
      redis: () => world.redisPids.reduce((sum, pid) => sum + readProcessUse(pid).cpuUs, 0),
      authQuota: () => readProcessUse(world.service.pid).cpuUs,
    });
    const run = await runPairs(variant, windowMs, load * operationsInFlight);
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
  return {
    ...size,
    pairsPerSecond: of("pairsPerSecond"),
    redisUs: of("redisUs"),
    authQuotaUs: of("authQuotaUs"),
    redisUsOfRounds: windows.map(({ redisUs }) => redisUs),
  };
}

const maxTimesOneMaster = 1.1;
const maxTimesOneAccount = 1.2;

/** What sharding may cost Redis; at 1.1 times, three masters carry 2.7 times as much as one. */
function barsOf(points: readonly ShardPoint[]): Bar[] {
  const costs = (size: ShardSize): number[] =>
    points.find(({ masters, shards, accounts, load }) => {
      return masters === size.masters && shards === size.shards && accounts === size.accounts && load === size.load;
    })?.redisUsOfRounds ?? [];
  const timesOne = (size: ShardSize) => pairedSpread(costs(size), costs(one));
  return [
    { what: "three masters to one, as much load for each", measured: timesOne(threeBusy), max: maxTimesOneMaster },
    { what: "three masters to one, one's load for all", measured: timesOne(three), max: maxTimesOneMaster },
    {
      what: "100 accounts to one",
      measured: pairedSpread(costs(one), costs(oneAccount)),
      max: maxTimesOneAccount,
    },
  ];
}

function renderShards(points: readonly ShardPoint[]): string {
  const base = points.find(({ masters, accounts }) => masters === 1 && accounts === 100);
  const rows = points.map(({ masters, shards, accounts, load, pairsPerSecond, redisUs, authQuotaUs }) => [
    String(masters),
    String(shards),
    String(accounts),
    String(load),
    formatFigure(pairsPerSecond),
    formatFigure(redisUs),
    formatFigure(1_000_000 / redisUs),
    formatFigure(redisUs / (base?.redisUs ?? Number.NaN)),
    formatFigure(authQuotaUs),
  ]);
  const heads = ["masters", "shards", "accounts", "load", "pairs/s", "CPU µs of Redis per pair"];
  heads.push("pairs per CPU second of Redis", "times one master", "CPU µs of auth-quota per pair");
  return renderTable(heads, rows);
}
