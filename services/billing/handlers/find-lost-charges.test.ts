import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { v7 } from "uuid";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { startApp } from "../testing/app.ts";
import { startLedger } from "../testing/ledger.ts";

let server: Awaited<ReturnType<typeof startLedger>>;
before(async () => {
  server = await startLedger();
});
after(() => server[Symbol.asyncDispose]());

const dayMs = 86_400_000;

test("of what relay processes were told to be booked, those are found of which the ledger lacks some", async () => {
  await using app = await startApp(server.postgres);
  const [whole, holed, behind, unknown, busy] = [v7(), v7(), v7(), v7(), v7()];
  const forgotten = v7({ msecs: Date.now() - 401 * dayMs });
  const of = (relaySession: string, numbers: number[]) =>
    numbers.map((number) => ({ relaySession, sequence: BigInt(number) }));
  await app.book(...of(whole, [0, 1, 2]), ...of(holed, [0, 3, 4, 7]), ...of(behind, [0, 1]), ...of(busy, [0, 1, 4]), {
    relaySession: "",
    sequence: 0n,
    kind: RecordKind.PROVISIONAL,
  });
  const ask = async (relays: [string, bigint][]) => {
    const { lost } = await app.billing.findLostCharges({
      relays: relays.map(([relaySession, booked]) => ({ relaySession, booked })),
    });
    return lost.map(({ relaySession, charges }) => [relaySession, charges]);
  };
  assert.deepEqual(await ask([[whole, 3n]]), []);
  assert.deepEqual(
    await ask([
      [holed, 6n],
      [whole, 1n],
    ]),
    [[holed, 2n]],
  );
  assert.deepEqual(await ask([[behind, 5n]]), [[behind, 3n]]);
  assert.deepEqual(await ask([[unknown, 2n]]), [[unknown, 2n]]);
  assert.deepEqual(await ask([[busy, 2n]]), [], "2 and 3 are on their way");
  assert.deepEqual(await ask([[forgotten, 2n]]), [], "of so old a process the ledger has forgotten what it booked");
  const many = Array.from({ length: 101 }, (): [string, bigint] => [v7(), 1n]);
  await assert.rejects(ask(many), { code: "invalid_argument" });
});

test("calls without a final charge are found, apart from those of days that take no more lines", async () => {
  await using app = await startApp(server.postgres);
  const [final, adjusted, provisional, never] = [createRid(), createRid(), createRid(), createRid()];
  const old = v7({ msecs: Date.now() - 61 * dayMs });
  await app.book({ rid: final });
  await app.book(
    { rid: adjusted, kind: RecordKind.PROVISIONAL, outputTokens: 1n },
    { rid: provisional, kind: RecordKind.PROVISIONAL },
  );
  await app.book({ rid: adjusted });
  const { unbookedRids } = await app.billing.findLostCharges({ rids: [final, adjusted, provisional, never, old] });
  assert.deepEqual(unbookedRids, [provisional, never]);
  for (const rids of [["no rid"], Array.from({ length: 1_001 }, createRid)]) {
    await assert.rejects(app.billing.findLostCharges({ rids }), { code: "invalid_argument" });
  }
});
