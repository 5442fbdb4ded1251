import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "#shared/testing/until.ts";
import { startApplying } from "./apply-catalogs.ts";
import {
  assertBooksRight,
  assertOnlyUnavailable,
  killInMidLoad,
  readKillPlan,
  startKillLoad,
  startKillWorld,
} from "./kills.ts";

const name =
  "kill -9 of auth-quota in mid-load: 503 with Retry-After, never 401 or 403; no call and no catalog lost or double";
test(name, async (t) => {
  const plan = readKillPlan(t);
  await using scenario = await startKillWorld();
  const { authQuota, relay } = scenario.world.stack.services;
  const applier = startApplying(scenario.world);
  await using load = startKillLoad(scenario, plan);
  for (let kill = 1; kill <= plan.kills; kill += 1) {
    const ended = await killInMidLoad(t, authQuota, { ...plan, load });
    // Every other time it stays away until callers have been told so.
    const isTold = (): boolean =>
      load.calls.slice(ended).some(({ plan: { isSound }, status }) => isSound && status === 503);
    if (kill % 2 === 1) await until("a sound call is refused with 503", isTold);
    await authQuota.restart();
  }
  await load.more(30);
  await load.stop();
  await applier.stop();
  assertOnlyUnavailable(load.calls);
  const report = await assertBooksRight(t, scenario, { calls: load.calls, relays: [relay] });
  assert.ok(report.served > 0);
});
