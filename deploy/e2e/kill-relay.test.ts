import assert from "node:assert/strict";
import { Agent } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { type CallLog, type CallPlan, callRelay, wordsOf } from "./caller.ts";
import { readCheckpoints } from "./checkpoints.ts";
import {
  assertBooksRight,
  killInMidLoad,
  type KillWorld,
  readKillPlan,
  readMetric,
  startKillLoad,
  startKillWorld,
} from "./kills.ts";
import { startSecondRelay } from "./second-relay.ts";

test("kill -9 of the relay in mid-load: started again on its spool, it charges what was served and ends its holds at once", async (t) => {
  const plan = readKillPlan(t);
  // Holds that only the silence of a relay would end stay open for longer than this test waits.
  await using scene = await startKillWorld({ "auth-quota": { RELAY_SILENT_MS: "120000" } });
  const { services, stores } = scene.world.stack;
  const first = await killInFirstCall(scene);
  const load = startKillLoad(scene, plan);
  const floors = new Map<string, bigint>();
  for (let kill = 1; kill <= plan.kills; kill += 1) {
    await killInMidLoad(t, services.relay, { ...plan, load });
    for (const [rid, nanos] of await readCheckpoints(stores.urls.redis)) floors.set(rid, nanos);
    await services.relay.restart();
  }
  await load.more(30);
  await load.stop();
  t.diagnostic(
    `${[...floors.values()].filter((nanos) => nanos > 0n).length} calls had a checkpoint when they were killed`,
  );
  const report = await assertBooksRight(t, scene, { calls: [first, ...load.calls], relays: [services.relay], floors });
  assert.ok(report.served > 0 && report.broken > 0);
});

/** Kills the relay while its very first call is open and nothing is in its spool; the hold must end all the same. */
async function killInFirstCall({ world, customers: [customer] }: KillWorld): Promise<CallLog> {
  assert.ok(customer);
  const { relay } = world.stack.services;
  let seen = 0;
  const plan = dearStream(customer, { dialect: "chat", words: 9, fault: { kind: "stall", afterChunks: 3 } });
  const options = { url: world.relayUrl, agent: new Agent(), onWords: (words: number) => void (seen = words) };
  const call = callRelay(plan, options);
  await until("the first call is open", () => seen === 3);
  await relay.kill();
  await relay.restart();
  await until("its hold is ended", async () => (await world.holdsOf(customer.accountId)).openHolds === 0n);
  return call;
}

/** A stream of 0.001 USD a word. */
function dearStream(
  customer: Pick<CallPlan, "accountId" | "secret">,
  { dialect, words, ...behaviour }: Dear,
): CallPlan {
  const usage = { inputTokens: 1_000, outputTokens: words };
  return {
    number: 0,
    ...customer,
    dialect,
    isStream: true,
    model: "dear-model",
    maxTokens: 200,
    behaviour: { text: wordsOf(words), usage, ...behaviour },
    isSound: true,
  };
}

type Dear = { dialect: CallPlan["dialect"]; words: number } & Pick<CallPlan["behaviour"], "gapMs" | "fault">;
const dialects = ["chat", "messages", "chat", "messages"] as const;
const stallAfter = 40;

// The guard writes a checkpoint at every 0.01 USD; 40 words are 0.03 USD by the relay's own estimate.
const floorNanos = 20_000_000n;

test("a relay that never comes back is charged at its checkpoints; what comes back late raises them to the final charge", async (t) => {
  // Above the five seconds between two heartbeats of a relay that has nothing to say.
  await using scene = await startKillWorld({ "auth-quota": { RELAY_SILENT_MS: "7000" } });
  const { world, customers } = scene;
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
  let wordsOfAll = 0;
  const call = (url: string, dear: Dear): Promise<CallLog> => {
    let seen = 0;
    const onWords = (words: number): void => {
      wordsOfAll += words - seen;
      seen = words;
    };
    return callRelay(dearStream(customer, dear), { url, agent, onWords });
  };
  const hasToldAll = async (opsUrl: string): Promise<boolean> => (await readMetric(opsUrl, "relay_quota_queued")) === 0;

  const lostCalls = dialects.map((dialect) =>
    call(lost.url, { dialect, words: 60, gapMs: 5, fault: { kind: "stall", afterChunks: stallAfter } }),
  );
  await until("the callers have all but the rest", () => wordsOfAll === stallAfter * dialects.length);
  await until("its checkpoints are written", () => hasToldAll(lost.opsUrl));
  await lost.kill();

  const tardyCalls = dialects.map((dialect) => call(tardy.url, { dialect, words: 60, gapMs: 60 }));
  await until("each has a checkpoint", () => wordsOfAll >= (stallAfter + 25) * dialects.length);
  await until("its checkpoints are written", () => hasToldAll(tardy.opsUrl));
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
  await assertBooksRight(t, scene, { calls, relays: [relay, tardy], floors });
  assert.ok((await kindsOf(lostLogs)).every(isProvisional), "the lost relay's calls stay at their checkpoints");
  for (const kinds of await kindsOf(tardyLogs)) {
    assert.deepEqual(kinds, [LineKind.PROVISIONAL_CHARGE, LineKind.FINAL_ADJUSTMENT]);
  }
});
