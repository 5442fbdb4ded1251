import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { v7 } from "uuid";
import { createLog } from "#shared/process/log.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { createHotStore, type HotOperation, type HotStore } from "../../../services/auth-quota/store/hot.ts";
import { connectRedis, type HotRedis } from "../../../services/auth-quota/store/redis.ts";
import { moneyScript } from "../../../services/auth-quota/store/script.ts";
import { loadScript } from "./lua.ts";
import { createNetwork } from "./network.ts";
import { createRandom, type Random } from "./random.ts";
import { connectSimulatedRedis } from "./redis-link.ts";
import { createMemoryRedis, type MemoryRedis } from "./redis.ts";

// The in-memory Redis must not lie: the same operations on it and on a real one give the same answers and leave the
// same keys, times apart.

const log = createLog("test", "silent");
const limits = { accountPerMinute: 1_000_000, ipPerMinute: 1_000_000, accountConcurrent: 0 };

let real: HotRedis;
let memory: MemoryRedis;
let both: [HotStore, HotStore];
const resources = new AsyncDisposableStack();

before(async () => {
  const stores = resources.use(await startStores({ redis: true }));
  real = resources.use(connectRedis(stores.redis.url, log));
  await until("redis is ready", () => real.status === "ready");
  memory = createMemoryRedis(
    () => Date.now() * 1_000,
    () => 0,
  );
  const server = {
    name: "redis",
    prefix: real.prefix,
    memory,
    script: await loadScript(moneyScript),
    isDown: false,
    clockAheadMs: 0,
    onRun: () => undefined,
  };
  const network = createNetwork(createRandom(1), { typicalMs: 0, slowMs: 0, slowChance: 0, lossChance: 0 });
  const simulated = connectSimulatedRedis(server, network, "test");
  both = [createHotStore(real, limits), createHotStore(simulated, limits)];
});
after(() => resources.disposeAsync());

const accounts = ["acct_1", "acct_2"];
const large = 4_503_599_627_370_497;

function drawOperation(random: Random, rids: readonly string[]): HotOperation {
  const rid = random.pick(rids);
  const number = rids.indexOf(rid) % accounts.length;
  const account = accounts[number] ?? "";
  const key = `key_${number}`;
  const amount = String(random.chance(0.1) ? large : random.between(0, 300));
  // Any byte may stand in a record.
  const record = Buffer.from(Array.from({ length: random.between(1, 40) }, () => random.between(0, 255)));
  const ridMs = String(Date.now());
  return random.pick<HotOperation>([
    ["reserve", rid, ridMs, "", key, account, "m", amount, ""],
    ["reserve", rid, ridMs, "", key, account, "m", amount, ""],
    ["authorize", "", key, account, random.pick(["", "1"]), ""],
    ["extend", rid, amount, "0", account],
    ["extend", rid, amount, "1", ""],
    ["checkpoint", rid, amount, record, account],
    ["restore", rid, account, key, amount, "7", record],
    ["settle", rid, account, key, amount, record],
    ["settle", rid, account, key, "40", record],
    ["release", rid, account],
    ["lookup", rid, account],
    ["lookup-many", rids.join("")],
    ["post", rid, "40", random.pick(["0", "1"])],
    ["settle-leased", rid, "", account, key, "40", "", record],
    ["settle-leased-proven", rid, "", account, key, "40", "", record],
    ["post-leased", rid, account, key, "40"],
    ["lookup-leased", account, key, rids.join("")],
    ["balance", account, amount, String(random.between(0, 99)), String(random.between(1, 50)), random.pick(["0", "1"])],
    ["spending", key, account, amount, String(random.between(1, 50)), random.pick(["0", "1"])],
    ["end-session", "relay_1", "2"],
    ["sweep", "1000000", "200"],
    ["sweep-forgotten", "1000000", "1000000", "200"],
    [
      "account-settings",
      account,
      "active",
      "0",
      random.pick(["0", "2"]),
      random.pick(["", "500"]),
      String(random.between(1, 3)),
    ],
    [
      "key-settings",
      key,
      account,
      "active",
      "",
      random.pick(["", "500"]),
      "",
      random.pick(["0", "1"]),
      random.pick(["0", "3"]),
      "",
      String(random.between(1, 3)),
    ],
  ]);
}

/** Fields and scores that are times, or random names. */
const times = new Set(["beat", "floor", "generation", "arrival", "posted_in", "spent_in", "gate"]);

const fieldsOf = (hash: Record<string, string>): [string, string][] =>
  Object.entries(hash)
    .filter(([name]) => !name.startsWith("seen:"))
    .map(([name, value]): [string, string] => [name, times.has(name) ? "a time" : value])
    .toSorted(([one], [other]) => (one < other ? -1 : 1));

async function readReal(key: string): Promise<unknown> {
  const type = await real.type(key);
  if (type === "hash") {
    const found = Object.entries(await real.hgetallBuffer(key));
    return fieldsOf(Object.fromEntries(found.map(([name, value]) => [name, value.toString("latin1")])));
  }
  if (type === "zset") return (await real.zrange(key, "0", "-1")).toSorted();
  return (await real.getBuffer(key))?.toString("latin1");
}

function readMemory(key: string): unknown {
  const value = memory.read(key);
  if (value?.kind === "hash") return fieldsOf(Object.fromEntries(value.fields));
  if (value?.kind === "sorted") return [...value.scores.keys()].toSorted();
  return value?.kind === "text" ? value.text : undefined;
}

for (const seed of [1, 2, 3]) {
  test(`the in-memory Redis answers and remembers as a real one does, list ${seed}`, { timeout: 60_000 }, async () => {
    const random = createRandom(seed);
    await real.flushall();
    memory.clear();
    const rids = Array.from({ length: 12 }, () => v7());
    for (const hot of both) assert.equal(await hot.readRecoveryLock(), undefined, "an empty Redis knows no generation");
    for (const hot of both) await hot.establish(false);
    for (let round = 0; round < 150; round += 1) {
      const operations = Array.from({ length: random.between(0, 6) }, () => drawOperation(random, rids));
      const session = random.pick(["relay_1", "relay_2"]);
      const [expected, found] = await Promise.all(both.map((hot) => hot.apply(session, operations)));
      assert.deepEqual(found, expected, JSON.stringify(operations));
    }
    for (const accountId of accounts) {
      const [expected, found] = await Promise.all(both.map((hot) => hot.readSums(accountId)));
      assert.deepEqual(found, expected);
    }
    const [expected, found] = await Promise.all(both.map((hot) => hot.listUnposted(0, 100)));
    assert.deepEqual(found?.map(String).toSorted(), expected?.map(String).toSorted());
    const keys = (await real.keys("*")).toSorted();
    assert.deepEqual([...memory.keys()].toSorted(), keys);
    for (const key of keys) assert.deepEqual(readMemory(key), await readReal(key), key);
  });
}
