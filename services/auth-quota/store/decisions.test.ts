import assert from "node:assert/strict";
import { after, before, describe, it, test } from "node:test";
import { v7 } from "uuid";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { actor, freshNames, fundedActor, newRid, startHotWorld, type HotEnvironment } from "../testing/hot-world.ts";
import { answerCodes, need, writeBalance, type HotAnswer } from "./hot.ts";

let world: HotEnvironment;
before(async () => {
  world = await startHotWorld({ accountPerMinute: 3, ipPerMinute: 2 });
});
after(() => world[Symbol.asyncDispose]());

const codesOf = (answers: HotAnswer[]): number[] => answers.map(({ code }) => code);

let lastAddress = 0;
const freshIp = (): string => `10.0.0.${(lastAddress += 1)}`;

test("a reserve that fits is granted and lowers what is available by what it holds", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  assert.deepEqual(await payer.reserve(newRid(), 600), { code: Verdict.OK, number: 600, text: "" });
  const sums = await payer.sums();
  assert.deepEqual(
    { open: sums.openHolds, held: sums.heldNanos, available: sums.availableNanos },
    { open: 1, held: 600, available: 400 },
  );
});

test("decision order: IP rate comes before everything else, even before an unknown key", async () => {
  const ip = freshIp();
  const nobody = actor(world.hot);
  const ask = () => nobody.reserve(newRid(), 1, { ip, keyId: "" });
  assert.equal((await ask()).code, Verdict.KEY_INVALID);
  assert.equal((await ask()).code, Verdict.KEY_INVALID);
  const limited = await ask();
  assert.equal(limited.code, Verdict.IP_RATE);
  assert.ok(limited.number >= 29 && limited.number <= 30, `a place is free within 30 s, said ${limited.number}`);
});

test("the IP rate counts Authorize and Reserve alike, and does not count a call without an address", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const ip = freshIp();
  assert.equal((await payer.authorize(ip)).code, Verdict.OK);
  assert.equal((await payer.reserve(newRid(), 1, { ip })).code, Verdict.OK);
  assert.equal((await payer.authorize(ip)).code, Verdict.IP_RATE);
  assert.equal((await payer.authorize("")).code, Verdict.OK);
});

const deadKeys = [
  ["stopped", { status: "stopped" }],
  ["deleted", { status: "deleted" }],
  ["expired", { expiresAtMs: Date.now() - 1 }],
  ["its limit is used up", { limitNanos: 0n }],
] as const;

for (const [why, change] of deadKeys) {
  test(`a key is invalid when ${why}, before its model or money are looked at`, async () => {
    const payer = await fundedActor(world.hot, 0, { models: ["other"], ...change });
    assert.equal((await payer.reserve(newRid(), 5_000)).code, Verdict.KEY_INVALID);
    assert.equal((await payer.authorize()).code, Verdict.KEY_INVALID);
    // What was paid for can still be fetched; a key that was taken away opens nothing any more.
    const fetching = why === "its limit is used up" ? Verdict.OK : Verdict.KEY_INVALID;
    assert.equal((await payer.authorize("", true)).code, fetching);
  });
}

test("a used-up key that may be so is of its account and its models, and its address counts", async () => {
  const ip = freshIp();
  const payer = await fundedActor(world.hot, 0, { models: ["a", "b"], limitNanos: 0n });
  assert.equal((await payer.authorize(ip, true)).text, "a\nb");
  assert.equal((await payer.authorize(ip, true)).code, Verdict.OK);
  assert.equal((await payer.authorize(ip, true)).code, Verdict.IP_RATE);
  await payer.setAccount("suspended", 0, 2);
  assert.equal((await payer.authorize("", true)).code, Verdict.KEY_INVALID);
});

test("a key that expires later works, and one whose account is suspended does not", async () => {
  const payer = await fundedActor(world.hot, 100, { expiresAtMs: Date.now() + 60_000 });
  assert.equal((await payer.authorize()).code, Verdict.OK);
  await payer.setAccount("suspended", 0, 2);
  assert.equal((await payer.authorize()).code, Verdict.KEY_INVALID);
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.KEY_INVALID);
});

test("a limit is used up by charges, booked or not; money that is only held leaves the key valid", async () => {
  const payer = await fundedActor(world.hot, 1_000, { limitNanos: 100n });
  const rid = newRid();
  assert.equal((await payer.reserve(rid, 100)).code, Verdict.OK);
  assert.equal((await payer.authorize()).code, Verdict.OK);
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.KEY_LIMIT);
  await payer.settle(rid, 100);
  assert.equal((await payer.authorize()).code, Verdict.KEY_INVALID);
});

