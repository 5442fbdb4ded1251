import type { LuaScript, LuaValue } from "./lua.ts";

/** An in-memory Redis: just the commands that auth-quota uses. Bytes are texts of one character per byte. */
export type MemoryRedis = {
  /** Runs a command. Throws for one that it does not know. */
  execute: (parts: string[]) => LuaValue;
  /** Runs the script, alone as in Redis. */
  evaluate: (script: LuaScript, key: string, values: string[]) => LuaValue;
  read: (key: string) => Value | undefined;
  keys: () => IterableIterator<string>;
  /** Loses everything. */
  clear: () => void;
  /** What it holds now; giving it back loses everything since. */
  save: () => Snapshot;
  restore: (saved: Snapshot) => void;
};

type Value =
  | { kind: "text"; text: string }
  | { kind: "hash"; fields: Map<string, string> }
  | { kind: "set"; members: Set<string> }
  | { kind: "sorted"; scores: Map<string, number> };

type Snapshot = { values: Map<string, Value>; expiries: Map<string, number> };

type Store = Snapshot & { nowUs: () => number; random: (below: number) => number };

/** `nowUs` is its clock; `random` picks what SPOP takes. */
export function createMemoryRedis(nowUs: () => number, random: (below: number) => number): MemoryRedis {
  const store: Store = { values: new Map(), expiries: new Map(), nowUs, random };
  const execute = (parts: string[]): LuaValue => {
    const [name = "", key = "", ...rest] = parts;
    const command = commands[name.toUpperCase()];
    if (!command) throw new Error(`the in-memory Redis does not know ${name}`);
    return command(store, key, rest);
  };
  return {
    execute,
    evaluate: (script, key, values) => script.run([key], values, execute),
    read: (key) => store.values.get(key),
    keys: () => store.values.keys(),
    clear: () => {
      store.values.clear();
      store.expiries.clear();
    },
    save: () => structuredClone({ values: store.values, expiries: store.expiries }),
    restore: (saved) => {
      store.values = structuredClone(saved.values);
      store.expiries = structuredClone(saved.expiries);
    },
  };
}

function find<K extends Value["kind"]>(store: Store, key: string, kind: K): Extract<Value, { kind: K }> | undefined {
  const expiresAtMs = store.expiries.get(key);
  if (expiresAtMs !== undefined && store.nowUs() / 1_000 >= expiresAtMs) forget(store, key);
  const value = store.values.get(key);
  if (!value) return undefined;
  if (value.kind !== kind) throw new Error(`WRONGTYPE: ${key} is a ${value.kind}, not a ${kind}`);
  return value as Extract<Value, { kind: K }>;
}

function forget(store: Store, key: string): number {
  store.expiries.delete(key);
  return store.values.delete(key) ? 1 : 0;
}

function hashAt(store: Store, key: string): Map<string, string> {
  const found = find(store, key, "hash");
  if (found) return found.fields;
  const fields = new Map<string, string>();
  store.values.set(key, { kind: "hash", fields });
  return fields;
}

function scoresAt(store: Store, key: string): Map<string, number> {
  const found = find(store, key, "sorted");
  if (found) return found.scores;
  const scores = new Map<string, number>();
  store.values.set(key, { kind: "sorted", scores });
  return scores;
}

function* pairs(list: readonly string[]): Generator<[string, string]> {
  for (let at = 0; at + 1 < list.length; at += 2) yield [list[at] ?? "", list[at + 1] ?? ""];
}

const byScore = (one: [string, number], other: [string, number]): number => {
  if (one[1] !== other[1]) return one[1] - other[1];
  return one[0] < other[0] ? -1 : 1;
};

function sorted(store: Store, key: string): [string, number][] {
  return [...(find(store, key, "sorted")?.scores ?? [])].toSorted(byScore);
}

const bound = (text: string): number => {
  if (text === "-inf") return -Infinity;
  return text === "+inf" ? Infinity : Number(text);
};

/** What lies between two scores, from the oldest on, within LIMIT. */
function between(store: Store, key: string, [least = "", most = "", limit, from, count]: string[]): string[] {
  const inside = sorted(store, key).filter(([, score]) => score >= bound(least) && score <= bound(most));
  const members = inside.map(([member]) => member);
  if (limit === undefined) return members;
  return members.slice(Number(from), Number(count) < 0 ? undefined : Number(from) + Number(count));
}

function dropEmpty(store: Store, key: string, size: number): void {
  if (size === 0) forget(store, key);
}

