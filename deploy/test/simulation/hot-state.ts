import type { RedisServer } from "./redis-link.ts";
import { hasMoves, redisOf, type World } from "./world.ts";

// What the money script keeps in Redis, read past the network.

/** A call as the money script keeps it. */
export type HotCall = {
  state: string;
  accountId: string;
  keyId: string;
  held: bigint;
  amount: bigint;
  booked: bigint;
  /** As how many calls under way it counts. */
  open: number;
};

const parsed = new Map<string, { text: string; call: HotCall }>();

/** All calls that Redis knows, by rid; those in books (lua/books.lua) as if each had a text of its own. */
export function hotCalls(world: World): Map<string, HotCall> {
  const calls = new Map<string, HotCall>();
  for (const { memory, prefix } of world.redises) {
    const begin = `${prefix}:call:`;
    for (const key of memory.keys()) {
      if (key.startsWith(`${prefix}:costs:`)) readBook(world, key, calls);
      if (!key.startsWith(begin)) continue;
      const text = String(memory.execute(["GET", key]) ?? "");
      const call = parse(key, text);
      const rid = key.slice(begin.length);
      if (call.state === "summed") continue;
      // A release leaves a mark where the call was not known; a charge may be told again where its account has moved.
      const known = calls.get(rid);
      if (text !== "" && (!known || (call.state !== "released" && !isWeighing(known)))) calls.set(rid, call);
    }
  }
  return calls;
}

const bookPattern = /^(.+):costs:(.+)\.[^.]+$/;

/** Puts the calls of a book among the others, and looks at whether it weighs what they do (M10). */
function readBook({ redises, payers, violate }: World, key: string, calls: Map<string, HotCall>): void {
  const [, prefix, keyId = ""] = bookPattern.exec(key) ?? [];
  const memory = redises.find((redis) => redis.prefix === prefix)?.memory;
  const accountId = payers.find((payer) => payer.keyId === keyId)?.accountId ?? "";
  const flat = (memory?.execute(["HGETALL", key]) ?? []) as string[];
  const owed = { nanos: 0n, count: 0 };
  for (let at = 0; at < flat.length; at += 2) {
    const [rid = "", text = ""] = flat.slice(at, at + 2);
    const nanos = BigInt(text.slice(1));
    const isOwed = text.startsWith("s");
    if (isOwed) owed.nanos += nanos;
    if (isOwed) owed.count += 1;
    const sums = isOwed ? { amount: nanos, booked: 0n } : { amount: nanos, booked: nanos };
    const known = calls.get(rid);
    if (!known || !isWeighing(known))
      calls.set(rid, { state: isOwed ? "settled" : "posted", accountId, keyId, held: 0n, ...sums, open: 0 });
  }
  const text = String(memory?.execute(["GET", key.replace(":costs:", ":call:")]) ?? "");
  const sum = text === "" ? { amount: 0n, booked: 0n } : parse(key, text);
  const count = Number(text.slice(text.indexOf("\n") + 1) || 0);
  const records = ((memory?.execute(["HGETALL", key.replace(":costs:", ":owed:")]) ?? []) as string[]).length / 2;
  if (sum.amount - sum.booked !== owed.nanos || count !== owed.count || records !== owed.count)
    violate(`M10: ${key} says ${count} owe ${sum.amount - sum.booked}, its calls ${owed.count}: ${owed.nanos}`);
}

function parse(key: string, text: string): HotCall {
  const known = parsed.get(key);
  if (known?.text === text) return known.call;
  const [state = "", accountId = "", keyId = "", , , held = "0", , amount = "0", , booked = "0"] = text.split(" ", 10);
  const record = text.slice(text.indexOf("\n") + 1);
  const leased = state === "leased" ? Number(record.split(" ")[0]) : 0;
  const call = {
    state,
    accountId,
    keyId,
    held: BigInt(held),
    amount: BigInt(amount),
    booked: BigInt(booked),
    open: state === "held" ? 1 : leased,
  };
  if (parsed.size > 1_000) parsed.clear();
  parsed.set(key, { text, call });
  return call;
}

export const most = (one: bigint, other: bigint): bigint => (one > other ? one : other);
const isWeighing = (call: HotCall): boolean => call.open > 0 || (isOwing(call) && call.amount > call.booked);
export const isOwing = ({ state }: HotCall): boolean => state === "settled" || state === "expired";

export type Sums = { held: bigint; unposted: bigint };

/** What calls hold and owe together. */
export function sumsOf(calls: Iterable<HotCall>): Sums {
  const sums = { held: 0n, unposted: 0n };
  for (const call of calls) {
    if (call.state === "held" || call.state === "leased") sums.held += call.held;
    if (isOwing(call)) sums.unposted += most(0n, call.amount - call.booked);
  }
  return sums;
}

// Where an account has moved, what it has in other shards counts as well.
const summedFields = ["held", "unposted", "open"];

/** The fields of one of the script's hashes, in the shard of an account. */
export function hashOf(world: World, accountId: string, key: string): Record<string, string> {
  const home = redisOf(world, accountId);
  const hash = hashIn(home, key);
  if (!hasMoves(world.seed) || key === "service") return hash;
  const others = world.redises.filter((redis) => redis !== home).map((redis) => hashIn(redis, key));
  for (const field of summedFields) {
    const sum = [hash, ...others].reduce((whole, one) => whole + BigInt(one[field] ?? 0), 0n);
    if (sum !== 0n || hash[field] !== undefined) hash[field] = String(sum);
  }
  return hash;
}

function hashIn({ memory, prefix }: RedisServer, key: string): Record<string, string> {
  const flat = memory.execute(["HGETALL", `${prefix}:${key}`]) as string[];
  const hash: Record<string, string> = {};
  for (let at = 0; at < flat.length; at += 2) hash[flat[at] ?? ""] = flat[at + 1] ?? "";
  return hash;
}
