import { randomBytes, randomInt } from "node:crypto";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { networkDigits } from "#shared/net/network.ts";
import { auditCalls, type Audit } from "./audit-calls.ts";
import { evictionOf, type Eviction } from "./eviction.ts";
import { joinRuns } from "./join-runs.ts";
import type { RunAnswer } from "./money-command.ts";
import type { HotRedis } from "./redis.ts";

/** Name and arguments of one operation of the money script. */
export type HotOperation = readonly [name: string, ...values: (string | Buffer)[]];

/** What the script answers to one operation; `code` is a Verdict of the contract or one of `answerCodes`. */
export type HotAnswer = { code: number; number: number; text: string };

/**
 * Answers that never leave the service: data must be loaded first (`number` is a sum of `need`), or: ask again, or: the
 * time of the call's id is too far from Redis' (`number` is how many ms it is ahead), or: too many calls are under way,
 * or: the key works, but not from this address, or: the account has left this shard, or is leaving it.
 */
export const answerCodes = { need: 100, more: 101, skewed: 102, concurrency: 103, address: 104, moved: 105 } as const;

/** What the script lacks for a decision; the values add up. */
export const need = { account: 1, balance: 2, key: 4, spending: 8, identity: 16, proof: 32 } as const;

/** Calls per minute, and calls under way, that hold where nothing else is set. */
export type CallLimits = { accountPerMinute: number; ipPerMinute: number; accountConcurrent: number };

export type AccountSettings = {
  accountId: string;
  status: string;
  requestsPerMinute: number;
  maxConcurrent: number;
  limitNanos: bigint | null;
  version: bigint;
};

export type KeySettings = {
  keyId: string;
  accountId: string;
  status: string;
  expiresAtMs: number | undefined;
  limitNanos: bigint | undefined;
  models: string[];
  maxConcurrent: number;
  requestsPerMinute: number;
  addresses: string[];
  version: bigint;
};

/** Whose a key is. */
export type Owner = { accountId: string; keyId: string };

/** What billing has in its ledger for an account or key. */
export type Funds = { nanos: bigint; version: bigint };

/** The same of an account, with what it has spent; undefined: not told. */
export type AccountFunds = Funds & { spentNanos: bigint | undefined };

/** Sums of one account; `availableNanos` is undefined while its balance is not loaded. */
export type HotSums = {
  openHolds: number;
  heldNanos: number;
  unpostedCalls: number;
  unpostedNanos: number;
  availableNanos: number | undefined;
  hasSettings: boolean;
};

export type HotTotals = { openHolds: number; outboxSize: number; outboxOldestMs: number };

/** Keeps a Redis that lost data from granting calls; stored there as `gate`, see rule M8 in state.lua. */
export type RecoveryLock = {
  generation: string;
  /** When it was closed; undefined while it is open. */
  closedMs: number | undefined;
  /** Sequence up to which the usage stream must be booked before it opens; undefined while unknown. */
  sequence: bigint | undefined;
};

/** What a run for a relay process answers. */
export type HotRun = { answers: HotAnswer[]; recalledLeases: string[] };

/** The money script and the readings beside it. Every function rejects when Redis does not answer in time. */
export type HotStore = {
  /**
   * Runs operations as one atomic step, for a relay process or for nobody (""). One answer per operation. Rejects with
   * `unavailable` when Redis is empty and was not established.
   */
  apply: (relaySession: string, operations: readonly HotOperation[]) => Promise<HotAnswer[]>;
  /** The same, with the leases that the relay process is to give back. */
  applyFor: (relaySession: string, operations: readonly HotOperation[]) => Promise<HotRun>;
  /** The generation of the last answer; "" before the first one. */
  generation: () => string;
  /** Redis' clock in ms since 1970, by the last answer and the time since; 0 before the first one. */
  timeMs: () => number;
  /** Undefined when Redis is empty and was not established. */
  readRecoveryLock: () => Promise<RecoveryLock | undefined>;
  /** Begins the first generation of an empty Redis; one that was not empty before has lost everything. */
  establish: (hadOne: boolean) => Promise<void>;
  /** Takes its generation away: it decides nothing more, and is established as one that has lost everything. */
  retire: () => Promise<void>;
  /** Whether Redis deletes what it should keep when its memory is full, and whether it has. */
  readEviction: () => Promise<Eviction>;
  /** Retires it until it is emptied: what is left of the sums of accounts and of calls fits together no more. */
  retireEvicted: () => Promise<void>;
  /** Whether it is retired so. */
  isEvicted: () => Promise<boolean>;
  readSums: (accountId: string) => Promise<HotSums>;
  /** How an account was marked by the last step of a move, and the number of that step; 0: it never moved. */
  readMove: (accountId: string) => Promise<{ moved: string | undefined; number: number }>;
  readTotals: () => Promise<HotTotals>;
  /** All changes of the last two weeks, some at a time. */
  readChanges: () => AsyncIterable<Change[]>;
  /** Some of them, the newest. */
  readNewestChanges: () => Promise<Change[]>;
  /** Sums of accounts, added up once more from their calls. */
  audit: (accountIds: readonly string[]) => Promise<Audit>;
  /** Usage records that the ledger has not confirmed for `minAgeMs`, oldest first. */
  listUnposted: (minAgeMs: number, limit: number) => Promise<Buffer[]>;
};

