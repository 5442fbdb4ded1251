import {
  CallState,
  Verdict,
  type AuthQuotaService,
  type BookedCall,
  type PostRequest,
} from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { whenRedisAnswers } from "./hot-errors.ts";
import { accountOfFunds, readFunds, type FundsSource } from "../hot/load.ts";
import { followMoved, type Moves } from "../hot/moves.ts";
import type { Metrics } from "../metrics.ts";
import { answerCodes, unasked, writeBalance, writeSpending, type HotOperation } from "../store/hot.ts";
import { byShard, forEachOf, type Shard, type Shards } from "../store/shards.ts";
import { checkId, refuse } from "./validate.ts";

type PostDeps = {
  shards: Shards;
  moves: Pick<Moves, "look" | "placeOf">;
  billing: FundsSource;
  metrics: Metrics;
  log: Logger;
};

// Bounds the time for which one run of the script keeps all others waiting.
const chunkSize = 500;
const fundsPerCall = 1_000;

/**
 * Takes over what billing has booked, mostly in one run. Balances go first: they already contain the charges that are
 * then taken out of the unposted sums, so available money is too low for a moment, never too high. For the same reason
 * billing is asked for the sums of accounts and keys whose calls are told without them.
 */
export function postHandler(deps: PostDeps): UnaryHandlers<typeof AuthQuotaService>["post"] {
  return async (request) => {
    check(request);
    const { accounts, keys, calls } = request;
    const sums: OwnedOperation[] = [
      ...(await readMissingSums(deps, request)),
      ...accounts.map(({ accountId, balanceNanos: nanos, spentNanos, version }) => ({
        accountId,
        operation: writeBalance(accountId, { nanos, spentNanos, version }, unasked),
      })),
      ...keys.map(({ accountId, keyId, spentNanos: nanos, version }) => ({
        accountId,
        operation: writeSpending({ accountId, keyId }, { nanos, version }, unasked),
      })),
    ];
    const posts = calls.map((call): OwnedOperation => ({ accountId: call.accountId, operation: writePost(call) }));
    faultPoint("auth-quota: told what is booked, nothing of it taken over");
    const newer = new Map<string, bigint>();
    await whenRedisAnswers(postAll(deps, [...sums, ...posts], newer));
    await whenRedisAnswers(postBehind(deps, calls));
    return { newer: Array.from(newer, ([accountId, version]) => ({ accountId, version })) };
  };
}

function writePost({ rid, accountId, keyId, bookedNanos, isFinal, isLeased }: BookedCall): HotOperation {
  const booked = bookedText(bookedNanos);
  // Of calls within leases there are no provisional records.
  return isLeased ? ["post-leased", rid, accountId, keyId, booked] : ["post", rid, booked, isFinal ? "1" : "0"];
}

const writeLeasedBehind = ({ rid, accountId, keyId, bookedNanos }: BookedCall): HotOperation => [
  "post-leased-behind",
  rid,
  accountId,
  keyId,
  bookedText(bookedNanos),
];

/** An operation on what an account has. */
type OwnedOperation = { accountId: string; operation: HotOperation };

/** Notes in `newer` which accounts have a newer balance than was told. */
async function postAll(deps: PostDeps, owned: readonly OwnedOperation[], newer: Map<string, bigint>): Promise<void> {
  const parts = byShard(deps.shards, owned, ({ accountId }) => accountId);
  await forEachOf(parts, ([shard, own]) => postTo(deps, { shard, owned: own, newer }));
}

type ShardPost = { shard: Shard; owned: OwnedOperation[]; newer: Map<string, bigint> };

/** All that is of accounts which turn out to have left the shard is posted to where they are. */
async function postTo(deps: PostDeps, { shard, owned, newer }: ShardPost): Promise<void> {
  const moved = new Set<string>();
  for (const chunk of chunks(owned)) {
    const answers = await shard.apply(
      "",
      chunk.map(({ operation }) => operation),
    );
    answers.forEach(({ code, number }, index) => {
      const { accountId = "", operation } = chunk[index] ?? {};
      if (code === Verdict.CONFLICT) report(deps, operation);
      if (code === answerCodes.moved) moved.add(accountId);
      if (code === Verdict.OK && number > 0 && operation?.[0] === "balance") newer.set(accountId, BigInt(number));
    });
  }
  if (moved.size === 0) return;
  await followMoved(deps, shard, moved);
  await postAll(
    deps,
    owned.filter(({ accountId }) => moved.has(accountId)),
    newer,
  );
}