test("decision order: model comes before the key's limit and the balance", async () => {
  const payer = await fundedActor(world.hot, 0, { models: ["a", "b"], limitNanos: 10n });
  assert.equal((await payer.reserve(newRid(), 50, { model: "c" })).code, Verdict.MODEL);
  assert.equal((await payer.reserve(newRid(), 50, { model: "" })).code, Verdict.MODEL);
  assert.equal((await payer.reserve(newRid(), 50, { model: "b" })).code, Verdict.KEY_LIMIT);
  assert.equal((await payer.authorize()).text, "a\nb");
});

test("decision order: the key's limit comes before the balance, the balance before the account rate", async () => {
  const payer = await fundedActor(world.hot, 20, { limitNanos: 30n });
  assert.equal((await payer.reserve(newRid(), 31)).code, Verdict.KEY_LIMIT);
  assert.equal((await payer.reserve(newRid(), 21)).code, Verdict.BALANCE);
  for (let call = 0; call < 3; call += 1) assert.equal((await payer.reserve(newRid(), 0)).code, Verdict.OK);
  assert.equal((await payer.reserve(newRid(), 21)).code, Verdict.BALANCE);
  assert.equal((await payer.reserve(newRid(), 0)).code, Verdict.ACCOUNT_RATE);
});

test("only grants count towards the account rate, and an account's own limit replaces the default", async () => {
  const payer = await fundedActor(world.hot, 20);
  for (let call = 0; call < 5; call += 1) assert.equal((await payer.reserve(newRid(), 50)).code, Verdict.BALANCE);
  await payer.setAccount("active", 1, 2);
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.OK);
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.ACCOUNT_RATE);
  await payer.setAccount("active", 1_000_000, 3);
  // Raising the limit does not wait out what was counted under the old one beyond a minute's worth.
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.OK);
});

describe("calls under way", () => {
  it("are as many as the account may have; each that ends makes room, however it ends", async () => {
    const payer = await fundedActor(world.hot, 1_000);
    await payer.setAccount("active", 1_000_000, 2, 2);
    const [first, second] = [newRid(), newRid()];
    const ends = [() => payer.settle(first, 5), () => payer.release(second), () => payer.endSession()];
    assert.deepEqual(codesOf([await payer.reserve(first, 5), await payer.reserve(second, 5)]), [
      Verdict.OK,
      Verdict.OK,
    ]);
    for (const end of ends) {
      assert.equal((await payer.reserve(newRid(), 5)).code, answerCodes.concurrency);
      await end();
      assert.equal((await payer.reserve(newRid(), 5)).code, Verdict.OK);
    }
  });

  it("are as many as the key may have, beside other keys of the account; the same call again is no other", async () => {
    const payer = await fundedActor(world.hot, 1_000, { maxConcurrent: 1 });
    await payer.setAccount("active", 1_000_000, 2);
    const other = actor(world.hot, { ...payer, key: `${payer.key}_other` });
    await other.setKey();
    const rid = newRid();
    for (const again of [1, 2]) assert.equal((await payer.reserve(rid, 5)).code, Verdict.OK, `time ${again}`);
    assert.equal((await payer.reserve(newRid(), 5)).code, answerCodes.concurrency);
    assert.equal((await other.reserve(newRid(), 5)).code, Verdict.OK);
    await payer.settle(rid, 5);
    assert.equal((await payer.reserve(newRid(), 5)).code, Verdict.OK);
  });

  it("come after the balance and before the rate, and are counted again from holds that relays restore", async () => {
    const payer = await fundedActor(world.hot, 20, { maxConcurrent: 1 });
    await payer.setAccount("active", 1, 2);
    await payer.restore(newRid(), 5);
    assert.equal((await payer.reserve(newRid(), 16)).code, Verdict.BALANCE);
    assert.equal((await payer.reserve(newRid(), 5)).code, answerCodes.concurrency);
    await payer.setKey({ maxConcurrent: 2, version: 2n });
    assert.equal((await payer.reserve(newRid(), 5)).code, Verdict.OK);
    await payer.setKey({ maxConcurrent: 0, version: 3n });
    assert.equal((await payer.reserve(newRid(), 5)).code, Verdict.ACCOUNT_RATE);
  });
});

