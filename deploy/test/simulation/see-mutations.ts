import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { suite, test } from "node:test";
import type { Mutation } from "./mutations.ts";
import { runWorkers } from "./workers.ts";

const preload = fileURLToPath(import.meta.resolve("#shared/testing/patch-source.ts"));

// Of the worlds in which `npm run simulate -- --seeds 2000` finds nothing with the rules as they are.
const maxSeeds = 2_000;

/** Runs worlds in one process until the mutation is seen, so that it is always the same one that shows it. */
async function findSeed({ patches, profile, from = 1 }: Mutation): Promise<string> {
  const environment = { ...process.env, SOURCE_PATCHES: JSON.stringify(patches) };
  const range = { from, count: maxSeeds, profile, stops: true };
  const { failures, seeds } = await runWorkers({ ...range, workers: 1, environment, preload });
  const [first] = failures;
  assert.ok(first, `nothing was found in ${seeds} worlds`);
  return `seed ${first.seed}, world ${seeds}: ${first.violation}`;
}

/** Has each of them seen, in a test of its own. */
export function seeMutations(mutations: readonly Mutation[]): void {
  void suite("a broken rule is seen", { concurrency: availableParallelism() }, () => {
    for (const mutation of mutations) {
      test(mutation.name, { timeout: 600_000 }, async (context) => {
        context.diagnostic(await findSeed(mutation));
      });
    }
  });
}
