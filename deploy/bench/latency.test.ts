import assert from "node:assert/strict";
import { getPriority } from "node:os";
import { test } from "node:test";
import { startProcess } from "#shared/testing/child-process.ts";
import { measureLatency } from "./latency.ts";
import { precedence, setPrecedence } from "./precedence.ts";
import type { Target } from "./targets.ts";
import type { World } from "./world.ts";

const startSleep = () => startProcess({ command: "sleep", args: ["60"], orphanSignal: "SIGKILL" });
const quantiles = { p50: 1, p99: 1, p999: 1 };
const report = { calls: 100, windowUs: 1_000_000, callUs: quantiles, firstUs: quantiles };

const mayOrder = setPrecedence([process.pid], "first");
setPrecedence([process.pid], "asUsual");
const ordering = { skip: mayOrder ? false : "only root may put a process first" };

/** A world of two processes; `onRound` is called in each window that counts. */
function worldOf(direct: number, lagging: () => number[], onRound: (isFirst: boolean | undefined) => void): World {
  const target = { name: "relay", pid: direct } as Target;
  const recorder = {
    warm: () => Promise.resolve(),
    add: () => undefined,
    run: async (round: number, { isFirst }: { isFirst?: boolean }) => {
      if (round > 0) onRound(isFirst);
      return report;
    },
  };
  return {
    plan: { say: () => undefined },
    recorder,
    direct: { ...target, name: "direct" },
    targets: [target],
    relay: { lagging, ledger: { openAccounts: () => Promise.resolve(["secret"]) } },
    startFresh: () => Promise.resolve({ ...target, name: "leased", [Symbol.asyncDispose]: () => Promise.resolve() }),
  } as unknown as World;
}

test("a measurement that fails leaves the processes as they were", ordering, async () => {
  const [direct, lagging] = [await startSleep(), await startSleep()];
  try {
    const failing = worldOf(
      direct.pid,
      () => [lagging.pid],
      () => {
        throw new Error("the loader failed");
      },
    );
    await assert.rejects(measureLatency(failing, 1), /the loader failed/);
    assert.deepEqual([getPriority(direct.pid), getPriority(lagging.pid)], [0, 0]);
  } finally {
    await direct.end("SIGKILL");
    await lagging.end("SIGKILL");
  }
});

test("a connection to PostgreSQL that ends while the core is ordered leaves the order as it is", ordering, async () => {
  const [direct, lagging, gone] = [await startSleep(), await startSleep(), await startSleep()];
  await gone.end("SIGKILL");
  const seen: unknown[] = [];
  try {
    const world = worldOf(
      direct.pid,
      () => [gone.pid, lagging.pid],
      (isFirst) => {
        seen.push([isFirst, getPriority(direct.pid), getPriority(lagging.pid)]);
      },
    );
    await measureLatency(world, 1);
    const { first, last, asUsual } = precedence;
    // Directly, through a relay, and through one with leases.
    const windows = (loads: number, seenIn: unknown): unknown[] => Array.from({ length: 3 * loads }, () => seenIn);
    assert.deepEqual(seen, [...windows(6, [true, first, last]), ...windows(1, [false, asUsual, asUsual])]);
    assert.deepEqual([getPriority(direct.pid), getPriority(lagging.pid)], [0, 0]);
  } finally {
    await direct.end("SIGKILL");
    await lagging.end("SIGKILL");
  }
});
