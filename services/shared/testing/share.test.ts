import assert from "node:assert/strict";
import { test } from "node:test";
import { query } from "./postgres.ts";
import { createSharing, sharePostgres } from "./share.ts";

function counted() {
  const counts = { started: 0, ended: 0 };
  const start = async () => {
    counts.started += 1;
    const end = async (): Promise<void> => void (counts.ended += 1);
    return { number: counts.started, [Symbol.asyncDispose]: end };
  };
  return { counts, start };
}

test("users at the same time share one, which ends with the last of them", async () => {
  const { counts, start } = counted();
  const { share } = createSharing();
  const [first, second] = await Promise.all([share("a", start), share("a", start)]);
  assert.deepEqual([first.number, second.number], [1, 1]);
  await first[Symbol.asyncDispose]();
  assert.equal(counts.ended, 0);
  await second[Symbol.asyncDispose]();
  assert.deepEqual(counts, { started: 1, ended: 1 });
  assert.equal((await share("a", start)).number, 2, "the next one has a new one");
});

test("what is kept serves users one after the other, and ends when it is kept no more", async () => {
  const { counts, start } = counted();
  const { share, keepShared } = createSharing();
  const kept = keepShared();
  for (let user = 0; user < 3; user += 1) {
    await using shared = await share("b", start);
    assert.equal(shared.number, 1);
  }
  const last = await share("c", start);
  assert.deepEqual(counts, { started: 2, ended: 0 });
  await kept[Symbol.asyncDispose]();
  assert.equal(counts.ended, 1, "one is still in use");
  await last[Symbol.asyncDispose]();
  assert.equal(counts.ended, 2);
});

test("databases on a shared PostgreSQL", async () => {
  const { share } = createSharing();
  const [first, second] = await Promise.all([sharePostgres(share), sharePostgres(share)]);
  const [one, other] = [await first.createDatabase(), await second.createDatabase()];
  assert.equal(new URL(one).port, new URL(other).port);
  assert.notEqual(one, other);
  await first[Symbol.asyncDispose]();
  assert.equal((await query(other, "select 7 as number")).rows[0].number, 7);
  await second[Symbol.asyncDispose]();
  await assert.rejects(query(other, "select 7"), /ECONNREFUSED/);
});