describe("a limit of an account", () => {
  it("is for what its keys spend together: what is booked, owed and held", async () => {
    const payer = await fundedActor(world.hot, 1_000);
    const other = actor(world.hot, { ...payer, key: `${payer.key}_other` });
    await other.setKey();
    await payer.limitAccount(300n, 2);
    await payer.fund(1_000, 2, 100);
    const rid = newRid();
    assert.equal((await payer.reserve(rid, 201)).code, Verdict.BALANCE);
    assert.equal((await payer.reserve(rid, 150)).code, Verdict.OK);
    assert.equal((await other.reserve(newRid(), 51)).code, Verdict.BALANCE);
    await payer.settle(rid, 120);
    assert.equal((await other.reserve(newRid(), 81)).code, Verdict.BALANCE);
    await payer.fund(880, 3, 220);
    await payer.post(rid, 120);
    assert.equal((await other.reserve(newRid(), 80)).code, Verdict.OK);
    assert.equal((await payer.sums()).availableNanos, 800, "the balance is what it was");
  });

  it("does not let more than the balance be spent, and ends when it is taken away", async () => {
    const payer = await fundedActor(world.hot, 50);
    await payer.limitAccount(300n, 2);
    assert.equal((await payer.reserve(newRid(), 51)).code, Verdict.BALANCE);
    await payer.limitAccount(0n, 3);
    assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.BALANCE);
    assert.equal((await payer.authorize()).code, Verdict.OK, "its keys stay valid");
    await payer.limitAccount(null, 4);
    assert.equal((await payer.reserve(newRid(), 50)).code, Verdict.OK);
  });

  it("bounds an extension, which takes what is left", async () => {
    const payer = await fundedActor(world.hot, 1_000);
    await payer.limitAccount(300n, 2);
    const rid = newRid();
    await payer.reserve(rid, 100);
    assert.equal((await payer.extend(rid, 301)).code, Verdict.BALANCE);
    assert.deepEqual(await payer.extend(rid, 500, 200), { code: Verdict.OK, number: 300, text: "" });
  });

  it("waits for what was spent where that is of another version than the balance", async () => {
    const payer = await fundedActor(world.hot, 1_000);
    await payer.limitAccount(300n, 2);
    // As a process of the version before takes a balance over.
    await world.redis.hset(`{auth-quota}:account:${payer.account}`, "posted", "900", "posted_version", "2");
    assert.deepEqual(await payer.reserve(newRid(), 1), { code: answerCodes.need, number: need.balance, text: "" });
    await payer.fund(900, 2, 100);
    assert.equal((await payer.reserve(newRid(), 201)).code, Verdict.BALANCE);
    assert.equal((await payer.reserve(newRid(), 200)).code, Verdict.OK);
  });
});

test("a clock of Redis that was ahead and was put right locks nobody out, and gives nobody more than the rate", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const ip = freshIp();
  const prefix = "{auth-quota}";
  assert.equal((await payer.reserve(newRid(), 1, { ip })).code, Verdict.OK);
  const aheadUs = (Date.now() + 300_000) * 1_000;
  await world.redis.set(`${prefix}:rate:${ip}`, aheadUs, "PX", 600_000);
  await world.redis.hset(`${prefix}:account:${payer.account}`, "arrival", aheadUs);
  assert.equal((await payer.reserve(newRid(), 1, { ip })).code, Verdict.OK);
  assert.equal((await payer.reserve(newRid(), 1, { ip })).code, Verdict.IP_RATE);
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.ACCOUNT_RATE);
});

test("a charge that is not yet booked counts against the balance like one that is", async () => {
  const payer = await fundedActor(world.hot, 100);
  const rid = newRid();
  await payer.reserve(rid, 80);
  await payer.settle(rid, 80);
  assert.equal((await payer.reserve(newRid(), 21)).code, Verdict.BALANCE);
  assert.equal((await payer.reserve(newRid(), 20)).code, Verdict.OK);
});

test("a negative balance refuses even a free call", async () => {
  const payer = await fundedActor(world.hot, -1);
  assert.equal((await payer.reserve(newRid(), 0)).code, Verdict.BALANCE);
});

test("what Redis lacks is named, not guessed: the decision is put off and nothing changes", async () => {
  const names = freshNames();
  const payer = actor(world.hot, names);
  const rid = newRid();
  const lacking = await payer.reserve(rid, 1);
  assert.equal(lacking.code, answerCodes.need);
  assert.equal(lacking.number, need.account + need.balance + need.key + need.spending);
  await payer.setAccount();
  await payer.setKey();
  assert.deepEqual(await payer.reserve(rid, 1), { code: answerCodes.need, number: need.balance, text: "" });
  assert.equal((await payer.authorize()).code, Verdict.OK, "without a limit a key needs no money to be valid");
  await payer.setKey({ limitNanos: 5n, version: 2n });
  assert.equal((await payer.authorize()).number, need.spending);
  assert.equal(await payer.lookup(rid), 0);
});

