import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createPools } from "#shared/catalog/pools.ts";
import { createLog } from "#shared/process/log.ts";
import { buildApp } from "./app.ts";
import { memorySpool, modelOf, noThreads, scriptedQuota, settlingOf, upstreamOf } from "./testing/fakes.ts";
import { loneConfig as config } from "./testing/lone-config.ts";
import { relayOf } from "./testing/relay-of.ts";

const atOnce = 16;
const answer = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "yes".repeat(300) }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
});

/** A relay whose upstream answers at once, and which remembers nothing of a call that has ended. */
async function startRelay(): Promise<AsyncDisposable & { call: () => Promise<void> }> {
  await using resources = new AsyncDisposableStack();
  const upstream = createServer((asked, response) => {
    asked.resume().on("end", () => response.setHeader("content-type", "application/json").end(answer));
  }).listen(0, "127.0.0.1");
  await once(upstream, "listening");
  resources.defer(() => upstream.close().closeAllConnections());
  const baseUrl = new URL(`http://127.0.0.1:${(upstream.address() as AddressInfo).port}`);
  const route = { upstream: upstreamOf({ baseUrl, maxConcurrent: 1_000 }), model: "m", priority: 0, weight: 0 };
  const models = new Map([["m", modelOf({ routes: [route] })]]);
  const quota = scriptedQuota(({ case: name, value }) => {
    quota.operations.length = 0;
    return name === "reserve" ? { accountId: "acct_1", keyId: "key_1", heldNanos: value.estimateNanos } : {};
  });
  const spool = memorySpool({ append: () => undefined });
  const settling = settlingOf({ quota, spool, log: createLog("test", "silent") });
  const pools = resources.use(createPools());
  const app = buildApp(config, relayOf({ models, settling, pools, threads: noThreads }, { loggedShare: 0 }));
  await app.listen({ host: "127.0.0.1", port: 0 });
  resources.defer(() => app.close());
  const { port } = app.server.address() as AddressInfo;
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
  resources.defer(() => agent.destroy());
  const headers = { authorization: "Bearer sk-1", "content-type": "application/json" };
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "x".repeat(1_000) }] });
  const call = async (): Promise<void> => {
    const asked = request({ port, agent, method: "POST", path: "/v1/chat/completions", headers }).end(body);
    const [response] = await once(asked, "response");
    assert.deepEqual([response.statusCode, await text(response)], [200, answer]);
  };
  const owned = resources.move();
  return { call, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

// What is young and is led to by garbage that has become old is kept until the next full collection, and becomes old
// itself: pauses of the young collections grow tenfold, without a leak that any other test would see.
test("a call that has ended is garbage of the young: nothing that is old leads to it", async () => {
  setFlagsFromString("--expose-gc");
  setFlagsFromString("--no-allocation-site-pretenuring");
  const collect = runInNewContext("gc") as (options?: { type: "minor" }) => void;
  await using relay = await startRelay();
  const pass = async (calls: number): Promise<void> => {
    const lane = async (): Promise<void> => {
      for (let number = 0; number < calls / atOnce; number += 1) await relay.call();
    };
    await Promise.all(Array.from({ length: atOnce }, lane));
  };
  await pass(1_000);
  const running = pass(200);
  await relay.call();
  // All that is under way becomes old.
  collect();
  collect();
  await running;
  const before = process.memoryUsage().heapUsed;
  await pass(2_000);
  collect({ type: "minor" });
  collect({ type: "minor" });
  const keptBytes = (process.memoryUsage().heapUsed - before) / 2_000;
  // Some 1,000 of 50,000; 9,000 where calls that have ended are members of a Set.
  assert.ok(keptBytes < 4_000, `${keptBytes.toFixed()} bytes of each call are still there`);
});
