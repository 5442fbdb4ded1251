import assert from "node:assert/strict";
import { test } from "node:test";
import {
  assertBooksRight,
  assertOnlyUnavailable,
  killInMidLoad,
  readKillPlan,
  soundButBroken,
  startKillLoad,
  startKillWorld,
} from "./kills.ts";

test("kill -9 of redis-server, nats-server and postgres in mid-load: all recovers without a person", async (t) => {
  const plan = readKillPlan(t);
  await using scenario = await startKillWorld();
  const { authQuota, billing, relay } = scenario.world.stack.services;
  const { processes } = scenario.world.stack.stores;
  await using load = startKillLoad(scenario, plan);
  for (let kill = 1; kill <= plan.kills; kill += 1) {
    // Each in turn, so that three kills are one of each.
    const name = (["nats", "postgres", "redis"] as const)[(kill - 1) % 3] ?? "redis";
    const store = processes[name];
    assert.ok(store, `${name} is a process of this stack`);
    const healthyAtMs = Date.now();
    await killInMidLoad(t, store, { ...plan, load });
    // Long enough for calls to begin and end without it.
    await load.more(20);
    await store.restart();
    await load.more(20);
    const calls = load.calls.filter(({ startedAtMs }) => startedAtMs >= healthyAtMs);
    if (name !== "redis") assert.deepEqual(soundButBroken(calls), [], `callers notice nothing without ${name}`);
    for (const service of [authQuota, billing, relay]) await service.ready();
  }
  await load.stop();
  assertOnlyUnavailable(load.calls);
  const lost = scenario.world.linesOf("auth-quota").filter((line) => line.includes(`"isLocked":true`));
  assert.deepEqual(lost, [], "a kill takes nothing from Redis that it has acknowledged");
  const report = await assertBooksRight(t, scenario, { calls: load.calls, relays: [relay] });
  assert.ok(report.served > 0);
});
