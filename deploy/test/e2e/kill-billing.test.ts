import assert from "node:assert/strict";
import { test } from "node:test";
import {
  assertBooksRight,
  killInMidLoad,
  readKillPlan,
  soundButBroken,
  startKillLoad,
  startKillWorld,
} from "./kills.ts";

test("kill -9 of billing in mid-load: callers notice nothing, and every charge is booked once", async (t) => {
  const plan = readKillPlan(t);
  // Without a second look at unconfirmed charges in the time of this test: what the stream delivers must be enough.
  await using scenario = await startKillWorld({ billing: { OUTBOX_AGE_MS: "600000" } });
  const { billing, relay } = scenario.world.stack.services;
  const { postgres } = scenario.world.stack.stores.processes;
  assert.ok(postgres);
  await using load = startKillLoad(scenario, plan);
  for (let kill = 1; kill <= plan.kills; kill += 1) {
    await killInMidLoad(t, billing, { ...plan, load });
    await billing.restart();
  }
  // A batch that it has in hand and cannot commit comes again, because it was not acknowledged.
  await postgres.kill();
  await load.more(30);
  await billing.kill();
  await postgres.restart();
  await billing.restart();
  await load.more(30);
  await load.stop();
  const report = await assertBooksRight(t, scenario, { calls: load.calls, relays: [relay] });
  assert.ok(report.served > 0);
  assert.deepEqual(soundButBroken(load.calls), []);
});
