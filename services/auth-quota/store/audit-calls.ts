import { isDeepStrictEqual } from "node:util";
import type { HotRedis } from "./redis.ts";

/** Sums of an account as its hash keeps them; amounts are nano-USD. */
export type KeptSums = {
  isLoaded: boolean;
  postedNanos: bigint;
  postedVersion: bigint;
  heldNanos: bigint;
  unpostedNanos: bigint;
  openHolds: bigint;
  unpostedCalls: bigint;
};

/** What the calls of an account add up to. */
export type CallSums = { heldNanos: bigint; unpostedNanos: bigint };

export type AuditedSums = { accountId: string; kept: KeptSums; counted: CallSums; isMoving: boolean };

export type Audit = { accounts: AuditedSums[]; isCounted: boolean; oldestHoldMs: number };

const maxCalls = 100_000;
const maxSessions = 10_000;
const callsPerPage = 500;
const tries = 3;

/**
 * Reads the sums of accounts and adds them up once more from the calls, beside the money script and without stopping
 * it: an account is right when its hash is the same before and after its calls were read. Those that changed are read
 * again, three times in all. Of more than 100,000 calls nothing is added up.
 */
export async function auditCalls(redis: HotRedis, accountIds: readonly string[]): Promise<Audit> {
  const done: AuditedSums[] = [];
  let open = accountIds;
  for (let attempt = 1; ; attempt += 1) {
    const before = await readHashes(redis, open);
    const index = await readIndex(redis);
    const sums = index.rids && (await addUp(redis, index.rids));
    const after = sums ? await readHashes(redis, open) : before;
    const read = open.map((accountId, at) => ({
      accountId,
      kept: keptOf(after, at),
      counted: sums?.get(accountId) ?? { heldNanos: 0n, unpostedNanos: 0n },
      isMoving: !isDeepStrictEqual(before.hashes[at], after.hashes[at]),
    }));
    const isLast = attempt === tries || !sums;
    done.push(...read.filter(({ isMoving }) => isLast || !isMoving));
    open = isLast ? [] : read.filter(({ isMoving }) => isMoving).map(({ accountId }) => accountId);
    if (open.length > 0) continue;
    const byId = new Map(done.map((audited) => [audited.accountId, audited]));
    const accounts = accountIds.flatMap((accountId) => byId.get(accountId) ?? []);
    return { accounts, isCounted: sums !== undefined, oldestHoldMs: index.oldestHoldMs };
  }
}

// `arrival` moves with every hold that is granted: it tells that something came and went, the sums being as before.
const fields = ["posted", "posted_version", "posted_in", "held", "unposted", "open", "pending", "arrival"];

type Hashes = { generation: string | null; hashes: (string | null)[][] };

async function readHashes(redis: HotRedis, accountIds: readonly string[]): Promise<Hashes> {
  const [generation, ...hashes] = await Promise.all([
    redis.hget(`${redis.prefix}:service`, "generation"),
    ...accountIds.map((accountId) => redis.hmget(`${redis.prefix}:account:${accountId}`, ...fields)),
  ]);
  return { generation, hashes };
}

function keptOf({ generation, hashes }: Hashes, at: number): KeptSums {
  const [posted, postedVersion, postedIn, held, unposted, open, pending] = hashes[at] ?? [];
  return {
    isLoaded: Boolean(postedVersion) && postedIn === generation,
    postedNanos: BigInt(posted ?? 0),
    postedVersion: BigInt(postedVersion ?? 0),
    heldNanos: BigInt(held ?? 0),
    unpostedNanos: BigInt(unposted ?? 0),
    openHolds: BigInt(open ?? 0),
    unpostedCalls: BigInt(pending ?? 0),
  };
}

/** Rids of all calls that weigh anything; undefined when they are too many. */
type Index = { rids: string[] | undefined; oldestHoldMs: number };

async function readIndex(redis: HotRedis): Promise<Index> {
  const [[seconds = 0], sessions, outboxSize] = await Promise.all([
    redis.time(),
    redis.zrange(`${redis.prefix}:sessions`, "0", String(maxSessions - 1)),
    redis.zcard(`${redis.prefix}:outbox`),
  ]);
  const names = sessions.map((session) => `${redis.prefix}:session:${session}`);
  const sizes = await Promise.all(names.map((name) => redis.zcard(name)));
  const oldest = await Promise.all(names.map((name) => redis.zrange(name, "0", "0", "WITHSCORES")));
  const scores = oldest.flatMap(([, score]) => (score === undefined ? [] : [Number(score)]));
  const nowMs = Number(seconds) * 1_000;
  const oldestHoldMs = scores.reduce((longest, score) => Math.max(longest, nowMs - score), 0);
  const calls = sizes.reduce((sum, size) => sum + size, outboxSize);
  if (calls > maxCalls || sessions.length === maxSessions) return { rids: undefined, oldestHoldMs };
  const lists = await Promise.all(
    [...names, `${redis.prefix}:outbox`].map((name) => redis.zrange(name, "0", String(maxCalls))),
  );
  return { rids: [...new Set(lists.flat())], oldestHoldMs };
}

async function addUp(redis: HotRedis, rids: readonly string[]): Promise<Map<string, CallSums>> {
  const sums = new Map<string, CallSums>();
  for (let at = 0; at < rids.length; at += callsPerPage) {
    const page = rids.slice(at, at + callsPerPage);
    for (const text of await redis.mgetBuffer(...page.map((rid) => `${redis.prefix}:call:${rid}`)))
      if (text) weigh(sums, text);
  }
  return sums;
}

// The first line of a call as state.lua describes it, weighed as calls.lua does: said twice on purpose, the one being
// what the other is checked by.
function weigh(sums: Map<string, CallSums>, text: Buffer): void {
  const line = text.toString("latin1", 0, Math.max(0, text.indexOf(10)));
  const [state, accountId = "", , , , held, , amount, , booked] = line.split(" ");
  const sum = sums.get(accountId) ?? { heldNanos: 0n, unpostedNanos: 0n };
  if (state === "held" || state === "leased") {
    sum.heldNanos += BigInt(held ?? 0);
  } else if (state === "settled" || state === "expired" || state === "summed") {
    const owed = BigInt(amount ?? 0) - BigInt(booked ?? 0);
    if (owed > 0n) sum.unpostedNanos += owed;
  }
  sums.set(accountId, sum);
}
