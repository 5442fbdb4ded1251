import assert from "node:assert/strict";
import { Agent } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import type { Service } from "../../tools/local/service.ts";
import { type DearStream, planDearStream } from "./call-mix.ts";
import { type CallLog, callRelay } from "./caller.ts";
import { assertBooksRight, readMetric, startKillWorld } from "./kills.ts";
import { startSecondRelay } from "./second-relay.ts";

const dialects = ["chat", "messages", "chat", "messages"] as const;
const stallAfter = 40;

// The guard writes a checkpoint at every 0.01 USD; 40 words are 0.03 USD by the relay's own estimate.
const floorNanos = 20_000_000n;

test("a relay that never comes back is charged its checkpoints; a late final record raises them", async (t) => {
  // Above the five seconds between two heartbeats of a relay that has nothing to say.
  await using scenario = await startKillWorld({ "auth-quota": { RELAY_SILENT_MS: "7000" } });
  const { world, customers } = scenario;
  const [customer] = customers;
  assert.ok(customer);
  const folder = await mkdtemp(join(tmpdir(), "relay-spools-"));
  removeAtEnd(folder);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const relays = await Promise.all(["lost", "tardy"].map((name) => startSecondRelay(world, join(folder, name))));
  const [lost, tardy] = relays.map((relay) => stack.use(relay));
  assert.ok(lost && tardy);
  const agent = new Agent();
  // Words that have arrived, of each call in turn.
  const arrived: number[] = [];
  const call = (url: string, dear: DearStream): Promise<CallLog> => {
    const place = arrived.push(0) - 1;
    const onWords = (words: number): void => void (arrived[place] = words);
    return callRelay(planDearStream(customer, dear), { url, agent, onWords });
  };
  const haveArrived = (words: number): boolean => arrived.every((count) => count >= words);
  const haveStalled = (): boolean => arrived.slice(0, dialects.length).every((count) => count === stallAfter);
  const hasToldAll = async ({ opsUrl }: Service): Promise<boolean> =>
    (await readMetric(opsUrl, "relay_quota_queued")) === 0;

  const lostCalls = dialects.map((dialect) =>
    call(lost.url, { dialect, words: 60, gapMs: 5, fault: { kind: "stall", afterChunks: stallAfter } }),
  );
  const tardyCalls = dialects.map((dialect) => call(tardy.url, { dialect, words: 60, gapMs: 90 }));
  await until("each is worth checkpoints, and half of them stall", () => haveArrived(25) && haveStalled());
  await until("the checkpoints are written", async () => (await hasToldAll(lost)) && (await hasToldAll(tardy)));
  await lost.kill();
  const { authQuota, relay } = world.stack.services;
  const { nats } = world.stack.stores.processes;
  assert.ok(nats);
  // From here on only the spool of the tardy relay can know how its calls end.
  await Promise.all([authQuota.kill(), nats.kill()]);
  const calls = await Promise.all([...lostCalls, ...tardyCalls]);
  assert.deepEqual(
    calls.map(({ outcome }) => outcome),
    [...lostCalls.map(() => "cut"), ...tardyCalls.map(() => "whole")],
  );
  await tardy.kill();
  await Promise.all([authQuota.restart(), nats.restart()]);

  const kindsOf = async (some: readonly CallLog[]): Promise<LineKind[][]> => {
    const lines = await world.ledgerOf(customer.accountId);
    return some.map(({ rid }) => lines.filter((line) => line.rid === rid).map(({ kind }) => kind));
  };
  const isProvisional = (kinds: LineKind[]): boolean => kinds.join() === `${LineKind.PROVISIONAL_CHARGE}`;
  await until("all are charged at their checkpoints", async () => (await kindsOf(calls)).every(isProvisional), 30_000);

  await tardy.restart();
  const [lostLogs, tardyLogs] = [calls.slice(0, lostCalls.length), calls.slice(lostCalls.length)];
  const floors = new Map(lostLogs.map(({ rid }) => [rid ?? "", floorNanos]));
  await assertBooksRight(t, scenario, { calls, relays: [relay, tardy], floors });
  assert.ok((await kindsOf(lostLogs)).every(isProvisional), "the lost relay's calls stay at their checkpoints");
  for (const kinds of await kindsOf(tardyLogs)) {
    assert.deepEqual(kinds, [LineKind.PROVISIONAL_CHARGE, LineKind.FINAL_ADJUSTMENT]);
  }
});
