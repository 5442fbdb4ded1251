import assert from "node:assert/strict";
import { after, test, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { faultPoints } from "./fault-points.ts";
import type { LinkName } from "./links.ts";
import { flushRedis, loseRedis } from "./lost-stores.ts";
import { type Round, startScene } from "./scenario.ts";
import { strikeAt } from "./process-faults.ts";

// A short form of what `npm run test:chaos` does at length; SEED repeats a run.
const seed = Number(process.env["SEED"] ?? Math.floor(Math.random() * 1_000_000));
const said: string[] = [];
const scenario = await startScene({
  seed,
  callers: 8,
  say: (text) => void said.push(text),
  // Long enough for one relay to tell again what was lost.
  authQuota: { REBUILD_MS: "3000" },
});
after(() => scenario[Symbol.asyncDispose]());

/** Does harm within a round and checks what is left of it. */
async function judge(t: TestContext, harm: (round: Round) => Promise<void>): Promise<void> {
  const { report, ends } = await scenario.round(harm);
  for (const text of [`SEED=${seed}`, ...said.splice(0), ends]) t.diagnostic(text);
  assert.deepEqual(report.problems, []);
}

test("a process dies at the fault point that is armed, links break and freeze: the books are right", async (t) => {
  const points = ["relay: record in the spool", "auth-quota: decided in Redis", "billing: batch committed"];
  const links: LinkName[] = ["callers to relay", "relay to auth-quota", "auth-quota to Redis", "billing to NATS"];
  await judge(t, async (round) => {
    for (const name of points) {
      const point = faultPoints.find((one) => one.name.startsWith(name));
      assert.ok(point, name);
      await strikeAt(scenario, round, point);
    }
    for (const name of links) {
      const proxy = scenario.links.proxies[name];
      assert.ok(proxy.opened() > 0, `nobody goes by the link ${name}`);
      proxy.cut();
      await pause(300);
      proxy.heal();
      await round.more(10);
      proxy.freeze();
      await pause(1_000);
      proxy.heal();
      await round.more(10);
    }
  });
});

test("Redis is emptied, then killed and its data deleted: 503 for a while, nothing lost, nothing double", async (t) => {
  await judge(t, async (round) => {
    await flushRedis(scenario, round);
    await loseRedis(scenario, round);
  });
});