export function createHotStore(redis: HotRedis, limits: CallLimits): HotStore {
  const apply = createApply(redis, limits);
  const applyFor = joinRuns<HotOperation, HotAnswer>(async (relaySession, operations) => {
    const run = await apply.run(relaySession, operations);
    if (run.generation === "") throw new ServiceError("unavailable", "Redis is empty and not established yet");
    return run;
  });
  return {
    apply: async (relaySession, operations) => (await applyFor(relaySession, operations)).answers,
    applyFor,
    generation: apply.generation,
    timeMs: apply.timeMs,
    readRecoveryLock: async () => {
      const { generation, answers } = await apply.run("", [["gate"]]);
      const [answer] = answers;
      if (!answer) return undefined;
      const isOpen = answer.code === Verdict.NO_HOLD;
      const sequence = answer.text === "" ? undefined : BigInt(answer.text);
      return { generation, closedMs: isOpen ? undefined : answer.number, sequence };
    },
    establish: async (hadOne) => void (await apply.run("", [["establish", hadOne ? "1" : "0"]])),
    retire: async () => void (await redis.hdel(`${redis.prefix}:service`, "generation")),
    readEviction: async () => evictionOf(await redis.info("memory", "stats")),
    retireEvicted: async () => {
      await redis.hset(`${redis.prefix}:service`, "evicted", "1");
      await redis.hdel(`${redis.prefix}:service`, "generation");
    },
    isEvicted: async () => (await redis.hget(`${redis.prefix}:service`, "evicted")) !== null,
    readSums: (accountId) => readSums(redis, accountId),
    readMove: async (accountId) => {
      const [moved, number] = await redis.hmget(`${redis.prefix}:account:${accountId}`, "moved", "move");
      return { moved: moved ?? undefined, number: Number(number ?? 0) };
    },
    readTotals: () => readTotals(redis),
    readChanges: () => readChanges(redis),
    readNewestChanges: () => readNewestChanges(redis),
    audit: (accountIds) => auditCalls(redis, accountIds),
    listUnposted: (minAgeMs, limit) => listUnposted(redis, minAgeMs, limit),
  };
}

type Run = HotRun & { generation: string };

/**
 * Numbers the runs of this process, so that the script can tell when Redis has forgotten one that was answered. All
 * take one connection, so that answers come in the order in which Redis has done the runs.
 */
function createApply(redis: HotRedis, { accountPerMinute, ipPerMinute, accountConcurrent }: CallLimits) {
  // By the beginning the script knows that this process takes notice of moved accounts.
  const process = `moves-${randomBytes(8).toString("hex")}`;
  let sent = 0;
  let done = { run: 0, generation: "" };
  /** What is to be added to the monotonic clock of this process for Redis' time. */
  let offsetMs: number | undefined;
  return {
    generation: () => done.generation,
    timeMs: () => (offsetMs === undefined ? 0 : Math.round(offsetMs + performance.now())),
    run: async (relaySession: string, operations: readonly HotOperation[]): Promise<Run> => {
      const run = (sent += 1);
      const values: (string | Buffer)[] = [relaySession, String(accountPerMinute), String(ipPerMinute)];
      values.push(String(accountConcurrent), process, String(run), String(done.run), done.generation);
      for (const operation of operations) for (const value of operation) values.push(value);
      const answer = await redis.applyMoney(redis.prefix, values);
      const [generation = "", ...recalledLeases] = String(answer[0]).split(" ");
      if (generation !== "") offsetMs = toNumber(answer[1]) - performance.now();
      if (generation !== "" && (run > done.run || generation !== done.generation)) done = { run, generation };
      return { generation, recalledLeases, answers: readAnswers(answer) };
    },
  };
}