// As a look at many calls answers them.
const openStates = new Set<string>([CallState.HELD, CallState.EXPIRED, CallState.SETTLED].map(String));

/**
 * A shard that an account has left has no open call of it, unless it lost what it knew of some: those are told there,
 * or it would have them booked again and again.
 */
async function postBehind({ shards, moves }: PostDeps, calls: readonly BookedCall[]): Promise<void> {
  const moved = calls.filter(({ accountId }) => moves.placeOf(accountId) !== undefined);
  await forEachOf(moved.length === 0 ? [] : shards.all, async (shard) => {
    const left = moved.filter(({ accountId }) => shards.of(accountId) !== shard);
    const leased = left.filter(({ isLeased }) => isLeased);
    for (const chunk of chunks(leased)) await shard.apply("", chunk.map(writeLeasedBehind));
    for (const chunk of chunks(left.filter(({ isLeased }) => !isLeased))) {
      const [looked] = await shard.apply("", [["lookup-many", chunk.map(({ rid }) => rid).join("")]]);
      const open = chunk.filter((_, at) => openStates.has(looked?.text[at] ?? ""));
      if (open.length > 0) await shard.apply("", open.map(writePost));
    }
  });
}

function report({ metrics, log }: PostDeps, operation: HotOperation | undefined): void {
  const rid = String(operation?.[1] ?? "");
  metrics.conflict("post", "ledger");
  log.error({ rid }, "ledger booked a call differently from its settlement");
}

function* chunks<T>(items: T[]): Generator<T[]> {
  for (let at = 0; at < items.length; at += chunkSize) yield items.slice(at, at + chunkSize);
}

/**
 * Sums that must come with the calls and did not. Asked for after billing has committed the calls, and not shared with
 * a question that may have been asked before that.
 */
async function readMissingSums(
  { billing, shards }: PostDeps,
  { accounts, keys, calls }: PostRequest,
): Promise<OwnedOperation[]> {
  const toldAccounts = new Set(accounts.map(({ accountId }) => accountId));
  const toldKeys = new Set(keys.map(({ keyId }) => keyId));
  const missing = calls.filter(({ accountId }) => !toldAccounts.has(accountId));
  const accountIds = [...new Set(missing.map(({ accountId }) => accountId))];
  const keyless = calls.filter(({ keyId }) => !toldKeys.has(keyId));
  const owners = [...new Map(keyless.map(({ accountId, keyId }) => [keyId, { accountId, keyId }])).values()];
  const operations: OwnedOperation[] = [];
  for (let at = 0; at < Math.max(accountIds.length, owners.length); at += fundsPerCall) {
    const end = at + fundsPerCall;
    const wanted = { accountIds: accountIds.slice(at, end), keys: owners.slice(at, end) };
    for (const [name, operation] of await readFunds(billing, shards, wanted))
      operations.push({ accountId: accountOfFunds(name), operation });
  }
  return operations;
}

// By-hand corrections can leave a call with less than nothing booked; for what is still owed that is nothing.
function bookedText(nanos: bigint): string {
  const booked = nanos > maxAccountNanos ? maxAccountNanos : nanos;
  return String(booked < 0n ? 0n : booked);
}

function check({ accounts, keys, calls }: PostRequest): void {
  const isVersion = (version: bigint): boolean => version >= 0n && version <= BigInt(Number.MAX_SAFE_INTEGER);
  for (const { accountId, version } of accounts) {
    checkId("accounts.account_id", accountId);
    if (!isVersion(version)) refuse("accounts.version must be 0 or more");
  }
  for (const { keyId, version } of keys) {
    checkId("keys.key_id", keyId);
    if (!isVersion(version)) refuse("keys.version must be 0 or more");
  }
  for (const { rid, accountId, keyId } of calls) {
    if (ridTimeMs(rid) === undefined) refuse("calls.rid must be a UUIDv7");
    checkId("calls.account_id", accountId);
    checkId("calls.key_id", keyId);
  }
}
