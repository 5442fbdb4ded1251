import assert from "node:assert/strict";
import { Agent } from "node:http";
import { test } from "node:test";
import { until } from "#shared/testing/until.ts";
import { planDearStream } from "./call-mix.ts";
import { type CallLog, callRelay } from "./caller.ts";
import { readCheckpoints } from "./checkpoints.ts";
import {
  assertBooksRight,
  killInMidLoad,
  type KillWorld,
  readKillPlan,
  startKillLoad,
  startKillWorld,
} from "./kills.ts";

test("kill -9 of the relay in mid-load: its spool charges what was served, and its holds end at once", async (t) => {
  const plan = readKillPlan(t);
  // Holds that only the silence of a relay would end stay open for longer than this test waits.
  await using scenario = await startKillWorld({ "auth-quota": { RELAY_SILENT_MS: "120000" } });
  const { services, stores } = scenario.world.stack;
  const first = await killInFirstCall(scenario);
  await using load = startKillLoad(scenario, plan);
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
  const report = await assertBooksRight(t, scenario, {
    calls: [first, ...load.calls],
    relays: [services.relay],
    floors,
  });
  assert.ok(report.served > 0 && report.broken > 0);
});

/** Kills the relay while its very first call is open and nothing is in its spool; the hold must end all the same. */
async function killInFirstCall({ world, customers: [customer] }: KillWorld): Promise<CallLog> {
  assert.ok(customer);
  const { relay } = world.stack.services;
  let seen = 0;
  const plan = planDearStream(customer, { dialect: "chat", words: 9, fault: { kind: "stall", afterChunks: 3 } });
  const options = { url: world.relayUrl, agent: new Agent(), onWords: (words: number) => void (seen = words) };
  const call = callRelay(plan, options);
  await until("the first call is open", () => seen === 3);
  await relay.kill();
  await relay.restart();
  await until("its hold is ended", async () => (await world.holdsOf(customer.accountId)).openHolds === 0n);
  return call;
}