test("a stopped key is refused also while its money is not known", async () => {
  const payer = actor(world.hot);
  await payer.setKey({ status: "stopped", limitNanos: 5n });
  assert.equal((await payer.authorize()).code, Verdict.KEY_INVALID);
});

test("an unknown caller is asked for only after the address was counted", async () => {
  const ip = freshIp();
  const nobody = actor(world.hot);
  const ask = () => nobody.reserve(newRid(), 1, { ip, keyId: "?" });
  assert.deepEqual(await ask(), { code: answerCodes.need, number: need.identity, text: "" });
  await ask();
  assert.equal((await ask()).code, Verdict.IP_RATE);
});

test("a rid whose time is more than ten minutes away is refused in both directions, and told how far it is", async () => {
  const payer = await fundedActor(world.hot, 100);
  const at = (msecs: number) => v7({ msecs });
  for (const aheadMs of [-601_000, 605_000]) {
    const { code, number } = await payer.reserve(at(Date.now() + aheadMs), 1);
    assert.equal(code, answerCodes.skewed);
    assert.ok(Math.abs(number - aheadMs) < 5_000, String(number));
  }
  assert.equal((await payer.reserve(at(Date.now() - 590_000), 1)).code, Verdict.OK);
});

test("a balance of an older version changes nothing, and is answered with the version that is known", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const tell = async (nanos: bigint, version: bigint) => {
    const operation = writeBalance(payer.account, { nanos, spentNanos: 0n, version }, "");
    return (await world.hot.apply("", [operation]))[0];
  };
  const newest = 2n ** 33n + 7n;
  assert.deepEqual(await tell(500n, newest), { code: Verdict.OK, number: 0, text: "" });
  assert.deepEqual(await tell(500n, newest), { code: Verdict.OK, number: 0, text: "" });
  assert.deepEqual(await tell(501n, newest), { code: Verdict.OK, number: Number(newest) + 1, text: "" }, "another one");
  assert.deepEqual(await tell(900n, newest - 1n), { code: Verdict.OK, number: Number(newest), text: "" });
  assert.equal((await payer.reserve(newRid(), 501)).code, Verdict.BALANCE);
});

test("settings of an older version never replace newer ones", async () => {
  const payer = await fundedActor(world.hot, 100, { version: 7n });
  await payer.setKey({ status: "stopped", version: 8n });
  await payer.setKey({ status: "active", version: 7n });
  assert.equal((await payer.authorize()).code, Verdict.KEY_INVALID);
  await payer.setKey({ status: "active", version: 9n });
  assert.equal((await payer.authorize()).code, Verdict.OK);
});

test("an operation waits behind an earlier one on the same call that lacks data", async () => {
  const { account, key, session } = freshNames();
  const rid = newRid();
  const answers = await world.hot.apply(session, [
    ["reserve", rid, String(Date.now()), "", key, account, "m", "10", ""],
    ["settle", rid, account, key, "5", Buffer.from("r")],
    ["lookup", newRid(), account],
  ]);
  assert.deepEqual(
    answers.map(({ code }) => code),
    [answerCodes.need, answerCodes.need, Verdict.OK],
  );
  assert.equal(answers[1]?.number, 0);
});

test("amounts are exact up to 2^53 - 1", async () => {
  const most = Number.MAX_SAFE_INTEGER;
  const payer = await fundedActor(world.hot, most, { limitNanos: BigInt(most) });
  const rid = newRid();
  assert.deepEqual(await payer.reserve(rid, most - 1), { code: Verdict.OK, number: most - 1, text: "" });
  assert.equal((await payer.reserve(newRid(), 2)).code, Verdict.KEY_LIMIT);
  assert.equal((await payer.sums()).availableNanos, 1);
  assert.equal((await payer.extend(rid, most)).number, most);
  await payer.settle(rid, most - 3);
  const { unpostedNanos, availableNanos } = await payer.sums();
  assert.deepEqual([unpostedNanos, availableNanos], [most - 3, 3]);
  assert.equal((await payer.settle(newRid(), 4)).code, Verdict.CONFLICT, "a sum beyond what is exact is refused");
});

