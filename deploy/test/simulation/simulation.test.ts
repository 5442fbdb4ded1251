import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { dayMs } from "#shared/process/clock.ts";
import { repository, run } from "../../tools/checks/run.ts";
import { report } from "./totals.ts";
import { runWorkers } from "./workers.ts";

const mainFile = fileURLToPath(import.meta.resolve("./main.ts"));

async function trace(seed: number): Promise<string> {
  const { output, code } = await run(process.execPath, [mainFile, "--seed", String(seed), "--trace"], repository);
  assert.equal(code, 0, output);
  return output;
}

test("a seed is one run: the same again, to the byte", { timeout: 120_000 }, async () => {
  for (const seed of [3, 8]) {
    const [first, second] = await Promise.all([trace(seed), trace(seed)]);
    assert.ok(first.split("\n").length > 50, "something happened");
    assert.equal(second, first);
  }
});

// Each profile comes up some seven times. Every day has other seeds, the first 10,000 in a hundred days; a failure
// names its own. `npm run simulate` runs as many as one likes.
const seeds = 100;
const from = 1 + (Math.floor(Date.now() / dayMs) % 100) * seeds;

test(`money is right in ${seeds} worlds, whatever goes wrong in them`, { timeout: 1_500_000 }, async (context) => {
  const workers = availableParallelism();
  const totals = await runWorkers({ from, count: seeds, stops: false, workers, environment: process.env });
  for (const line of report(totals).split("\n")) context.diagnostic(line);
  assert.deepEqual(totals.failures, []);
  assert.equal(totals.seeds, seeds);
  assert.ok(totals.whole > seeds, "more than one call in a world came to its end");
});
