import assert from "node:assert/strict";
import { test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { operationsInFlight, runPairs, type SendBatch, type Payer } from "./pairs.ts";

const payers: Payer[] = Array.from({ length: 3 }, (_, index) => ({
  accountId: `acct_${index}`,
  keyId: `key_${index}`,
  keyHash: Buffer.alloc(32, index),
  ip: `198.51.100.${index}`,
}));

/** Answers at the next turn of the event loop; notes the calls of each step and how many operations wait at once. */
function answering(verdictOf: (step: string, number: number) => Verdict) {
  const seen = { reserve: [] as string[], settle: [] as string[], most: 0, batches: new Set<number>() };
  let inFlight = 0;
  const ask: SendBatch = async (operations) => {
    inFlight += operations.length;
    seen.most = Math.max(seen.most, inFlight);
    seen.batches.add(operations.length);
    await new Promise(setImmediate);
    inFlight -= operations.length;
    return operations.map((operation) => {
      assert.ok(operation.case === "reserve" || operation.case === "settle");
      const count = seen[operation.case].push(operation.value.rid ?? "");
      return { verdict: verdictOf(operation.case, count) };
    });
  };
  return { ask, seen };
}

for (const perBatch of [1, 64]) {
  test(`in batches of ${perBatch}, all operations in flight are used, and each call is reserved and settled once`, async () => {
    const { ask, seen } = answering(() => Verdict.OK);
    const run = await runPairs({ ask, perBatch, payers }, 0);
    assert.deepEqual([seen.most, [...seen.batches]], [operationsInFlight, [perBatch]]);
    assert.deepEqual([run.pairs, new Set(seen.reserve).size], [operationsInFlight, operationsInFlight]);
    assert.deepEqual(new Set(seen.settle), new Set(seen.reserve));
    assert.deepEqual([run.settled, run.refusals.size], [run.pairs, 0]);
  });
}

test("refusals are counted by step and name, and a refused charge is not taken for settled", async () => {
  const { ask } = answering((step, number) => {
    if (step === "settle") return number <= 2 ? Verdict.CONFLICT : Verdict.OK;
    return number === 1 ? Verdict.BALANCE : Verdict.OK;
  });
  const run = await runPairs({ ask, perBatch: 64, payers }, 0);
  assert.deepEqual(Object.fromEntries(run.refusals), { "settle CONFLICT": 2, "reserve BALANCE": 1 });
  assert.equal(run.settled, run.pairs - 2);
});
