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

test("kill -9 of redis-server, nats-server and postgres in mid-load: the system recovers without a person", async (t) => {
  const plan = readKillPlan(t);
  await using scene = await startKillWorld();
  const { relay } = scene.world.stack.services;
  const { processes } = scene.world.stack.stores;
  const load = startKillLoad(scene, plan);
  for (let kill = 1; kill <= plan.kills; kill += 1) {
    // Each in turn, so that three kills are one of each.
    const name = (["nats", "postgres", "redis"] as const)[(kill - 1) % 3] ?? "redis";
    const store = processes[name];
    assert.ok(store, `${name} is a process of this stack`);
    const endedBefore = await killInMidLoad(t, store, { ...plan, load });
    // Long enough for calls to begin and end without it.
    await load.more(20);
    await store.restart();
    await load.more(20);
    if (name === "redis") assertOnlyUnavailable(load.calls.slice(endedBefore));
    else assert.deepEqual(soundButBroken(load.calls.slice(endedBefore)), [], `callers notice nothing without ${name}`);
  }
  await load.stop();
  assertOnlyUnavailable(load.calls);
  const report = await assertBooksRight(t, scene, { calls: load.calls, relays: [relay] });
  assert.ok(report.served > 0);
});
