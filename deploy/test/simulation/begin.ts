import type { FailureName } from "../../../services/relay/failures.ts";
import { beginMove } from "../../../services/auth-quota/store/account-shards.ts";
import { accountHash } from "#shared/money/account-hash.ts";
import { createKeyDatabase } from "./key-database.ts";
import { beginTruth, drawCalls, priceOf, runCall, type CallPlan, type Payer } from "./caller.ts";
import { createProcess, enter, isOver } from "./clock.ts";
import { createDisk } from "./disk.ts";
import { heal, strike } from "./faults.ts";
import { checkAcked, checkCommitted, checkServed, createRunChecks } from "./invariants.ts";
import { creditAccount, createLedger } from "./ledger.ts";
import type { LuaScript } from "./lua.ts";
import { callService, calm, createNetwork, later } from "./network.ts";
import { createRateCheck } from "./lease-rules.ts";
import { noteBooked } from "./overspend.ts";
import { killPlace, loseDisk, startPlace } from "./nodes.ts";
import { clocks, drawnFrom, drawProfile } from "./profile.ts";
import { createRandom, type Random } from "./random.ts";
import { createMemoryRedis } from "./redis.ts";
import type { RedisServer } from "./redis-link.ts";
import { shardPrefixes } from "../../../services/auth-quota/store/key-prefix.ts";
import { createLines } from "./session-stream.ts";
import { createUsageStream } from "./stream.ts";
import { hasMoves, note, placesOf, startMs, type RunningNode, type Trace, type World } from "./world.ts";

/** Draws a world from its seed; what happens in it is put down and waits for the clock. */
export function beginWorld(seed: number, script: LuaScript, hasTrace: boolean): World {
  const random = createRandom(seed);
  const drawn = drawnFrom(random);
  const profile = drawProfile(drawn);
  const network = createNetwork(random.fork(), calm);
  const trace: Trace = { hash: 0x811c_9dc5, lines: hasTrace ? [] : undefined };
  const payers = drawPayers(drawn, profile.name === clocks ? 0 : seed);
  const { relays, authQuotas, billings } = createPlaces();
  const world: World = {
    seed,
    random: random.fork(),
    profile,
    network,
    redises: createRedises(seed, script, (below) => random.between(0, below - 1)),
    ledger: createLedger((lines) => {
      for (const line of lines) world.note(`booked ${line.rid} kind ${line.kind} ${line.amountNanos}`);
      checkCommitted(world, lines);
      noteBooked(world, lines);
    }),
    stream: createUsageStream(network, (message) => checkAcked(world, message)),
    lines: createLines(network, authQuotas),
    relays,
    authQuotas,
    billings,
    payers,
    truths: new Map(),
    losses: [],
    sweptSessions: new Set(),
    relaySilentMs: drawn.between(8_000, 20_000),
    outboxAgeMs: drawn.between(1_000, 5_000),
    clockRightAtMs: undefined,
    healsAtMs: 0,
    hasLeases: hasLeases(seed),
    leasesSeen: new Set(),
    leasesAskedAtMs: new Map(),
    drawn: new Set(),
    stopped: new Map(),
    onAdmitted: () => undefined,
    leasedCalls: 0,
    recalledLeases: 0,
    hasForgotten: false,
    counts: new Map(),
    trace,
    violations: [],
    note: (text) => note(trace, text),
    violate: (text) => {
      world.note(`VIOLATION ${text}`);
      world.violations.push(text);
    },
    noteLoss: (server) => noteLoss(world, server),
    kill: (killed) => killPlace(world, killed),
    start: (started) => startPlace(world, started),
    loseDisk: (lost) => loseDisk(world, ({ place: at }) => at === lost.name),
  };
  world.onAdmitted = createRateCheck(world);
  const checks = createRunChecks(world);
  for (const redis of world.redises) {
    redis.onRun = (values, answer) => {
      if (!quiet.has(values[8] ?? ""))
        world.note(`${redis.name} ${values.slice(8).map(plain).join(" ")} => ${String(answer).slice(0, 200)}`);
      checks.afterRun(values, answer);
    };
  }
  const plans = drawCalls(drawn, { payers, lastMs: profile.loadMs, longShare: profile.longShare });
  schedule(world, world.hasLeases ? followed(seed, plans) : plans);
  if (isStopping(seed)) stopKey(world, createRandom(seed ^ 0x570b));
  if (hasMoves(seed)) moveAccounts(world, createRandom(seed ^ 0x30be));
  return world;
}

