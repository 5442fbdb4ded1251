import { accountHash } from "#shared/money/account-hash.ts";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import type { Shard, Shards } from "../store/shards.ts";
import type { PreparedOperation } from "./operations.ts";
import type { Result, SessionOperation } from "./session-wire.ts";
import type { Task } from "./task.ts";

// Operations that concern several shards: the end of a relay, a look at many calls, and whatever a relay of the version
// before asks without an account.

const ridLength = 36;
const hashBytes = 4;
/** In place of a state: the shard of the call did not answer. */
const unasked = 255;

/** The parts of an operation that concerns several shards; undefined for one that has its shard. */
export function divide(shards: Shards, { prepared, caller }: Task): Task[] | undefined {
  const { request, keyHash } = prepared;
  const isOfOne = request.accountId !== "" && !isLookupOfMoved(shards, request);
  if (shards.all.length === 1 || keyHash !== undefined || isOfOne) return undefined;
  const partOf = (shard: Shard, operation = prepared.operation): Task => ({
    prepared: { ...prepared, operation },
    caller,
    shard,
    result: undefined,
  });
  // Without the account, which a shard that it has left would answer by saying so.
  if (request.name === "lookup") return shards.all.map((shard) => partOf(shard, ["lookup", ridOf(prepared), ""]));
  if (request.name !== "lookupMany" || request.accountHashes.length === 0)
    return shards.all.map((shard) => partOf(shard));
  const texts = new Map<Shard, string>();
  for (const [at, rid] of ridsOf(prepared).entries()) {
    const asked = shards.ofHash(request.accountHashes.readUInt32BE(at * hashBytes));
    for (const shard of asked) texts.set(shard, (texts.get(shard) ?? "") + rid);
  }
  return [...texts].map(([shard, rids]) => partOf(shard, ["lookup-many", rids]));
}

const ridOf = ({ operation }: PreparedOperation): string => String(operation?.[1] ?? "");

/** Any shard in which an account was may know what became of its call. */
const isLookupOfMoved = (shards: Shards, { name, accountId }: SessionOperation): boolean =>
  name === "lookup" && shards.ofHash(accountHash(accountId)).length > 1;

/** The ids of the calls that are asked about at once. */
function ridsOf({ operation }: Pick<PreparedOperation, "operation">): string[] {
  const text = String(operation?.[1] ?? "");
  return Array.from({ length: text.length / ridLength }, (_, at) => text.slice(at * ridLength, (at + 1) * ridLength));
}

const unavailable: Result = { verdict: Verdict.UNAVAILABLE };

/** The result of an operation by those of its parts. */
export function mergeParts(prepared: PreparedOperation, parts: readonly Task[]): Result {
  const results = parts.map(({ result }) => result ?? unavailable);
  switch (prepared.request.name) {
    case "lookupMany":
      return { verdict: Verdict.OK, states: Buffer.from(mergeMany(prepared, parts)) };
    case "lookup": {
      const states = results.map(({ verdict, state }) => (verdict === Verdict.OK ? (state ?? 0) : undefined));
      const state = mergeStates(states);
      return state === unasked ? unavailable : { verdict: Verdict.OK, state: state as CallState };
    }
    case "endSession":
      return results.find(({ verdict }) => verdict !== Verdict.OK) ?? { verdict: Verdict.OK };
    default:
      return mergeOfCall(results);
  }
}

/** One shard knows the call; the others say that it has no hold there. */
function mergeOfCall(results: readonly Result[]): Result {
  const { NO_HOLD, UNAVAILABLE } = Verdict;
  const known = results.find(({ verdict }) => verdict !== NO_HOLD && verdict !== UNAVAILABLE);
  const undecided = results.find(({ verdict }) => verdict === UNAVAILABLE);
  const charged = results.find(({ checkpointNanos }) => (checkpointNanos ?? 0) > 0);
  return known ?? undecided ?? charged ?? { verdict: NO_HOLD };
}

/** By which ids each part was asked about: where accounts are may have changed since. */
function mergeMany(prepared: PreparedOperation, parts: readonly Task[]): number[] {
  const rids = ridsOf(prepared);
  const statesOf = new Map<string, (number | undefined)[]>(rids.map((rid) => [rid, []]));
  for (const part of parts) {
    const states = part.result?.states;
    for (const [at, rid] of ridsOf(part.prepared).entries()) statesOf.get(rid)?.push(states?.[at]);
  }
  return rids.map((rid) => mergeStates(statesOf.get(rid) ?? []));
}

/**
 * What became of a call by what each shard says, undefined where one did not answer. A release leaves a mark wherever
 * the call was not known.
 */
function mergeStates(states: readonly (number | undefined)[]): number {
  const told = states.filter((state) => state !== undefined);
  const known = told.filter((state) => state !== CallState.UNSPECIFIED && state !== CallState.RELEASED);
  if (known.length > 0) return Math.max(...known);
  return told.length < states.length ? unasked : Math.max(...told);
}
