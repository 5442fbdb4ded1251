import type { Weather } from "./network.ts";
import { createRandom, type Random } from "./random.ts";

/** What goes wrong in a world, and how often; drawn from its seed. */
export type Profile = {
  name: string;
  weather: Weather;
  /** For how long calls are made, and which share of them is long. */
  loadMs: number;
  longShare: number;
  /** Whether money is short: as good as all of it is held. */
  isShort: boolean;
  faults: { atMs: number; name: FaultName }[];
};

const kills = [
  "kill-relay",
  "kill-auth-quota",
  "kill-billing",
  "kill-at-step",
  "kill-at-charge",
  "tear-spool",
] as const;
const pauses = ["pause-relay", "pause-auth-quota", "pause-billing"] as const;
const ways = ["cut", "break-lines", "isolate-relay"] as const;
const stores = ["redis-down", "nats-down", "nats-lose", "nats-delete", "postgres-down", "postgres-fails"] as const;
const disks = ["disk-full", "lose-relay-node"] as const;
const losses = ["redis-flush", "redis-tail"] as const;
const wrongClocks = ["relay-clock", "redis-clock"] as const;

export type FaultName =
  | (typeof kills)[number]
  | (typeof pauses)[number]
  | (typeof ways)[number]
  | (typeof stores)[number]
  | (typeof disks)[number]
  | (typeof losses)[number]
  | (typeof wrongClocks)[number];

/** The profile in which Redis loses data and nothing else goes wrong. */
export const redisLoss = "redis loss";

/** The profile in which nothing is wrong but clocks. */
export const clocks = "clocks";

/** The profile in which relays and calls are not heard of for long. */
export const silence = "silence";

/** The profiles in which nothing goes wrong, and in which only networks do. */
export const quiet = "quiet";
export const network = "network";

type Kind = { name: string; weather: Weather; names: readonly FaultName[]; most: number; early?: true };

const kinds: Kind[] = [
  { name: quiet, weather: { typicalMs: 3, slowMs: 0, slowChance: 0, lossChance: 0 }, names: [], most: 0 },
  {
    name: network,
    weather: { typicalMs: 5, slowMs: 2_000, slowChance: 0.02, lossChance: 0.03 },
    names: ways,
    most: 6,
  },
  {
    name: "kills",
    weather: { typicalMs: 5, slowMs: 500, slowChance: 0.02, lossChance: 0 },
    names: [...kills, ...pauses],
    most: 6,
  },
  {
    name: "stores",
    weather: { typicalMs: 5, slowMs: 1_000, slowChance: 0.02, lossChance: 0.01 },
    names: stores,
    most: 5,
  },
  {
    name: "harsh",
    weather: { typicalMs: 5, slowMs: 2_000, slowChance: 0.01, lossChance: 0.02 },
    names: [...kills, ...pauses, ...ways, ...stores, ...disks],
    most: 10,
  },
  {
    name: silence,
    weather: { typicalMs: 5, slowMs: 3_000, slowChance: 0.01, lossChance: 0.02 },
    names: [
      "pause-relay",
      "pause-relay",
      "isolate-relay",
      "isolate-relay",
      "lose-relay-node",
      "nats-down",
      "kill-billing",
    ],
    most: 5,
    early: true,
  },
  // Relays can restore their holds in time: nothing may be granted twice.
  {
    name: redisLoss,
    weather: { typicalMs: 5, slowMs: 500, slowChance: 0.02, lossChance: 0 },
    names: losses,
    most: 2,
    early: true,
  },
  {
    name: "redis loss and more",
    weather: { typicalMs: 5, slowMs: 500, slowChance: 0.02, lossChance: 0.01 },
    names: [...losses, ...losses, ...losses, ...kills, ...pauses, ...ways],
    most: 5,
  },
];

const ofClocks: Kind = {
  name: clocks,
  weather: { typicalMs: 3, slowMs: 0, slowChance: 0, lossChance: 0 },
  names: wrongClocks,
  most: 3,
};

// Every second quiet world has wrong clocks, so that all other seeds are the worlds that they were.
const drawnKinds = kinds.flatMap((kind) => [kind, kind.name === quiet ? ofClocks : kind]);

const shortLoadMs = 25_000;
const longLoadMs = 35_000;

/** The name of the profile that the world of a seed has. */
export function profileOf(seed: number): string {
  return drawProfile(drawnFrom(createRandom(seed))).name;
}

/** What a world is drawn from, profile first. */
export function drawnFrom(random: Random): Random {
  return random.fork();
}

export function drawProfile(random: Random): Profile {
  const { name, weather, names, most, early } = random.pick(drawnKinds);
  const count = names.length === 0 ? 0 : random.between(1, most);
  // What takes its time to show comes early, and meets long calls.
  const loadMs = early ? longLoadMs : shortLoadMs;
  const latestMs = early ? loadMs / 3 : loadMs;
  const faults = Array.from({ length: count }, () => ({
    atMs: random.between(500, latestMs),
    name: random.pick(names),
  }));
  const isShort = name === redisLoss || random.chance(0.6);
  return { name, weather, loadMs, longShare: early ? 0.8 : 0.25, isShort, faults };
}
