import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FindLostChargesResponseSchema, type FindLostChargesResponse } from "#proto/authquota/v1/authquota_pb.ts";
import { RecordKind, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { createRid } from "#shared/money/rid.ts";
import { createMetrics } from "../metrics.ts";
import { listeningLog } from "../testing/fakes.ts";
import { ridOfRecord } from "./settle.ts";
import { openSpool, type Spool } from "./spool.ts";
import { createBookedSample, createTellLost } from "./tell-lost.ts";

const record = (relaySession: string, sequence: number, kind: RecordKind = RecordKind.FINAL): Uint8Array =>
  toBinary(
    UsageRecordedSchema,
    create(UsageRecordedSchema, { rid: createRid(), relaySession, sequence: BigInt(sequence), kind }),
  );

function book(spool: Spool, records: readonly Uint8Array[]): void {
  for (const bytes of records) spool.append(ridOfRecord(bytes), bytes);
  for (const bytes of records) spool.confirm(ridOfRecord(bytes));
}

type Lost = { relaySession: string; charges: bigint };

/** A relay with a spool of its own, and a ledger that says what it has lost. */
async function startRelay(resources: AsyncDisposableStack) {
  const folder = await mkdtemp(join(tmpdir(), "relay-tell-lost-"));
  resources.defer(() => rm(folder, { recursive: true, force: true }));
  const { log, lines } = listeningLog();
  // A record or two in each segment.
  const limits = { segmentBytes: 200, maxBytes: 1_000_000, keptSegments: 10, syncMs: 100 };
  const open = (session: string) => openSpool(folder, session, { log, ridOf: ridOfRecord, limits });
  const asked: [string, bigint][][] = [];
  const told: [string, bigint][] = [];
  const ledger = { lost: [] as Lost[], unbooked: new Set<Uint8Array>(), isAway: false };
  const metrics = createMetrics(createRegistry("test"));
  const bookedSample = createBookedSample();
  const looks = (spool: Pick<Spool, "files" | "recordsIn" | "oldestMs">, relaySession: string, numbered: number) =>
    createTellLost({
      relaySession,
      bookedSample,
      numbered: () => BigInt(numbered),
      spool,
      quota: {
        findLostCharges: async ({ relays = [], rids = [] }): Promise<FindLostChargesResponse> => {
          if (ledger.isAway) throw new Error("billing is away");
          if (relays.length > 0) asked.push(relays.map(({ relaySession: name = "", booked = 0n }) => [name, booked]));
          const unbooked = new Set([...ledger.unbooked].map(ridOfRecord));
          return create(FindLostChargesResponseSchema, {
            lost: relays.length > 0 ? ledger.lost : [],
            unbookedRids: rids.filter((rid) => unbooked.has(rid)),
          });
        },
      },
      publisher: {
        publish: (bytes) => {
          const { relaySession: name, sequence } = fromBinary(UsageRecordedSchema, bytes);
          told.push([name, sequence]);
        },
        drain: async () => undefined,
        waiting: () => 0,
      },
      metrics,
      log,
    });
  return { open, looks, asked, told, ledger, lines, bookedSample };
}

test("booked charges that the ledger has lost are told again from the spool, and others are not", async () => {
  await using resources = new AsyncDisposableStack();
  const { open, looks, asked, told, ledger, lines } = await startRelay(resources);
  const spool = resources.use(await open("own"));
  const records = [0, 1, 2, 3].map((number) => record("own", number));
  book(spool, records);
  book(spool, [record("", 0), record("own", 2, RecordKind.PROVISIONAL)]);
  const look = looks(spool, "own", 4);
  await look();
  assert.deepEqual(asked, [], "nothing is known to be booked of numbers that were given since the start");
  await look();
  assert.deepEqual(asked, [[["own", 4n]]]);
  assert.deepEqual(told, []);

  ledger.lost = [{ relaySession: "own", charges: 2n }];
  ledger.unbooked = new Set(records.slice(1, 3));
  await look();
  assert.deepEqual(told, [
    ["own", 1n],
    ["own", 2n],
  ]);
  assert.ok(lines.some(({ toldAgain, gone }) => toldAgain === 2 && gone === 0));
  await look();
  assert.equal(told.length, 2, "not again before it can be booked");
});

test("a sample of what was booked has something of each part of it, and the newest, however much that is", () => {
  for (const count of [1, 2, 16, 17, 40, 1_000, 4_096]) {
    const sample = createBookedSample();
    for (let number = 0; number < count; number += 1) sample.note(String(number));
    const numbers = sample.take().map(Number);
    assert.ok(numbers.length <= 16 && numbers.at(-1) === count - 1, `${count}: ${numbers.join(" ")}`);
    const gaps = numbers.map((number, index) => number - (numbers[index - 1] ?? -1));
    assert.ok(Math.max(...gaps) <= Math.max(1, Math.ceil(count / 7)), `${count}: ${numbers.join(" ")}`);
    assert.deepEqual(sample.take(), [], "from there on");
  }
});

test("what was lost is found where as many charges are booked anew, by a sample of what was booked", async () => {
  await using resources = new AsyncDisposableStack();
  const { open, looks, told, ledger, bookedSample } = await startRelay(resources);
  const spool = resources.use(await open("own"));
  const records = Array.from({ length: 40 }, (_, number) => record("own", number));
  book(spool, records);
  for (const bytes of records) bookedSample.note(ridOfRecord(bytes));
  const look = looks(spool, "own", 40);
  ledger.unbooked = new Set(records.slice(14, 15));
  await look();
  await look();
  assert.equal(told.length, 0, "one alone may have another reason");
  ledger.unbooked = new Set(records.slice(10));
  await look();
  assert.deepEqual(
    told.map(([, number]) => Number(number)).toSorted((one, other) => one - other),
    records.slice(10).map((_, index) => index + 10),
    "all of it, of whatever was in the sample",
  );
  await look();
  assert.equal(told.length, 30, "not again before it can be booked");
});

test("what a process before this one had booked is asked about, too, and what is kept no more is said to be gone", async () => {
  await using resources = new AsyncDisposableStack();
  const { open, looks, asked, told, ledger, lines } = await startRelay(resources);
  const records = [5, 6, 7].map((number) => record("former", number));
  {
    await using former = await open("former");
    book(former, records);
  }
  const spool = resources.use(await open("next"));
  assert.deepEqual(spool.adopt(), new Map(), "what is booked is nobody's to charge");
  ledger.lost = [{ relaySession: "former", charges: 4n }];
  ledger.unbooked = new Set(records.slice(0, 2));
  await looks(spool, "next", 0)();
  assert.deepEqual(asked, [[["former", 8n]]]);
  assert.deepEqual(told, [
    ["former", 5n],
    ["former", 6n],
  ]);
  assert.ok(lines.some(({ gone, lost }) => gone === 2 && lost === "former"));
});

test("numbers behind a record that is not booked yet are not claimed to be, and nobody is asked while billing is away", async () => {
  await using resources = new AsyncDisposableStack();
  const { open, looks, asked, ledger } = await startRelay(resources);
  const spool = resources.use(await open("own"));
  book(spool, [record("own", 0)]);
  const open1 = record("own", 1);
  spool.append(ridOfRecord(open1), open1);
  const look = looks({ ...spool, oldestMs: () => 3_600_000 }, "own", 2);
  await look();
  await look();
  assert.deepEqual(asked, []);
  ledger.isAway = true;
  const heard = looks(spool, "own", 2);
  await heard();
  await heard();
});
