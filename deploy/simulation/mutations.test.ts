import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { mutations } from "./mutations.ts";
import { runWorkers } from "./workers.ts";

const preload = fileURLToPath(import.meta.resolve("#shared/testing/patch-source.ts"));

// Enough for the rarest of them, most are seen within the first twenty.
const mostSeeds = 400;
const workers = availableParallelism();

test("the rules as they are: nothing is found over the same seeds", { timeout: 300_000 }, async () => {
  const totals = await runWorkers({ from: 1, count: mostSeeds, workers, environment: process.env });
  assert.deepEqual(totals.failures, []);
});

for (const { name, patches } of mutations) {
  test(`is seen: ${name}`, { timeout: 300_000 }, async (context) => {
    const environment = { ...process.env, SOURCE_PATCHES: JSON.stringify(patches), STOP_AT_FAILURE: "1" };
    const totals = await runWorkers({ from: 1, count: mostSeeds, workers, environment, preload });
    assert.notEqual(totals.failures.length, 0, `nothing was found in ${totals.seeds} seeds`);
    const [first] = totals.failures.toSorted((a, b) => a.seed - b.seed);
    context.diagnostic(`seed ${first?.seed} of ${totals.seeds} run: ${first?.violation}`);
  });
}
