import { isOver, pause, resume } from "./clock.ts";
import { later } from "./network.ts";
import { createDisk } from "./disk.ts";
import type { FaultName } from "./profile.ts";
import type { Random } from "./random.ts";
import { keepaliveMs } from "./session-stream.ts";
import type { RedisServer } from "./redis-link.ts";
import type { RunningNode, World } from "./world.ts";

// With appendfsync everysec a Redis may lose two seconds.
const lostTailMs = 2_000;

type Fault = (world: World) => void;

const downMs = (random: Random): number =>
  random.chance(0.6) ? random.between(50, 3_000) : random.between(3_000, 30_000);

function killAndRestart(world: World, place: RunningNode): void {
  if (isOver(place.process)) return;
  world.kill(place);
  later(() => world.start(place), downMs(world.random));
}

function pauseAndResume(world: World, place: RunningNode): void {
  const { process } = place;
  if (process.state !== "running") return;
  const pausedMs = world.random.between(5_000, 60_000);
  pause(process);
  world.note(`pause ${place.name} for ${pausedMs} ms`);
  later(() => resume(process), pausedMs);
  // The other end hears nothing from a stopped process and gives the connection up.
  if (pausedMs < keepaliveMs) return;
  later(() => {
    if (process.state !== "paused") return;
    world.lines.breakWhere(({ relay, authQuota }) => relay === place.name || authQuota === place.name);
  }, keepaliveMs);
}

/** Sets a machine's clock, which is put right within seconds. */
function setClock(world: World, machine: { clockAheadMs: number }, aheadMs: number): void {
  machine.clockAheadMs = aheadMs;
  later(
    () => {
      machine.clockAheadMs = 0;
      world.clockRightAtMs = Date.now();
    },
    world.random.between(1_000, 10_000),
  );
}

const anyPlace = ({ random, relays, authQuotas, billings }: World): RunningNode =>
  random.pick<RunningNode>([...relays, ...authQuotas, ...billings]);

const anyRedis = ({ random, redises }: World): RedisServer =>
  redises.length === 1 ? (redises[0] as RedisServer) : random.pick(redises);

/** Two places that talk with each other. */
function anyWay(world: World): [string, string] {
  const { random, relays, authQuotas, billings } = world;
  const relay = random.pick(relays).name;
  const authQuota = random.pick(authQuotas).name;
  const billing = random.pick(billings).name;
  return random.pick([
    [relay, authQuota],
    [relay, "nats"],
    [authQuota, anyRedis(world).name],
    [authQuota, "postgres"],
    [authQuota, billing],
    [billing, authQuota],
    [billing, "nats"],
    [billing, "postgres"],
  ]);
}

