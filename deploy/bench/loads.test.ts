import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { idleLoad, runLoad, smallLoad, startLoad, type Load } from "./loads.ts";
import { startUpstream } from "./targets.ts";

let upstream: Awaited<ReturnType<typeof startUpstream>>;
before(async () => {
  upstream = await startUpstream();
});
after(() => upstream[Symbol.asyncDispose]());

const short: Load = { ...smallLoad, connections: 2, warmupMs: 0, windowMs: 100 };

test("each kind of load is answered whole by the upstream, in each dialect", async () => {
  const loads: Load[] = [
    { ...short, bytes: 1_048_576 },
    { ...short, callsPerSecond: 50 },
    { ...short, kind: "burst", client: "anthropic-messages", upstream: "anthropic-messages" },
    { ...short, kind: "paced", client: "openai-responses", upstream: "openai-responses" },
  ];
  for (const { complaints, allCalls } of await Promise.all(
    loads.map((load) => runLoad(load, upstream, upstream.port)),
  )) {
    assert.deepEqual(complaints, []);
    assert.ok(allCalls.whole > 0);
  }
});

test("held streams stay open until they are released, and then end whole", async () => {
  const loading = await startLoad({ ...idleLoad("held", [3]), isHeld: true }, upstream, upstream.port);
  await loading.opened;
  await loading.release();
  const { open, allCalls } = await loading.report;
  assert.deepEqual([open.map(({ streams }) => streams), allCalls], [[0, 3], { whole: 3, broken: 0 }]);
});
