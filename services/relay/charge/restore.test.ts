import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { CallState } from "#proto/authquota/v1/authquota_pb.ts";
import { EndCause, RecordKind, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { createRestore } from "./restore.ts";
import { settle } from "./settle.ts";
import { listeningLog, liveCallOf, memorySpool, scriptedQuota, settlingOf } from "../testing/fakes.ts";
import { emptyTally } from "../dialects/dialect.ts";

const speaking = () => ({ ...emptyTally(), hasContent: true, contentTokens: 50 });

function startRestore(states: CallState[] = []) {
  const quota = scriptedQuota(({ case: name }) =>
    name === "lookup" ? { state: states.shift() ?? CallState.UNSPECIFIED } : {},
  );
  const spool = memorySpool();
  const { log, lines } = listeningLog();
  const settling = settlingOf({ quota, spool, log });
  const silent = liveCallOf();
  const running = liveCallOf({ tally: speaking() });
  const ended = liveCallOf({ endCause: EndCause.COMPLETE });
  const live = new Set([silent, running, ended]);
  return { quota, spool, settling, silent, running, live, lines, look: createRestore(settling, live) };
}

test("while the generation stays, nothing is told again", async () => {
  const { quota, look } = startRestore();
  await look();
  await look();
  assert.deepEqual(quota.operations, []);
});

test("another generation: every open hold is restored once, with what the call has cost so far", async () => {
  const { quota, look, silent, running, lines } = startRestore();
  await look();
  quota.setGeneration("2");
  await look();
  await look();
  const restored = quota.of("restore");
  assert.deepEqual(
    restored.map(({ rid, heldNanos, costNanos }) => [rid, heldNanos, costNanos > 0n]),
    [
      [silent.rid, 1_000_000_000n, false],
      [running.rid, 1_000_000_000n, true],
    ],
  );
  const record = fromBinary(UsageRecordedSchema, restored[1]?.record ?? new Uint8Array());
  assert.deepEqual([record.kind, record.costNanos], [RecordKind.PROVISIONAL, restored[1]?.costNanos]);
  assert.deepEqual(
    lines.map(({ level }) => level),
    ["warn"],
  );
});

test("a call that was granted by the new generation is not restored to it", async () => {
  const { quota, look, live } = startRestore();
  await look();
  quota.setGeneration("2");
  live.clear();
  live.add(liveCallOf({ generation: "2" }));
  await look();
  assert.deepEqual(quota.of("restore"), []);
});

test("a call that was granted before the loss and joins the live ones after the look that heard of it is restored", async () => {
  const { quota, look, live } = startRestore();
  await look();
  quota.setGeneration("2");
  live.clear();
  await look();
  const late = liveCallOf();
  live.add(late);
  await look();
  await look();
  assert.deepEqual(
    quota.of("restore").map(({ rid }) => rid),
    [late.rid],
  );
});

test("charges that are not known to be booked are told again, all of them and at once", async () => {
  const states = [CallState.SETTLED, CallState.UNSPECIFIED, CallState.POSTED];
  const { quota, spool, settling, look } = startRestore(states);
  await look();
  const calls = [liveCallOf(), liveCallOf(), liveCallOf()];
  for (const call of calls) settle(settling, Object.assign(call, { tally: speaking() }), EndCause.COMPLETE);
  const [known, lost, booked] = calls.map(({ rid }) => rid);
  const before = quota.of("settle").length;
  quota.setGeneration("2");
  await look();
  assert.deepEqual(
    quota
      .of("settle")
      .slice(before)
      .map(({ rid }) => rid),
    [lost],
  );
  assert.deepEqual([...spool.records.keys()], [known, lost]);
  assert.equal(spool.records.has(booked ?? ""), false);
});

test("the first generation that a relay hears of is no loss", async () => {
  const { quota, look } = startRestore();
  quota.setGeneration("");
  await look();
  quota.setGeneration("7");
  await look();
  assert.deepEqual(
    quota.operations.filter(({ case: name }) => name === "lookup"),
    [],
  );
});
