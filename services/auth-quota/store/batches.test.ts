import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { v7 } from "uuid";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { startHotWorld, type HotEnvironment } from "../testing/hot-world.ts";
import { readAnswers, type HotAnswer, type HotOperation } from "./hot.ts";

// Within a run the script reads a call once and writes it once, however many operations are about it. That must not be
// seen: a batch leaves the same as its operations do in a run each.

let world: HotEnvironment;
before(async () => {
  world = await startHotWorld();
});
after(() => world[Symbol.asyncDispose]());

const accounts = ["acct_1", "acct_2"];

function createRandom(seed: number) {
  let state = seed;
  const below = (end: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
  return { below, pick: <T>(items: readonly T[]): T => items[below(items.length)] as T };
}

type Random = ReturnType<typeof createRandom>;

function drawOperation({ below, pick }: Random, rids: readonly string[], ending: HotOperation): HotOperation {
  const rid = pick(rids);
  const number = rids.indexOf(rid) % accounts.length;
  const account = accounts[number] ?? "";
  const key = `key_${number}`;
  const amount = String(pick([below(300), below(300), 4_503_599_627_370_497]));
  const record = Buffer.from(Array.from({ length: 1 + below(40) }, () => below(256)));
  const reserve: HotOperation = ["reserve", rid, String(Date.now()), "", key, account, pick(["m", "n"]), amount, ""];
  return pick<HotOperation>([
    reserve,
    reserve,
    reserve,
    ["extend", rid, amount, pick(["0", "1"]), pick([account, ""])],
    ["checkpoint", rid, amount, record, account],
    ["restore", rid, account, key, amount, "7", record],
    ["settle", rid, account, key, amount, record],
    ["settle", rid, account, key, "40", record],
    ["release", rid, account],
    ["lookup", rid, account],
    ["lookup-many", rids.join("")],
    ["post", rid, "40", pick(["0", "1"])],
    ["post", rid, "40", "1"],
    ["balance", account, amount, String(below(200)), String(below(50)), ""],
    ending,
    ["account-settings", account, "active", "0", pick(["0", "2"]), pick(["", "400"]), String(below(3))],
    [
      "key-settings",
      key,
      account,
      "active",
      "",
      pick(["", "500"]),
      "",
      pick(["0", "1"]),
      pick(["0", "3"]),
      "",
      String(below(3)),
    ],
  ]);
}

function createRunner(prefix: string, perMinute = "1000000", ipPerMinute = "1000000") {
  let run = 0;
  return async (operations: readonly HotOperation[]): Promise<HotAnswer[]> => {
    run += 1;
    const head = ["relay_1", perMinute, ipPerMinute, "0", "process", String(run), "0", ""];
    return readAnswers(await world.redis.applyMoney(prefix, [...head, ...operations.flat()]));
  };
}

// One kind for each world: the first forgets the session, which the second then does not find within the same run.
const endings: HotOperation[] = [
  ["end-session", "relay_1", "200"],
  ["sweep-forgotten", "-1000", "1000000", "200"],
];

const times = /^(?:beat|floor|generation|arrival|posted_in|spent_in|seen:.*)$/;

// Nothing written counts as 0.
const fieldsOf = (hash: Record<string, string>): [string, string][] =>
  Object.entries(hash).filter(([field, value]) => !times.test(field) && value !== "0");

async function readAll(prefix: string): Promise<Record<string, unknown>> {
  const { redis } = world;
  const found: Record<string, unknown> = {};
  for (const name of (await redis.keys(`${prefix}*`)).toSorted()) {
    // Every run adds its own relay to it.
    if (name.endsWith(":sessions")) continue;
    const type = await redis.type(name);
    const read = async (): Promise<unknown> => {
      if (type === "zset") return (await redis.zrange(name, "0", "-1")).toSorted();
      if (type === "hash") return fieldsOf(await redis.hgetall(name));
      return [(await redis.getBuffer(name))?.toString("latin1"), (await redis.pttl(name)) > 0];
    };
    const value = await read();
    found[name.slice(prefix.length)] =
      type === "hash" ? (value as string[][]).toSorted(([one = ""], [other = ""]) => (one < other ? -1 : 1)) : value;
  }
  return found;
}

type Run = ReturnType<typeof createRunner>;

/** Begins a world: accounts and keys with money. */
async function open(run: Run, perMinute = "1000000"): Promise<void> {
  await run([["establish", "0"]]);
  for (const number of [0, 1]) {
    const account = accounts[number] ?? "";
    await run([["account-settings", account, "active", perMinute, "0", "", "0"]]);
    await run([["key-settings", `key_${number}`, account, "active", "", "", "", "0", "0", "", "0"]]);
    await run([["balance", account, "100000", "0", "0", ""]]);
    await run([["spending", `key_${number}`, accounts[number] ?? "", "0", "0", ""]]);
  }
}

test("a batch answers and leaves what its operations do in a run each", async () => {
  for (let seed = 1; seed <= 25; seed += 1) {
    const random = createRandom(seed);
    const ending = random.pick(endings);
    const prefixes = [`{batch ${seed}}`, `{single ${seed}}`] as const;
    const [batch, single] = [createRunner(prefixes[0]), createRunner(prefixes[1])];
    await Promise.all([open(batch), open(single)]);
    const rids = Array.from({ length: 6 }, () => v7());
    for (let turn = 0; turn < 4; turn += 1) {
      const operations = Array.from({ length: 1 + random.below(20) }, () => drawOperation(random, rids, ending));
      const apart: HotAnswer[] = [];
      for (const operation of operations) apart.push(...(await single([operation])));
      const names = operations.map(([name]) => name).join(" ");
      assert.deepEqual(await batch(operations), apart, `seed ${seed}: ${names}`);
      assert.deepEqual(await readAll(prefixes[0]), await readAll(prefixes[1]), `seed ${seed}: ${names}`);
    }
  }
});

test("a record stays whole when its call is written twice in a run, with more digits in between", async () => {
  const run = createRunner("{twice}");
  await open(run);
  const rid = v7();
  const record = Buffer.from("the record");
  await run([["reserve", rid, String(Date.now()), "", "key_0", "acct_1", "m", "9", ""]]);
  await run([["checkpoint", rid, "7", record, ""]]);
  await run([
    ["extend", rid, "12345", "0", ""],
    ["end-session", "relay_1", "200"],
  ]);
  const text = await world.redis.get(`{twice}:call:${rid}`);
  assert.match(text ?? "", /^expired acct_1 key_0 relay_1 9 12345 7 7 -1 0 1 m\nthe record$/);
});

test("calls from one address, and of one account, count within a run", async () => {
  const run = createRunner("{rates}", "2", "3");
  await open(run, "0");
  const reserve = (ip: string, number = 0): HotOperation => {
    const owner = [`key_${number}`, accounts[number] ?? ""] as const;
    return ["reserve", v7(), String(Date.now()), ip, ...owner, "m", "1", ""];
  };
  const codesOf = (answers: HotAnswer[]) => answers.map(({ code }) => code);
  const { OK, IP_RATE, ACCOUNT_RATE } = Verdict;
  const anywhere = Array.from({ length: 3 }, () => reserve(""));
  assert.deepEqual(codesOf(await run(anywhere)), [OK, OK, ACCOUNT_RATE]);
  const there = Array.from({ length: 4 }, () => reserve("192.0.2.1"));
  assert.deepEqual(codesOf(await run(there)), [ACCOUNT_RATE, ACCOUNT_RATE, ACCOUNT_RATE, IP_RATE]);
  const both = [reserve("192.0.2.1", 1), reserve("192.0.2.2", 1), reserve("192.0.2.2", 1), reserve("192.0.2.2", 1)];
  assert.deepEqual(codesOf(await run(both)), [IP_RATE, OK, OK, ACCOUNT_RATE]);
});

test("a run may be about more calls than a command takes arguments", async () => {
  const run = createRunner("{many}");
  await open(run);
  const rids = Array.from({ length: 1_201 }, () => v7());
  const all = rids.join("");
  const runAll = async (operationOf: (rid: string) => HotOperation): Promise<string> => {
    const answers = await run([...rids.map(operationOf), ["lookup-many", all]]);
    assert.equal(await world.redis.zcard("{many}:outbox"), Number(await world.redis.hget(account, "pending")));
    return answers.at(-1)?.text ?? "";
  };
  const account = "{many}:account:acct_1";
  assert.equal(
    await runAll((rid) => ["settle", rid, "acct_1", "key_0", "2", Buffer.from(`of ${rid}`)]),
    "4".repeat(rids.length),
  );
  assert.equal(await runAll((rid) => ["post", rid, "1", "0"]), "4".repeat(rids.length));
  const found = await world.redis.mget(...rids.map((rid) => `{many}:call:${rid}`));
  rids.forEach((rid, index) => assert.ok(found[index]?.endsWith(` 2 2 1 0 -\nof ${rid}`), found[index] ?? rid));
  assert.deepEqual(await world.redis.hmget(account, "unposted", "pending"), [String(rids.length), String(rids.length)]);
  assert.equal(await runAll((rid) => ["post", rid, "2", "1"]), "5".repeat(rids.length));
  assert.deepEqual(await world.redis.hmget(account, "unposted", "pending"), ["0", "0"]);
});
