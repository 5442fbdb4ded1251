import assert from "node:assert/strict";
import { test } from "node:test";
import { createStanding } from "./readiness.ts";

function standing() {
  const now = { isDraining: false, isConnected: false, aheadMs: 0, spool: undefined as string | undefined };
  const catalog = { problem: undefined as string | undefined };
  const { problems, notReady } = createStanding({
    isDraining: () => now.isDraining,
    isQuotaConnected: () => now.isConnected,
    clockAheadMs: () => now.aheadMs,
    spoolProblem: () => now.spool,
    catalogProblem: () => catalog.problem,
  });
  return { now, catalog, problems, notReady };
}

test("a relay is not ready before it has found auth-quota, and stays ready when auth-quota goes", () => {
  const { now, problems, notReady } = standing();
  assert.deepEqual(notReady(), ["auth-quota is not connected"]);
  now.isConnected = true;
  assert.deepEqual(notReady(), []);
  now.isConnected = false;
  // Callers are told 503 with Retry-After by relays that are there, not by a balancer that has none left.
  assert.deepEqual(notReady(), []);
  assert.deepEqual(problems(), ["auth-quota is not connected"]);
});

test("a relay that stops or whose spool is full is not ready", () => {
  const { now, problems, notReady } = standing();
  now.isConnected = true;
  Object.assign(now, { isDraining: true, spool: "the spool is full" });
  assert.deepEqual(notReady(), ["draining", "the spool is full"]);
  assert.deepEqual(problems(), notReady());
});

test("a relay whose clock is more than five minutes off is not ready until it is right again", () => {
  const { now, notReady } = standing();
  Object.assign(now, { isConnected: true, aheadMs: 300_000 });
  assert.deepEqual(notReady(), []);
  now.aheadMs = 3_600_400;
  assert.deepEqual(notReady(), ["the clock is 3600 s ahead of Redis'"]);
  now.aheadMs = -300_500;
  assert.deepEqual(notReady(), ["the clock is 301 s behind Redis'"]);
  now.aheadMs = 0;
  assert.deepEqual(notReady(), []);
});

test("a relay that serves with a catalog of before is ready, and says so", () => {
  const { now, catalog, problems, notReady } = standing();
  now.isConnected = true;
  catalog.problem = "the catalog file is refused";
  assert.deepEqual([problems(), notReady()], [["the catalog file is refused"], []]);
});
