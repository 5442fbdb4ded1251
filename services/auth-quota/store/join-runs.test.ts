import assert from "node:assert/strict";
import { test } from "node:test";
import type { HotAnswer, HotOperation, HotRun } from "./hot.ts";
import { joinRuns } from "./join-runs.ts";

const operationsOf = (name: string, count = 1): HotOperation[] =>
  Array.from({ length: count }, (_, at) => [name, `${at}`]);

/** Runs that the test ends; each answers an operation with its place among all. */
function scripted() {
  const runs: { relay: string; names: string[]; end: (error?: Error) => Promise<void> }[] = [];
  let answered = 0;
  const apply = joinRuns<HotOperation, HotAnswer>((relay, operations) => {
    const { promise, resolve, reject } = Promise.withResolvers<HotRun>();
    const end = async (error?: Error): Promise<void> => {
      const answer = (): HotAnswer => ({ code: 1, number: (answered += 1), text: "" });
      if (error) reject(error);
      else resolve({ answers: operations.map(answer), recalledLeases: ["lease"] });
      await promise.catch(() => undefined);
      // What waits for it goes on before the test does.
      await new Promise((done) => setImmediate(done));
    };
    runs.push({ relay, names: operations.map(([name]) => name), end });
    return promise;
  });
  return { runs, apply };
}

const numbersOf = async (run: Promise<HotRun>): Promise<number[]> => (await run).answers.map(({ number }) => number);

test("what comes for a relay while a run is under way goes together behind it, and each gets its own answers", async () => {
  const { runs, apply } = scripted();
  const first = apply("a", operationsOf("one", 2));
  const later = [apply("a", operationsOf("two", 3)), apply("a", []), apply("a", operationsOf("three"))];
  assert.deepEqual(
    runs.map(({ names }) => names.length),
    [2],
  );
  await runs[0]?.end();
  assert.deepEqual(runs[1]?.names, ["two", "two", "two", "three"]);
  await runs[1]?.end();
  assert.deepEqual(await numbersOf(first), [1, 2]);
  assert.deepEqual(await Promise.all(later.map(numbersOf)), [[3, 4, 5], [], [6]]);
  assert.deepEqual(await Promise.all(later.map(async (run) => (await run).recalledLeases)), [
    ["lease"],
    ["lease"],
    ["lease"],
  ]);
});

test("other relays, and what is no relay's, wait for nobody", () => {
  const { runs, apply } = scripted();
  void apply("a", operationsOf("one"));
  void apply("b", operationsOf("two"));
  void apply("", operationsOf("three"));
  void apply("", operationsOf("four"));
  assert.deepEqual(
    runs.map(({ relay }) => relay),
    ["a", "b", "", ""],
  );
});

test("a run takes no more than 512 operations, and a larger batch alone", async () => {
  const { runs, apply } = scripted();
  for (const count of [1, 300, 212, 1, 600, 2]) void apply("a", operationsOf("x", count));
  for (let at = 0; at < 4; at += 1) await runs[at]?.end();
  assert.deepEqual(
    runs.map(({ names }) => names.length),
    [1, 512, 1, 600, 2],
  );
});

test("a run that fails fails what is in it, and what comes later is run", async () => {
  const { runs, apply } = scripted();
  const first = apply("a", operationsOf("one"));
  const [second, third] = [apply("a", operationsOf("two")), apply("a", operationsOf("three"))];
  await Promise.all([assert.rejects(first, /lost/), runs[0]?.end(new Error("lost"))]);
  await Promise.all([
    assert.rejects(second, /again/),
    assert.rejects(third, /again/),
    runs[1]?.end(new Error("again")),
  ]);
  const last = apply("a", operationsOf("four"));
  await runs[2]?.end();
  assert.deepEqual(await numbersOf(last), [1]);
});