/** What a run answered to its operations, as the head of apply.lua describes it, without its first two items. */
export function readAnswers(answer: RunAnswer): HotAnswer[] {
  const answers: HotAnswer[] = [];
  for (let at = 2; at < answer.length; at += 1) {
    const tag = answer[at] as number;
    const one: HotAnswer = { code: tag >> 2, number: 0, text: "" };
    if (tag & 1) one.number = toNumber(answer[(at += 1)]);
    if (tag & 2) one.text = String(answer[(at += 1)]);
    answers.push(one);
  }
  return answers;
}

// A large number comes as text.
const toNumber = (item: RunAnswer[number] | undefined): number =>
  typeof item === "number" ? item : Number(String(item));

/** The operation that brings an account's settings up to this version; an older version changes nothing. */
export function writeAccount(account: AccountSettings): HotOperation {
  const { accountId, status, requestsPerMinute, maxConcurrent, limitNanos, version } = account;
  const limits = [requestsPerMinute, maxConcurrent, limitNanos ?? ""].map(String);
  return ["account-settings", accountId, status, ...limits, String(version)];
}

/** The operation that brings a key's settings up to this version; an older version changes nothing. */
export function writeKey(key: KeySettings): HotOperation {
  const expiresAtMs = key.expiresAtMs === undefined ? "" : String(key.expiresAtMs);
  const limitNanos = key.limitNanos === undefined ? "" : String(key.limitNanos);
  const { keyId, accountId, status, models, maxConcurrent, requestsPerMinute, addresses, version } = key;
  const rates = [String(maxConcurrent), String(requestsPerMinute)];
  const limits = [expiresAtMs, limitNanos, models.join("\n"), ...rates, addresses.map(networkDigits).join(" ")];
  return ["key-settings", keyId, accountId, status, ...limits, String(version)];
}

/** The operation that forgets a key, unless money of it is held or not booked: NO_HOLD then. */
export const forgetKey = (keyId: string): HotOperation => ["forget-key", keyId];

/** Settings that were changed, as the whole row of the database in JSON. */
export type Change = { kind: "account" | "key"; row: string };

/** The operation that keeps a changed row for a while, for a database that forgets the change. */
export function keepChange({ kind, row }: Change, { id, version }: { id: string; version: bigint }): HotOperation {
  return ["keep-change", `${kind} ${id}`, String(version), row];
}

/** For `askedIn`: an amount that billing told unasked. */
export const unasked = "";

/**
 * The operation that sets an account's balance and spending; an older version changes nothing. It counts as loaded when
 * it was asked for in the generation that stands: an answer to an earlier question may be old, and the newer one lost
 * with Redis.
 */
export function writeBalance(accountId: string, funds: AccountFunds, askedIn: string): HotOperation {
  const { nanos, spentNanos, version } = funds;
  const spent = spentNanos === undefined ? "" : String(clamp(spentNanos));
  return ["balance", accountId, String(clamp(nanos)), spent, String(version), askedIn];
}

/** The operation that sets what a key has spent, by the same rules. */
export function writeSpending({ accountId, keyId }: Owner, { nanos, version }: Funds, askedIn: string): HotOperation {
  return ["spending", keyId, accountId, String(clamp(nanos)), String(version), askedIn];
}

// Lua is exact up to here only. No limit lies beyond it, so a key that has spent more is used up either way, and an
// account that owes more gets nothing either way.
function clamp(nanos: bigint): bigint {
  if (nanos > maxAccountNanos) return maxAccountNanos;
  return nanos < -maxAccountNanos ? -maxAccountNanos : nanos;
}

async function readSums(redis: HotRedis, accountId: string): Promise<HotSums> {
  const fields = ["posted", "posted_in", "held", "unposted", "open", "pending", "version"];
  const [[posted, postedIn, held, unposted, open, pending, version], generation] = await Promise.all([
    redis.hmget(`${redis.prefix}:account:${accountId}`, ...fields),
    redis.hget(`${redis.prefix}:service`, "generation"),
  ]);
  const isLoaded = postedIn !== null && postedIn === generation;
  const heldNanos = Number(held ?? 0);
  const unpostedNanos = Number(unposted ?? 0);
  return {
    openHolds: Number(open ?? 0),
    heldNanos,
    unpostedCalls: Number(pending ?? 0),
    unpostedNanos,
    availableNanos: isLoaded ? Number(posted) - heldNanos - unpostedNanos : undefined,
    hasSettings: Boolean(version),
  };
}

