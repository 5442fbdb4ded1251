import { accountHash } from "#shared/money/account-hash.ts";
import type { AuthQuotaService, BillingClient } from "./neighbours.ts";
import type { Payer, Truth } from "./caller.ts";
import { currentProcess } from "./clock.ts";
import type { Disk } from "./disk.ts";
import type { Ledger } from "./ledger.ts";
import { movedPlaces } from "./key-database.ts";
import type { Network, Node } from "./network.ts";
import type { Profile } from "./profile.ts";
import type { Random } from "./random.ts";
import type { RedisServer } from "./redis-link.ts";
import type { Relay } from "./relay.ts";
import type { AuthQuotaNode, Lines } from "./session-stream.ts";
import type { UsageStream } from "./stream.ts";

/** A place whose process can be started again. */
export type RunningNode = Node & { kind: "relay" | "auth-quota" | "billing"; starts: number };

export type RelayNode = RunningNode & {
  disk: Disk;
  relay: Relay | undefined;
  /** How far the machine's clock is ahead. */
  clockAheadMs: number;
  /** Told when the next charge is in the spool and nowhere else. */
  onCharge: (() => void) | undefined;
};
export type AuthQuotaRunning = RunningNode & AuthQuotaNode & { service: AuthQuotaService | undefined };
export type BillingRunning = RunningNode & { service: BillingClient | undefined };

/** Everything of one run. */
export type World = {
  seed: number;
  random: Random;
  profile: Profile;
  network: Network;
  /** One for each shard of the hot money. */
  redises: RedisServer[];
  ledger: Ledger;
  stream: UsageStream;
  lines: Lines;
  relays: RelayNode[];
  authQuotas: AuthQuotaRunning[];
  billings: BillingRunning[];
  payers: Payer[];
  truths: Map<string, Truth>;
  /** When a Redis lost something. */
  losses: { atMs: number; server: RedisServer }[];
  /** Relay processes whose holds were ended because they were silent. */
  sweptSessions: Set<string>;
  relaySilentMs: number;
  outboxAgeMs: number;
  /** When a clock was last put right; undefined: none was wrong. */
  clockRightAtMs: number | undefined;
  /** When the last fault is over. */
  healsAtMs: number;
  /** Whether relays admit calls within leases. */
  hasLeases: boolean;
  /** Leases whose grant was looked at. */
  leasesSeen: Set<string>;
  /** When leases were first asked for in Redis, and the calls of which it has been told. */
  leasesAskedAtMs: Map<string, number>;
  drawn: Set<string>;
  /** When Redis has heard that a key is stopped. */
  stopped: Map<string, number>;
  /** Told of each call that begins. */
  onAdmitted: (payer: Payer) => void;
  leasedCalls: number;
  recalledLeases: number;
  /** Whether holds were left over that only the sweep of forgotten ones has ended. */
  hasForgotten: boolean;
  counts: Map<string, number>;
  trace: Trace;
  violations: string[];
  note: (text: string) => void;
  violate: (text: string) => void;
  noteLoss: (server: RedisServer) => void;
  kill: (place: RunningNode) => void;
  start: (place: RunningNode) => void;
  loseDisk: (place: RelayNode) => void;
};

/** What happened, as a number that two equal runs share, and as lines when they are wanted. */
export type Trace = { hash: number; lines: string[] | undefined };

/** When every world begins, in milliseconds since 1970. */
export const startMs = Date.UTC(2026, 0, 1);

/** Writes down what happens, and by which process. */
export function note(trace: Trace, text: string): void {
  const line = `${Date.now() - startMs} ${currentProcess()?.name ?? "-"} ${text}`;
  let { hash } = trace;
  for (let at = 0; at < line.length; at += 1) hash = Math.imul(hash ^ line.charCodeAt(at), 0x0100_0193);
  trace.hash = hash >>> 0;
  trace.lines?.push(line);
}

export const placesOf = ({ relays, authQuotas, billings }: World): RunningNode[] => [
  ...relays,
  ...authQuotas,
  ...billings,
];

/** The Redis with the shard of an account. */
export const redisOf = ({ redises, ledger }: World, accountId: string): RedisServer =>
  redises[movedPlaces(ledger).get(accountId)?.shard ?? accountHash(accountId) % redises.length] as RedisServer;

/** Whether accounts move between shards: in every second world that has some. */
export const hasMoves = (seed: number): boolean => seed % 10 === 8 || seed % 20 === 3;

/** When the Redis of an account lost something; one that moved was perhaps in all. */
export const lossesOf = (world: World, accountId: string): number[] =>
  world.losses
    .filter(({ server }) => hasMoves(world.seed) || server === redisOf(world, accountId))
    .map(({ atMs }) => atMs);
