import assert from "node:assert/strict";
import { test } from "node:test";
import { measureEnds } from "./measure-ends.ts";
import { measurePolls } from "./measure-polls.ts";

const plan = { rounds: 1, say: () => undefined };

test("a short run polls running tasks in each variant, and finds the books right", async () => {
  const pace = { warmupMs: 200, windowMs: 1_000 };
  const size = { tasks: 40, defaultPace: { ...pace, pollMs: 200 }, flatOut: { ...pace, pollMs: 10 } };
  const { windows, variants, figures, complaints } = await measurePolls(plan, size);
  assert.deepEqual(complaints, []);
  assert.deepEqual(
    variants.map(({ variant }) => variant),
    ["a timer per task, every 0.2 s", "video-task, every 0.2 s", "video-task, as fast as it can"],
  );
  assert.ok(windows.every(({ done }) => done > 0));
  assert.ok(figures?.every(({ measured }) => measured.median > 0));
});

test("a short run submits tasks and brings them to both ends, each charged once and the failed ones refunded", async () => {
  const { windows, complaints } = await measureEnds(plan, { tasks: 16, warmup: 4 });
  assert.deepEqual(complaints, []);
  assert.deepEqual(
    windows.map(({ done }) => done),
    [16, 16, 10, 10],
  );
});
