import assert from "node:assert/strict";
import { test } from "node:test";
import { commonLoads } from "./loads.ts";
import type { Recorder } from "./recorder.ts";
import { runRounds, type Turn } from "./rounds.ts";
import type { World } from "./world.ts";

test("what is measured has met every load of the rounds before, in their order, and on every target alike", async () => {
  const seen: string[] = [];
  const recorder: Partial<Recorder> = {
    warm: (load, target) => Promise.resolve(void seen.push(`warm ${load.name} ${target.name}`)),
    run: (round, load, target) => {
      seen.push(`${round} ${load.name} ${target.name} ${load.windowMs}`);
      return Promise.resolve({} as Awaited<ReturnType<Recorder["run"]>>);
    },
  };
  const targets = (["bare", "relay"] as const).map((name) => ({
    name,
    port: 0,
    pid: 1,
    headers: {},
    isVerbatim: true,
  }));
  const loads = commonLoads.slice(0, 2).map((load, at) => ({ ...load, name: `load ${at}`, windowMs: 7 }));
  const turns: Turn[] = loads.flatMap((load) => targets.map((target) => ({ load, target })));
  const world = { recorder, plan: { say: () => undefined } } as unknown as World;
  await runRounds(world, "title", turns, { rounds: 2, roundsBefore: 5 });
  const each = (round: string, windowMs = "") =>
    turns.map(({ load, target }) => `${round} ${load.name} ${target.name}${windowMs}`);
  assert.deepEqual(seen, [...each("warm"), ...each("0", " 2000"), ...each("6", " 7"), ...each("7", " 7")]);
});