const commands: Record<string, (store: Store, key: string, rest: string[]) => LuaValue> = {
  TIME: ({ nowUs }) => [String(Math.floor(nowUs() / 1_000_000)), String(nowUs() % 1_000_000)],
  GET: (store, key) => find(store, key, "text")?.text ?? null,
  MGET: (store, key, rest) => [key, ...rest].map((one) => find(store, one, "text")?.text ?? null),
  SET: (store, key, [text = "", option, milliseconds]) => {
    forget(store, key);
    store.values.set(key, { kind: "text", text });
    if (option === "PX") store.expiries.set(key, Math.floor(store.nowUs() / 1_000) + Number(milliseconds));
    return "OK";
  },
  MSET: (store, key, rest) => {
    for (const [one, text] of pairs([key, ...rest])) {
      forget(store, one);
      store.values.set(one, { kind: "text", text });
    }
    return "OK";
  },
  DEL: (store, key, rest) => [key, ...rest].reduce((sum, one) => sum + forget(store, one), 0),
  EXISTS: (store, key, rest) => [key, ...rest].filter((one) => store.values.has(one)).length,
  HGET: (store, key, [field = ""]) => find(store, key, "hash")?.fields.get(field) ?? null,
  HMGET: (store, key, fields) => fields.map((field) => find(store, key, "hash")?.fields.get(field) ?? null),
  HGETALL: (store, key) => [...(find(store, key, "hash")?.fields ?? [])].flat(),
  HSET: (store, key, rest) => {
    const fields = hashAt(store, key);
    const before = fields.size;
    for (const [field, value] of pairs(rest)) fields.set(field, value);
    return fields.size - before;
  },
  HDEL: (store, key, rest) => {
    const fields = find(store, key, "hash")?.fields;
    if (!fields) return 0;
    const deleted = rest.filter((field) => fields.delete(field)).length;
    dropEmpty(store, key, fields.size);
    return deleted;
  },
  PEXPIRE: (store, key, [milliseconds]) => {
    if (!store.values.has(key)) return 0;
    store.expiries.set(key, Math.floor(store.nowUs() / 1_000) + Number(milliseconds));
    return 1;
  },
  PERSIST: (store, key) => Number(store.expiries.delete(key)),
  HINCRBY: (store, key, [field = "", more]) => {
    const fields = hashAt(store, key);
    const sum = Number(fields.get(field) ?? 0) + Number(more);
    fields.set(field, String(sum));
    return sum;
  },
  SADD: (store, key, rest) => {
    const found = find(store, key, "set")?.members ?? new Set<string>();
    store.values.set(key, { kind: "set", members: found });
    const before = found.size;
    for (const member of rest) found.add(member);
    return found.size - before;
  },
  SREM: (store, key, rest) => {
    const members = find(store, key, "set")?.members;
    if (!members) return 0;
    const removed = rest.filter((member) => members.delete(member)).length;
    dropEmpty(store, key, members.size);
    return removed;
  },
  SMEMBERS: (store, key) => [...(find(store, key, "set")?.members ?? [])],
  SCARD: (store, key) => find(store, key, "set")?.members.size ?? 0,
  SPOP: (store, key, [count]) => {
    const members = find(store, key, "set")?.members ?? new Set<string>();
    const taken: string[] = [];
    while (taken.length < Number(count) && members.size > 0) {
      const member = [...members][store.random(members.size)] ?? "";
      members.delete(member);
      taken.push(member);
    }
    dropEmpty(store, key, members.size);
    return taken;
  },
  ZADD: (store, key, rest) => {
    const scores = scoresAt(store, key);
    const before = scores.size;
    for (const [score, member] of pairs(rest)) scores.set(member, Number(score));
    return scores.size - before;
  },
  ZREM: (store, key, rest) => {
    const scores = find(store, key, "sorted")?.scores;
    if (!scores) return 0;
    const removed = rest.filter((member) => scores.delete(member)).length;
    dropEmpty(store, key, scores.size);
    return removed;
  },
  ZCARD: (store, key) => find(store, key, "sorted")?.scores.size ?? 0,
  ZSCORE: (store, key, [member = ""]) => scoreText(find(store, key, "sorted")?.scores.get(member)),
  ZMSCORE: (store, key, members) => members.map((member) => scoreText(find(store, key, "sorted")?.scores.get(member))),
  ZRANGE: (store, key, [from, to, option]) => {
    const all = sorted(store, key);
    const last = Number(to) < 0 ? all.length + Number(to) : Number(to);
    const part = all.slice(Number(from), last + 1);
    if (option?.toUpperCase() === "WITHSCORES") return part.flatMap(([member, score]) => [member, String(score)]);
    return part.map(([member]) => member);
  },
  ZRANGEBYSCORE: (store, key, rest) => between(store, key, rest),
  ZREMRANGEBYSCORE: (store, key, rest) => {
    const scores = find(store, key, "sorted")?.scores;
    const members = between(store, key, rest.slice(0, 2));
    for (const member of members) scores?.delete(member);
    if (scores) dropEmpty(store, key, scores.size);
    return members.length;
  },
};

const scoreText = (score: number | undefined): string | null => (score === undefined ? null : String(score));