async function readNowMs(redis: HotRedis): Promise<number> {
  const [seconds, microseconds] = (await redis.time()).map(Number) as [number, number];
  return seconds * 1_000 + Math.floor(microseconds / 1_000);
}

async function readTotals(redis: HotRedis): Promise<HotTotals> {
  const [open, outboxSize, oldest, nowMs] = await Promise.all([
    redis.hget(`${redis.prefix}:service`, "open"),
    redis.zcard(`${redis.prefix}:outbox`),
    redis.zrange(`${redis.prefix}:outbox`, "0", "0", "WITHSCORES"),
    readNowMs(redis),
  ]);
  const outboxOldestMs = oldest[1] === undefined ? 0 : Math.max(0, nowMs - Number(oldest[1]));
  return { openHolds: Number(open ?? 0), outboxSize, outboxOldestMs };
}

const changesPerPage = 500;

async function* readChanges(redis: HotRedis): AsyncIterable<Change[]> {
  let cursor = "0";
  do {
    const [next, found] = await redis.hscan(`${redis.prefix}:changes`, cursor, "COUNT", changesPerPage);
    const changes: Change[] = [];
    for (let at = 0; at < found.length; at += 2) {
      const [name = "", text = ""] = found.slice(at, at + 2);
      changes.push(changeOf(name, text));
    }
    yield changes;
    cursor = next;
  } while (cursor !== "0");
}

const newestChanges = 20;

async function readNewestChanges(redis: HotRedis): Promise<Change[]> {
  const names = await redis.zrange(`${redis.prefix}:changed-at`, `-${newestChanges}`, "-1");
  if (names.length === 0) return [];
  const texts = await redis.hmget(`${redis.prefix}:changes`, ...names);
  return names.flatMap((name, index) => {
    const text = texts[index];
    return typeof text === "string" ? [changeOf(name, text)] : [];
  });
}

// The version comes before the row, which has it, too.
const changeOf = (name: string, text: string): Change => ({
  kind: name.startsWith("key ") ? "key" : "account",
  row: text.slice(text.indexOf(" ") + 1),
});

const pageSize = 1_000;
const maxPages = 20;

/**
 * Records that were listed within the last `minAgeMs` are passed over: the oldest may be ones that cannot be booked,
 * and must not keep all younger ones from their turn.
 */
async function listUnposted(redis: HotRedis, minAgeMs: number, limit: number): Promise<Buffer[]> {
  const nowMs = await readNowMs(redis);
  const listed = `${redis.prefix}:listed`;
  await redis.zremrangebyscore(listed, "-inf", nowMs - minAgeMs);
  const records: Buffer[] = [];
  for (let page = 0; page < maxPages && records.length < limit; page += 1) {
    const offset = page * pageSize;
    const rids = await redis.zrangebyscore(
      `${redis.prefix}:outbox`,
      "-inf",
      nowMs - minAgeMs,
      "LIMIT",
      offset,
      pageSize,
    );
    if (rids.length === 0) break;
    const listedAt = await redis.zmscore(listed, ...rids);
    const due = rids.filter((_, index) => !listedAt[index]).slice(0, limit - records.length);
    if (due.length === 0) continue;
    // A record that is gone has been booked since.
    const found = await redis.mgetBuffer(...due.map((rid) => `${redis.prefix}:call:${rid}`));
    for (const [index, call] of found.entries()) {
      if (call === null) continue;
      if (isBook(call)) records.push(...(await readOwed(redis, due[index] ?? "", limit - records.length)));
      else if (recordOf(call).length > 0) records.push(recordOf(call));
    }
    if (minAgeMs > 0) await redis.zadd(listed, ...due.flatMap((rid): (string | number)[] => [nowMs, rid]));
  }
  return records;
}

const bookState = Buffer.from("summed ");
const isBook = (call: Buffer): boolean => call.subarray(0, bookState.length).equals(bookState);

/** Records of calls in a book (lua/books.lua) that are not booked: any, for those that cannot be may be many. */
async function readOwed(redis: HotRedis, book: string, limit: number): Promise<Buffer[]> {
  const records = Object.values(await redis.hgetallBuffer(`${redis.prefix}:owed:${book}`));
  const first = records.length > limit ? randomInt(records.length) : 0;
  return [...records.slice(first), ...records.slice(0, first)].slice(0, limit);
}

// A call is one line of text and, after it, the bytes of its record.
function recordOf(call: Buffer): Buffer {
  return call.subarray(call.indexOf(10) + 1);
}
