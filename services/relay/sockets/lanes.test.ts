import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { test } from "node:test";
import type { CreateEvent } from "./client-event.ts";
import { Lanes } from "./lanes.ts";

const turnOf = (streamId: string | undefined, name: string) => ({
  event: { streamId, previousId: name } as CreateEvent,
  bytes: 1,
});

function start(limits?: { maxRunning: number; maxWaiting: number }) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  let idles = 0;
  const take = async ({ event }: { event: CreateEvent | undefined }): Promise<void> => {
    const name = event?.previousId ?? "";
    begun.push(name);
    await new Promise<void>((resolve) => ends.set(name, resolve));
  };
  const lanes = new Lanes(take, () => (idles += 1), limits);
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.();
    await setImmediate();
  };
  return { lanes, begun, end, idles: () => idles };
}

test("turns of one stream run in their order, those of others beside them; no stream is one of its own", async () => {
  const { lanes, begun, end, idles } = start();
  for (const [stream, name] of [
    ["a", "a1"],
    ["a", "a2"],
    ["b", "b1"],
    [undefined, "n1"],
    [undefined, "n2"],
  ] as const) {
    assert.ok(lanes.add(turnOf(stream, name)));
  }
  assert.deepEqual([begun, lanes.running], [["a1", "b1", "n1"], 3]);
  await end("a1");
  assert.deepEqual(begun, ["a1", "b1", "n1", "a2"]);
  for (const name of ["b1", "n1", "a2"]) await end(name);
  assert.deepEqual([begun.at(-1), lanes.running, idles()], ["n2", 1, 0]);
  await end("n2");
  assert.deepEqual([lanes.running, idles()], [0, 1]);
});

test("so many run, and so many wait; a place is free again when its turn is over", async () => {
  const { lanes, end } = start({ maxRunning: 1, maxWaiting: 1 });
  assert.ok(lanes.add(turnOf("a", "1")));
  assert.ok(!lanes.add(turnOf("b", "2")), "a second stream");
  assert.ok(lanes.add(turnOf("a", "3")));
  assert.ok(!lanes.add(turnOf("a", "4")), "a second that waits");
  await end("1");
  assert.ok(lanes.add(turnOf("a", "5")));
});