describe("the addresses of a key", () => {
  const rows: [addresses: string[], right: string[], wrong: string[]][] = [
    [["192.0.2.7"], ["192.0.2.7"], ["192.0.2.8", "::c000:207", "2001:db8::1", "not an address"]],
    [
      ["10.0.0.0/9", "192.0.2.0/31"],
      ["10.127.255.255", "192.0.2.1"],
      ["10.128.0.0", "192.0.2.2"],
    ],
    [["0.0.0.0/0"], ["203.0.113.9"], ["::1"]],
    [["::/0"], ["::1", "fe80::"], ["203.0.113.9"]],
    [["2001:db8:0:8000::/49"], ["2001:db8::8000:0:0:0:1", "2001:DB8:0:ffff::"], ["2001:db8::1", "2001:db8:1::"]],
    [["2001:db8::1"], ["2001:db8::1", "2001:db8:0:0:0:0:0:1"], ["2001:db8::", "2001:db8::2", "fe80::1%eth0"]],
  ];
  for (const [addresses, right, wrong] of rows) {
    it(`${addresses.join(", ")}: the key works from there and from nowhere else`, async () => {
      const payer = await fundedActor(world.hot, 1_000, { addresses });
      await payer.setAccount("active", 1_000_000, 2);
      for (const address of [...right, ""]) {
        assert.equal((await payer.authorize("", false, address)).code, Verdict.OK, address);
        assert.equal((await payer.reserve(newRid(), 1, { address })).code, Verdict.OK, address);
      }
      for (const address of wrong) {
        assert.equal((await payer.authorize("", true, address)).code, answerCodes.address, address);
        assert.equal((await payer.reserve(newRid(), 1, { address })).code, answerCodes.address, address);
      }
    });
  }

  it("come after what is wrong with the key itself, and count for nothing else", async () => {
    const address = "192.0.2.8";
    const payer = await fundedActor(world.hot, 0, { addresses: ["192.0.2.7"], models: ["other"] });
    assert.equal((await payer.reserve(newRid(), 5_000, { address })).code, answerCodes.address);
    await payer.setKey({ addresses: ["192.0.2.7"], status: "stopped", version: 2n });
    assert.equal((await payer.reserve(newRid(), 5_000, { address })).code, Verdict.KEY_INVALID);
  });

  it("are written also where a process of an older version has written the same version without them", async () => {
    const payer = await fundedActor(world.hot, 1_000, { addresses: ["192.0.2.7"] });
    const name = `${world.redis.prefix}:key:${payer.key}`;
    await world.redis.hset(name, "version", "2");
    const asking = async () => (await payer.authorize("", false, "192.0.2.9")).code;
    assert.equal(await asking(), answerCodes.address);
    await payer.setKey({ addresses: ["192.0.2.9"], version: 2n });
    assert.equal(await asking(), Verdict.OK);
    await payer.setKey({ addresses: ["192.0.2.7"], version: 2n });
    assert.equal(await asking(), Verdict.OK, "the same version again changes nothing");
  });
});

describe("the rate of a key", () => {
  it("limits its calls, and not those of other keys of the account", async () => {
    const payer = await fundedActor(world.hot, 1_000, { requestsPerMinute: 2 });
    await payer.setAccount("active", 1_000_000, 2);
    const other = actor(world.hot, { ...payer, key: `${payer.key}_other` });
    await other.setKey();
    const ask = async (by: typeof payer) => (await by.reserve(newRid(), 1)).code;
    assert.deepEqual([await ask(payer), await ask(payer)], [Verdict.OK, Verdict.OK]);
    assert.deepEqual([await ask(payer), await ask(other)], [Verdict.ACCOUNT_RATE, Verdict.OK]);
    await payer.setKey({ requestsPerMinute: 0, version: 2n });
    assert.equal(await ask(payer), Verdict.OK, "it is taken away");
  });

  it("is no more than that of the account, and what one of them refuses counts for neither", async () => {
    const payer = await fundedActor(world.hot, 1_000, { requestsPerMinute: 1 });
    const other = actor(world.hot, { ...payer, key: `${payer.key}_other` });
    await other.setKey({ requestsPerMinute: 1_000 });
    const ask = async (by: typeof payer) => (await by.reserve(newRid(), 1)).code;
    for (const verdict of [Verdict.OK, Verdict.ACCOUNT_RATE, Verdict.ACCOUNT_RATE]) {
      assert.equal(await ask(payer), verdict);
    }
    for (const verdict of [Verdict.OK, Verdict.OK, Verdict.ACCOUNT_RATE]) assert.equal(await ask(other), verdict);
  });

  it("counts a call once, however often it is asked for", async () => {
    const payer = await fundedActor(world.hot, 1_000, { requestsPerMinute: 2 });
    const rid = newRid();
    for (let time = 0; time < 3; time += 1) assert.equal((await payer.reserve(rid, 1)).code, Verdict.OK);
    assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.OK);
  });
});