// In every fifth world, with one shard in each.
const redisesOf = (seed: number): number => (seed % 5 === 3 ? 3 : 1);

function createRedises(seed: number, script: LuaScript, random: (below: number) => number): RedisServer[] {
  return shardPrefixes({ shards: redisesOf(seed), number: 0 }).map((prefix, index) => {
    const server: RedisServer = {
      name: index === 0 ? "redis" : `redis-${index}`,
      prefix,
      memory: createMemoryRedis(() => (Date.now() + server.clockAheadMs) * 1_000, random),
      script,
      isDown: false,
      clockAheadMs: 0,
      onRun: () => undefined,
    };
    return server;
  });
}

// In every second world, the others being the worlds that they were before.
const hasLeases = (seed: number): boolean => seed % 2 === 1;

// Of those, in every 22nd accounts have a rate that their calls use up; in every third a key is stopped.
const isRated = (seed: number): boolean => seed % 44 === 7;
const isStopping = (seed: number): boolean => seed % 6 === 5;

// In every eighth of them so many calls come that most keys are leased.
const isDense = (seed: number): boolean => seed % 16 === 9;

function followersIn(seed: number): [least: number, most: number] {
  if (isRated(seed)) return [20, 40];
  return isDense(seed) ? [6, 14] : [0, 8];
}

/** Calls with some like each soon after it: leases are for keys whose calls come often. */
function followed(seed: number, plans: CallPlan[]): CallPlan[] {
  const random = createRandom(seed ^ 0x5eed);
  return plans.flatMap((plan) => [plan, ...followersOf(random, plan, random.between(...followersIn(seed)))]);
}

function followersOf(random: Random, plan: CallPlan, count: number): CallPlan[] {
  return Array.from({ length: count }, (_, index) => ({
    ...plan,
    atMs: plan.atMs + (index + 1) * random.between(20, 700),
    ridBytes: Uint8Array.from({ length: 16 }, () => random.between(0, 255)),
  }));
}

// In every third world few calls may be under way: of the first account, and of the key of the second.
function drawPayers(random: Random, seed: number): Payer[] {
  const rated = isRated(seed);
  const isNarrow = seed % 3 === 1;
  // In every fourth world the first account may spend so much and no more.
  const limited = seed % 4 === 2 ? String(createRandom(seed ^ 0xb0d).between(20_000_000, 200_000_000)) : null;
  return [1, 2].map((number) => ({
    mostOfAccount: isNarrow && number === 1 ? 3 : 0,
    mostOfKey: isNarrow && number === 2 ? 2 : 0,
    accountId: `acct_${number}`,
    limitOfAccount: number === 1 ? limited : null,
    perMinute: rated ? 120 : 0,
    status: "active",
    keyId: `key_${number}`,
    keyHash: new Uint8Array(32).fill(number),
    // One of the keys has a limit of its own.
    limitNanos: number === 1 ? null : String(random.between(20_000_000, 200_000_000)),
  }));
}

function createPlaces(): Pick<World, "relays" | "authQuotas" | "billings"> {
  const place = (kind: RunningNode["kind"], number: number): RunningNode => {
    const name = `${kind}-${number}`;
    return { name, kind, starts: 0, process: createProcess(name) };
  };
  const numbers = [1, 2];
  return {
    relays: numbers.map((number) => ({
      ...place("relay", number),
      disk: createDisk(),
      relay: undefined,
      clockAheadMs: 0,
      onCharge: undefined,
    })),
    authQuotas: numbers.map((number) => ({ ...place("auth-quota", number), serve: undefined, service: undefined })),
    billings: numbers.map((number) => ({ ...place("billing", number), service: undefined })),
  };
}

const pushAgainMs = 2_000;

// Looks that change nothing, many of them.
const quiet = new Set(["gate", "sweep", "sweep-forgotten", "sweep-leases"]);

// Records are long and not for reading.
const plain = (value: string): string => (value.length > 60 ? `<${value.length} bytes>` : value);

