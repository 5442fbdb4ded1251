import { existsSync } from "node:fs";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LoadReport } from "./load-plan.ts";
import { smallLoad, type Load } from "./loads.ts";
import type { Measured } from "./measured.ts";
import { setPrecedence } from "./precedence.ts";
import type { Target } from "./targets.ts";
import type { World } from "./world.ts";

const windowMs = 2_500;
const connections = 256;
// Of fewer calls the last thousandth is one call, or none.
const leastCallsOfThousandth = 1_000;
const accounts = 1_000;
const callsPerMinute = 1_000_000;

export const halfLoad = "1 KB at half of the slowest's saturation";
const peerLoad = "1 KB at half of Portkey's saturation";

/** The load of so many calls begun in a second, whatever becomes of them. */
export const rateLoad = (perSecond: number): string => `1 KB, ${perSecond} calls/s`;

/** The same of many accounts in turn, none of which calls often. */
export const coldLoad = "1 KB, 200 calls/s of 1,000 accounts";
const streamsLoad = "SSE 10 ms gaps, 50 streams begun a second";
const unorderedLoad = "1 KB, 200 calls/s, core 1 not in order";

const openLoop = { ...smallLoad, connections } as const;

/** Loads at rates that leave every target room, each with its length. */
function rateLoads(secretsFile: string | undefined): Load[] {
  const at200 = { ...openLoop, callsPerSecond: 200, windowMs: 6_000, isFirst: true };
  return [
    { ...openLoop, name: rateLoad(50), callsPerSecond: 50, windowMs: 6_000, isFirst: true },
    { ...at200, name: rateLoad(200) },
    { ...openLoop, name: rateLoad(500), callsPerSecond: 500, windowMs: 4_000, isFirst: true },
    ...(secretsFile === undefined ? [] : [{ ...at200, name: coldLoad, secretsFile }]),
    // A stream takes a second, so that it takes one until as many end as begin.
    { ...at200, name: streamsLoad, kind: "paced", callsPerSecond: 50, warmupMs: 1_500 },
    { ...at200, name: unorderedLoad, isFirst: false },
  ];
}

/** Latency that each target adds to the upstream's own, at rates that all of them carry. */
export async function measureLatency(world: World, rounds: number): Promise<void> {
  const { targets, direct, recorder, relay } = world;
  await using resources = new AsyncDisposableStack();
  const leased = relay ? [resources.use(await world.startFresh("leased"))] : [];
  for (const target of [direct, ...targets, ...leased]) await recorder.warm(smallLoad, target);
  const saturation = new Map<Target, number>();
  for (const target of [...targets, ...leased]) {
    const { calls, windowUs } = await recorder.run(0, { ...smallLoad, windowMs: 1_500 }, target);
    saturation.set(target, calls / (windowUs / 1_000_000));
  }
  try {
    await measureAdded(world, rounds, saturation);
    const own = [...saturation.keys()].filter(({ name }) => name !== "portkey");
    await measureRates(world, rounds, { own, secretsFile: await writeSecrets(resources, relay) });
  } finally {
    putBack(world);
  }
}

/** Secrets of many accounts, in a file that ends with the resources. */
async function writeSecrets(resources: AsyncDisposableStack, relay: World["relay"]): Promise<string | undefined> {
  if (!relay) return undefined;
  const folder = resources.use(await mkdtempDisposable(join(tmpdir(), "relay-latency-")));
  const secrets = await relay.ledger.openAccounts({ accounts, keys: 1, callsPerMinute });
  const file = join(folder.path, "secrets");
  await writeFile(file, secrets.join("\n"), { mode: 0o600 });
  return file;
}

type RateTargets = { own: Target[]; secretsFile: string | undefined };

async function measureRates(world: World, rounds: number, { own, secretsFile }: RateTargets): Promise<void> {
  for (const load of rateLoads(secretsFile)) {
    world.plan.say(`latency, ${load.name}: ${rounds} rounds`);
    for (let round = 1; round <= rounds; round += 1) await measureRound(world, round, load, own);
  }
}

async function measureAdded(world: World, rounds: number, saturation: ReadonlyMap<Target, number>): Promise<void> {
  const { plan } = world;
  const compared = [...saturation.keys()];
  const isFirst = orderCore(world);
  if (!isFirst) putBack(world);
  plan.say(
    isFirst ? "on core 1 callers and upstream go first, billing and its stores last" : "NOT ORDERED: needs root",
  );
  const own = compared.filter(({ name }) => name !== "portkey");
  const groups = [{ name: halfLoad, compared: own }];
  if (own.length < compared.length) groups.push({ name: peerLoad, compared });
  for (const group of groups) {
    const callsPerSecond = halfOf(group.compared.map((target) => saturation.get(target) ?? Number.NaN));
    plan.say(`latency at ${callsPerSecond} calls/s: ${rounds} rounds`);
    const load: Load = { ...openLoop, name: group.name, callsPerSecond, windowMs, isFirst };
    for (let round = 1; round <= rounds; round += 1) await measureRound(world, round, load, group.compared);
  }
}

/**
 * In production callers, upstreams, ledger and stream have machines of their own. Here they share a core with what a
 * call waits for: callers and the upstream go first there, and last what no caller waits for, for all targets alike.
 */
function orderCore({ direct, relay }: World): boolean {
  if (!setPrecedence([direct.pid], "first")) return false;
  // Connections to PostgreSQL end at any time: what is gone needs no place.
  return (relay?.lagging() ?? []).every((pid) => setPrecedence([pid], "last") || !existsSync(`/proc/${pid}`));
}

function putBack({ direct, relay }: World): void {
  setPrecedence([direct.pid, ...(relay?.lagging() ?? [])], "asUsual");
}

/** Half of the least, in whole calls a second. */
export function halfOf(saturations: number[]): number {
  return Math.max(1, Math.floor(Math.min(...saturations) / 2));
}

async function measureRound(world: World, round: number, load: Load, compared: Target[]): Promise<void> {
  const { recorder, direct } = world;
  const arrange = (): void => (load.isFirst ? void orderCore(world) : putBack(world));
  arrange();
  const alone = await recorder.run(round, load, direct);
  for (const target of compared) {
    // Connections to PostgreSQL that came meanwhile are processes that nobody has put anywhere.
    arrange();
    const through = await recorder.run(round, load, target);
    recorder.add(addedLatency({ round, load: load.name, target: target.name }, { load, through, alone }));
  }
}

type Window = Pick<LoadReport, "calls" | "callUs" | "firstUs">;

/** What a proxy adds, in the quantiles of two windows: to whole answers, or until a stream begins. */
export function addedLatency(
  place: Pick<Measured, "round" | "load" | "target">,
  { load, through, alone }: { load: Pick<Load, "kind">; through: Window; alone: Window },
): Measured[] {
  const [timed, figure] =
    load.kind === "json" ? (["callUs", "added"] as const) : (["firstUs", "added first byte"] as const);
  const hasThousandth = Math.min(through.calls, alone.calls) >= leastCallsOfThousandth;
  const shares = [["p50", "p50"], ["p99", "p99"], ...(hasThousandth ? [["p999", "p99.9"] as const] : [])] as const;
  return shares.map(([share, told]) => ({
    ...place,
    figure: `${figure} ${told} ms`,
    value: (through[timed][share] - alone[timed][share]) / 1_000,
  }));
}