const faults: Record<FaultName, Fault> = {
  "kill-relay": (world) => killAndRestart(world, world.random.pick(world.relays)),
  "kill-auth-quota": (world) => killAndRestart(world, world.random.pick(world.authQuotas)),
  "kill-billing": (world) => killAndRestart(world, world.random.pick(world.billings)),
  "kill-at-step": (world) => {
    const place = anyPlace(world);
    const { process } = place;
    let steps = world.random.between(1, 60);
    process.onStep = () => {
      steps -= 1;
      if (steps > 0) return;
      process.onStep = undefined;
      killAndRestart(world, place);
    };
  },
  // Between the two: the charge is on the disk, and nobody has been told.
  "kill-at-charge": (world) => {
    const place = world.random.pick(world.relays);
    place.onCharge = () => killAndRestart(world, place);
  },
  "tear-spool": (world) => {
    const place = world.random.pick(world.relays);
    place.disk.tearNext = () => killAndRestart(world, place);
  },
  "pause-relay": (world) => pauseAndResume(world, world.random.pick(world.relays)),
  "pause-auth-quota": (world) => pauseAndResume(world, world.random.pick(world.authQuotas)),
  "pause-billing": (world) => pauseAndResume(world, world.random.pick(world.billings)),
  cut: (world) => {
    const [one, other] = anyWay(world);
    world.note(`cut ${one} ${other}`);
    world.network.cut(one, other);
    later(() => world.network.heal(one, other), downMs(world.random));
    if (one.startsWith("relay") && other !== "nats") {
      later(() => {
        if (!world.network.isCut(one, other)) return;
        world.lines.breakWhere(({ relay, authQuota }) => relay === one && authQuota === other);
      }, keepaliveMs);
    }
  },
  "isolate-relay": (world) => {
    const relay = world.random.pick(world.relays).name;
    const cutMs = world.random.between(5_000, 40_000);
    for (const { name } of world.authQuotas) {
      world.network.cut(relay, name);
      later(() => world.network.heal(relay, name), cutMs);
    }
    if (cutMs > keepaliveMs) later(() => world.lines.breakWhere((line) => line.relay === relay), keepaliveMs);
  },
  "break-lines": (world) => world.lines.breakWhere(() => world.random.chance(0.7)),
  "redis-down": (world) => {
    const redis = anyRedis(world);
    redis.isDown = true;
    later(() => (redis.isDown = false), downMs(world.random));
  },
  "redis-flush": (world) => {
    const redis = anyRedis(world);
    redis.memory.clear();
    world.noteLoss(redis);
  },
  // It comes back as it was a moment before.
  "redis-tail": (world) => {
    const redis = anyRedis(world);
    const saved = redis.memory.save();
    later(() => {
      redis.memory.restore(saved);
      redis.isDown = true;
      world.noteLoss(redis);
      later(() => (redis.isDown = false), downMs(world.random));
    }, lostTailMs);
  },
  "nats-down": (world) => {
    world.stream.isDown = true;
    later(() => {
      world.stream.isDown = false;
      world.stream.pump();
    }, downMs(world.random));
  },
  "nats-lose": (world) => void world.stream.loseSince(Date.now() - world.random.between(100, 10_000)),
  "nats-delete": (world) => world.stream.deleteStore(),
  "postgres-down": (world) => {
    world.ledger.isDown = true;
    later(() => (world.ledger.isDown = false), downMs(world.random));
  },
  "postgres-fails": (world) => {
    world.ledger.failChance = 0.5;
    later(() => (world.ledger.failChance = 0), downMs(world.random));
  },
  "relay-clock": (world) => {
    const place = world.random.pick(world.relays);
    setClock(world, place, world.random.pick([-1, 1]) * 3_600_000);
  },
  "redis-clock": (world) => setClock(world, anyRedis(world), world.random.pick([-300_000, 300_000, 3_600_000])),
  "disk-full": (world) => {
    const { disk } = world.random.pick(world.relays);
    disk.isFull = true;
    later(() => (disk.isFull = false), downMs(world.random));
  },
  "lose-relay-node": (world) => {
    const place = world.random.pick(world.relays);
    world.loseDisk(place);
    place.disk = createDisk();
    if (isOver(place.process)) return;
    killAndRestart(world, place);
  },
};

/** Lets one thing go wrong. */
export function strike(world: World, name: FaultName): void {
  world.note(`fault ${name}`);
  world.counts.set(name, (world.counts.get(name) ?? 0) + 1);
  faults[name](world);
}

/** Ends all that is wrong: from now on the world must come to rest. */
export function heal(world: World): void {
  world.note("all faults are over");
  world.network.weather = { typicalMs: 3, slowMs: 0, slowChance: 0, lossChance: 0 };
  world.network.healAll();
  for (const redis of world.redises) {
    redis.isDown = false;
    redis.clockAheadMs = 0;
  }
  world.stream.isDown = false;
  world.stream.pump();
  world.ledger.isDown = false;
  world.ledger.failChance = 0;
  for (const place of world.relays) {
    place.clockAheadMs = 0;
    place.disk.isFull = false;
    place.disk.tearNext = undefined;
    place.onCharge = undefined;
  }
  for (const place of [...world.relays, ...world.authQuotas, ...world.billings]) {
    place.process.onStep = undefined;
    resume(place.process);
    if (isOver(place.process)) world.start(place);
  }
}