/** Puts down what will happen: starts, money, calls, faults. */
function schedule(world: World, plans: CallPlan[]): void {
  const worth = plans.map(({ inputTokens, pieces }) => ({
    inputTokens,
    outputTokens: pieces.reduce((sum, tokens) => sum + tokens, 0),
    isLeft: false,
  }));
  const total = worth.reduce((sum, use) => sum + priceOf(use), 0n);
  const { isShort, loadMs, faults, weather } = world.profile;
  for (const { accountId } of world.payers) {
    // Of very little nothing is leased.
    const shortShare = (): number => world.random.between(10, 50) * (isDense(world.seed) ? 2 : 1);
    const share = BigInt(isShort ? shortShare() : 150);
    creditAccount(world.ledger, accountId, (total * share) / 100n);
    later(() => credit(world, accountId, (total * share) / 400n), world.random.between(5_000, loadMs));
  }
  for (const place of placesOf(world)) startPlace(world, place);
  for (const plan of plans) later(() => call(world, plan), 2_000 + plan.atMs);
  later(() => (world.network.weather = weather), 3_000);
  for (const { atMs, name } of faults) later(() => strike(world, name), 2_000 + atMs);
  const healMs = faults.length === 0 ? 0 : world.random.between(0, 20_000);
  world.healsAtMs = startMs + loadMs + 2_000 + healMs;
  later(() => heal(world), loadMs + 2_000 + healMs);
}

/** An operator has an account move to any shard, and perhaps on or back before it is there. */
function moveAccounts(world: World, random: Random): void {
  const link = { ledger: world.ledger, network: world.network, from: "operator" };
  const database = createKeyDatabase(link, world.payers);
  for (const { accountId } of world.payers) {
    for (let count = random.between(1, 3); count > 0; count -= 1) {
      const movingTo = random.between(0, world.redises.length - 1);
      later(
        () => {
          world.note(`move ${accountId} to ${movingTo}`);
          const shard = accountHash(accountId) % world.redises.length;
          beginMove(database, { accountId, shard, movingTo }).catch(() => undefined);
        },
        random.between(3_000, 25_000),
      );
    }
  }
}

/** An operator stops a key while calls of it come: auth-quota writes it down, and tells Redis until that has it. */
function stopKey(world: World, random: Random): void {
  const [payer] = world.payers;
  if (!payer) return;
  later(
    () => {
      payer.status = "stopped";
      pushUntilTaken(world, payer);
    },
    random.between(5_000, 20_000),
  );
}

/** Notes a loss. As auth-quota does when a Redis comes back, tells it again that keys are stopped. */
function noteLoss(world: World, server: RedisServer): void {
  world.losses.push({ atMs: Date.now(), server });
  for (const payer of world.payers.filter(({ status }) => status === "stopped")) {
    world.stopped.delete(payer.keyId);
    later(() => pushUntilTaken(world, payer), pushAgainMs);
  }
}

function pushUntilTaken(world: World, payer: Payer): void {
  const [place] = world.authQuotas.filter(({ process: at, service }) => service && !isOver(at));
  const pushed = place?.service && callService({ network: world.network, from: "operator", to: place }, () => tell());
  const tell = (): Promise<void> => place?.service?.pushKey(payer) ?? Promise.reject(new Error("it is away"));
  const again = (): void => later(() => pushUntilTaken(world, payer), pushAgainMs);
  if (pushed) pushed.then(() => undefined, again);
  else again();
}

function credit(world: World, accountId: string, nanos: bigint): void {
  creditAccount(world.ledger, accountId, nanos);
  world.note(`credit ${accountId} ${nanos}`);
}

function call(world: World, plan: CallPlan): void {
  const running = world.relays.filter(({ relay, process: running_ }) => relay && !isOver(running_));
  if (running.length === 0) return;
  const place = world.random.pick(running);
  const { relay, process: at } = place;
  if (!relay) return;
  enter(at, () => {
    const truth = beginTruth(plan, place, relay);
    world.truths.set(truth.rid, truth);
    world.note(`call ${truth.rid} ${plan.ending}`);
    const onRefused = (refusal: FailureName): void => checkServed(world, truth, refusal);
    void runCall({ plan, relay, truth, process: at, note: world.note, onRefused });
  });
}
