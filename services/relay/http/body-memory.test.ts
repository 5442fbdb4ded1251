import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { createPools } from "#shared/catalog/pools.ts";
import { createBodyBudget } from "./body-budget.ts";
import { releaseBuffer, largeBodyBytes } from "./body-memory.ts";
import { dialects } from "../dialects/index.ts";
import { createPreparation } from "../conversion/prepare.ts";
import { envelopeOf, modelOf, upstreamOf } from "../testing/fakes.ts";
import { askOver, serve, upstreamAt, wholeOf } from "../testing/sending.ts";

// More than the system takes for a socket whose other side reads nothing.
const manyBytes = 32 * 1024 * 1024;

test("a large body arrives byte for byte, with its length, as often as it is sent", async () => {
  const seen: { body: Buffer; headers: IncomingMessage["headers"] }[] = [];
  await using server = await serve((request, response) => {
    void buffer(request).then((body) => {
      seen.push({ body, headers: request.headers });
      response.end("fine");
    });
  });
  await using pools = createPools();
  for (const length of [largeBodyBytes - 1, largeBodyBytes, 3_000_001]) {
    seen.length = 0;
    const body = randomBytes(length);
    const copy = Buffer.from(body);
    for (let time = 0; time < 2; time += 1) {
      assert.equal(await wholeOf(askOver(pools, upstreamAt(server.port), { body })), "fine");
    }
    for (const one of seen) {
      assert.ok(one.body.equals(copy), `${length} bytes`);
      assert.equal(one.headers["content-length"], `${length}`);
      assert.equal(one.headers["transfer-encoding"], undefined);
    }
    assert.equal(seen.length, 2);
  }
});

test("memory is given back once all of it was written, and not while a socket still writes it", async () => {
  const asked = Promise.withResolvers<{ request: IncomingMessage; response: ServerResponse }>();
  await using server = await serve((request, response) => asked.resolve({ request, response }));
  await using pools = createPools();
  const body = randomBytes(manyBytes);
  const copy = Buffer.from(body);
  const sending = askOver(pools, upstreamAt(server.port), { body });
  const { request, response } = await asked.promise;
  releaseBuffer(body);
  assert.equal(body.length, manyBytes, "the upstream has not read it");
  assert.ok((await buffer(request)).equals(copy));
  response.end("fine");
  assert.equal(await wholeOf(sending), "fine");
  releaseBuffer(body);
  assert.equal(body.length, 0);
});

test("what a socket was writing when its call was aborted is left alone", async () => {
  const asked = Promise.withResolvers<IncomingMessage>();
  await using server = await serve((request) => asked.resolve(request));
  await using pools = createPools();
  const body = randomBytes(manyBytes);
  const sending = askOver(pools, upstreamAt(server.port), { body });
  await asked.promise;
  sending.abort();
  releaseBuffer(body);
  assert.equal(body.length, manyBytes);
  await assert.rejects(sending.answer);
});

test("an answer that comes before the end of the body is told whole", async () => {
  await using server = await serve((_, response) => void response.writeHead(413).end("too much"));
  await using pools = createPools();
  const body = randomBytes(manyBytes);
  const sending = askOver(pools, upstreamAt(server.port), { body });
  assert.equal(await wholeOf(sending), "too much");
  assert.equal(sending.overs(), 1);
});

test("a body that shares its memory, and a small one, stay as they are", () => {
  const shared = Buffer.alloc(2 * largeBodyBytes, "a").subarray(1);
  const small = Buffer.from(new ArrayBuffer(largeBodyBytes - 1));
  for (const body of [shared, small]) {
    const { length } = body;
    releaseBuffer(body);
    assert.equal(body.length, length);
  }
});

test("a call that is over gives back what came and what was made of it for its upstream", () => {
  const envelope = envelopeOf({ messages: [{ role: "user", content: "a".repeat(largeBodyBytes) }] });
  const preparation = createPreparation({
    envelope,
    dialect: dialects["openai-chat"],
    model: modelOf(),
    inputTokens: 0,
    share: () => createBodyBudget(0).share(new Writable(), { address: "192.0.2.1", accountId: "acct_1" }),
  });
  const prepared = preparation.for({ upstream: upstreamOf(), model: "its own name", priority: 0, weight: 0 });
  assert.ok(prepared.body.length > largeBodyBytes);
  preparation.forget();
  assert.deepEqual([envelope.body.bytes.length, prepared.body.length], [0, 0]);
});

test("a socket that takes a large body in one write is full: one with more room would not tell when it was written", async () => {
  await using server = await serve((request, response) => void request.resume().on("end", () => response.end("fine")));
  await using pools = createPools();
  const room: number[] = [];
  const note = (message: unknown): void => {
    room.push((message as { socket: Socket }).socket.writableHighWaterMark);
  };
  subscribe("undici:client:connected", note);
  try {
    assert.equal(await wholeOf(askOver(pools, upstreamAt(server.port))), "fine");
  } finally {
    unsubscribe("undici:client:connected", note);
  }
  assert.equal(room.length, 1);
  assert.ok((room[0] as number) <= largeBodyBytes, `${room[0]}`);
});
