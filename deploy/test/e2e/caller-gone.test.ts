import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { dirname, join } from "node:path";
import { after, describe, test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { EndCause, UsageRecordedSchema, UsageSource, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { readFrames } from "../../../services/relay/charge/spool-frames.ts";
import { takeSecret } from "../../../services/relay/charge/spooled-secret.ts";
import { chat, type Json } from "./ask.ts";
import { modelOn, prices, testCatalog, upstreamAt } from "./catalog.ts";
import { checkCharge } from "./charge.ts";
import { endpointPrices, only, priceRow } from "./endpoints.ts";
import { type Customer, startWorld } from "./world.ts";

/** A request at an upstream that answers when the test says so. */
type Held = { rid: string; body: string; answer: ServerResponse; isOver: boolean };

const held: Held[] = [];
const server = createServer((request, answer) => {
  const pieces: Buffer[] = [];
  request.on("data", (piece: Buffer) => pieces.push(piece));
  request.on("end", () => {
    const body = Buffer.concat(pieces).toString();
    const one: Held = { rid: String(request.headers["x-request-id"]), body, answer, isOver: false };
    answer.on("close", () => (one.isOver = true));
    held.push(one);
  });
});
const port = await freePort();
await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
const upstream = (settings = {}): object =>
  upstreamAt(`http://127.0.0.1:${port}`, { on_caller_gone: "drain", ...settings });

const world = await startWorld({
  serviceEnvironment: { relay: { DRAIN_MS: "60000" } },
  catalog: (fakeUrl) =>
    testCatalog(fakeUrl, {
      upstreams: {
        patient: upstream(),
        second: upstream(),
        brief: upstream({ drain_timeout_ms: 200 }),
        frugal: upstream({ drain_max_output_tokens: 10 }),
        aborting: upstream({ on_caller_gone: "abort" }),
      },
      models: {
        patient: modelOn("patient", { upstreams: [{ name: "patient" }, { name: "second" }] }),
        brief: modelOn("brief"),
        frugal: modelOn("frugal"),
        aborting: modelOn("aborting"),
        picture: only("openai-images", "dall-e-3", priceRow(endpointPrices.picture), "patient"),
        voice: only("openai-speech", "tts-1", priceRow(endpointPrices.voice), "patient"),
        embedding: only("openai-embeddings", "embed", priceRow(endpointPrices.embedding), "patient"),
      },
    }),
});
after(async () => {
  await world[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
});

const { CLIENT_GONE, RELAY_LOST, UPSTREAM_ERROR } = EndCause;
const usage = { prompt_tokens: 41, completion_tokens: 23, total_tokens: 64 };
const counted = { inputTokens: 41n, outputTokens: 23n };
const whole = { id: "c", object: "chat.completion", model: "m", usage };
const message = { index: 0, finish_reason: "stop", message: { role: "assistant", content: "hello" } };
const wholeAnswer = JSON.stringify({ ...whole, choices: [message] });
const eventOf = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;
const pieceOf = (content: string): string => eventOf({ choices: [{ index: 0, delta: { content } }] });
const finish = eventOf({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
const streamEnd = `${finish}${eventOf({ choices: [], usage })}data: [DONE]\n\n`;

const json = { "content-type": "application/json" };
const events = { "content-type": "text/event-stream" };

const chatBody = (model: string, fields: Json = {}): Json => ({
  model,
  max_tokens: 1_000,
  messages: [{ role: "user", content: "Say hello." }],
  ...fields,
});

/** Makes a call and waits until the upstream has it. */
async function begin(customer: Customer, fields: Json, path = chat.path) {
  const leaving = new AbortController();
  const sentBody = JSON.stringify({ ...fields, user: `${customer.keyId}-${held.length}` });
  const request = { method: "POST", headers: chat.headers(customer.secret), body: sentBody, signal: leaving.signal };
  const asking = fetch(`${world.relayUrl}${path}`, request);
  const mark = (JSON.parse(sentBody) as { user: string }).user;
  asking.catch(() => undefined);
  const at = await until("the upstream has the call", () => held.find(({ body }) => body.includes(`"${mark}"`)));
  assert.ok(at);
  return { asking, sentBody, at, rid: at.rid, leave: () => leaving.abort() };
}

/** A sample of the relay's metrics. */
async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${world.stack.services.relay.opsUrl}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith(`${name} `) || one.startsWith(`${name}{`));
  return Number(line?.split(" ").at(-1) ?? 0);
}

const untilOrphans = (count: number) =>
  until(`${count} answers are read on`, async () => (await metric("relay_orphans")) === count);

/** What the relay has written down of a call on its disk, to be charged should it be killed. */
function writtenOf(rid: string): UsageRecorded[] {
  const folder = join(dirname(world.stack.catalogFile), "spool");
  const files = readdirSync(folder).filter((name) => name.endsWith(".spool"));
  const frames = files.flatMap((name) => readFrames(readFileSync(join(folder, name))).frames);
  const records = frames.map(({ payload }) => fromBinary(UsageRecordedSchema, takeSecret(payload).record));
  return records.filter((record) => record.rid === rid);
}

async function leaveAndWait(call: { leave: () => void }): Promise<void> {
  call.leave();
  await untilOrphans(1);
}

describe("on_caller_gone: drain reads on to the end and charges what the provider counted", () => {
  for (const isStream of [false, true]) {
    test(`a caller who leaves before the first byte (${isStream ? "streamed" : "whole"})`, async () => {
      const customer = await world.createCustomer();
      const call = await begin(customer, chatBody("patient", { stream: isStream }));
      await leaveAndWait(call);
      assert.equal((await world.holdsOf(customer.accountId)).openHolds, 1n, "the hold stays");
      if (isStream) call.at.answer.writeHead(200, events).end(pieceOf("hello") + streamEnd);
      else call.at.answer.writeHead(200, json).end(wholeAnswer);
      const line = await checkCharge(world, customer, {
        rid: call.rid,
        endCause: CLIENT_GONE,
        charge: { provider: counted },
      });
      assert.equal(line.usage.httpStatus, 0, "nobody was told anything");
      await untilOrphans(0);
    });
  }

  test("a caller who leaves in the middle of a stream", async () => {
    const customer = await world.createCustomer();
    const call = await begin(customer, chatBody("patient", { stream: true }));
    call.at.answer.writeHead(200, events).write(pieceOf("one"));
    await (await call.asking).body?.getReader().read();
    await leaveAndWait(call);
    for (let piece = 0; piece < 50; piece += 1) call.at.answer.write(pieceOf("more"));
    call.at.answer.end(streamEnd);
    await checkCharge(world, customer, { rid: call.rid, endCause: CLIENT_GONE, charge: { provider: counted } });
  });

  test("a caller who leaves while a whole answer comes", async () => {
    const customer = await world.createCustomer();
    const call = await begin(customer, chatBody("patient"));
    call.at.answer.writeHead(200, json).write(wholeAnswer.slice(0, 20));
    await leaveAndWait(call);
    call.at.answer.end(wholeAnswer.slice(20));
    await checkCharge(world, customer, { rid: call.rid, endCause: CLIENT_GONE, charge: { provider: counted } });
  });

  test("an upstream that answers with an error then is free, and no other one is asked", async () => {
    const customer = await world.createCustomer();
    const call = await begin(customer, chatBody("patient"));
    const before = held.length;
    await leaveAndWait(call);
    call.at.answer.writeHead(500, json).end(JSON.stringify({ error: { message: "It broke." } }));
    await checkCharge(world, customer, { rid: call.rid, endCause: UPSTREAM_ERROR, charge: "nothing" });
    assert.equal(held.length, before);
  });

  test("pictures, speech and embeddings cost what was made", async () => {
    const made = [
      {
        path: "/v1/images/generations",
        body: { model: "picture", prompt: "a fox", n: 1 },
        answer: JSON.stringify({ created: 1, data: [{ b64_json: "aGVsbG8=" }] }),
        type: json,
        charge: { counted: { images: 1n } },
        at: endpointPrices.picture,
      },
      {
        path: "/v1/audio/speech",
        body: { model: "voice", input: "hello", voice: "alloy" },
        answer: "sound",
        type: { "content-type": "audio/mpeg" },
        charge: { counted: { characters: 5n } },
        at: endpointPrices.voice,
      },
      {
        path: "/v1/embeddings",
        body: { model: "embedding", input: "hello" },
        answer: JSON.stringify({
          object: "list",
          data: [{ object: "embedding", index: 0, embedding: [1] }],
          model: "embed",
          usage: { prompt_tokens: 3, total_tokens: 3 },
        }),
        type: json,
        charge: { provider: { inputTokens: 3n } },
        at: endpointPrices.embedding,
      },
    ];
    for (const { path, body, answer, type, charge, at } of made) {
      const customer = await world.createCustomer({ creditNanos: 1_000_000_000_000n });
      const call = await begin(customer, body, path);
      await leaveAndWait(call);
      call.at.answer.writeHead(200, type).end(answer);
      await checkCharge(world, customer, { rid: call.rid, endCause: CLIENT_GONE, charge, prices: at });
    }
  });
});

describe("what is known is charged, and the input that was sent, where an answer is not read to its end", () => {
  for (const model of ["aborting", "brief"]) {
    for (const isStream of [false, true]) {
      test(`${model}: before the first byte (${isStream ? "streamed" : "whole"})`, async () => {
        const customer = await world.createCustomer();
        const call = await begin(customer, chatBody(model, { stream: isStream }));
        call.leave();
        await until("the upstream was stopped", () => call.at.isOver);
        const charge = { sentBody: call.sentBody, sentText: "" };
        await checkCharge(world, customer, { rid: call.rid, endCause: CLIENT_GONE, charge });
      });
    }
  }

  test("a stream is read on for so many tokens and no more", async () => {
    const customer = await world.createCustomer();
    const call = await begin(customer, chatBody("frugal", { stream: true }));
    await leaveAndWait(call);
    call.at.answer.writeHead(200, events);
    const text = "four".repeat(11);
    call.at.answer.write(pieceOf(text));
    await until("the upstream was stopped", () => call.at.isOver);
    const charge = { sentBody: call.sentBody, sentText: text };
    await checkCharge(world, customer, { rid: call.rid, endCause: CLIENT_GONE, charge });
  });

  test("of many at once 32 of an account are read on; the others are stopped and cost their input", async () => {
    const customer = await world.createCustomer({ creditNanos: 100_000_000_000n });
    const calls: Awaited<ReturnType<typeof begin>>[] = [];
    for (let number = 0; number < 40; number += 1) calls.push(await begin(customer, chatBody("patient")));
    for (const { leave } of calls) leave();
    await until("the others are stopped", () => calls.filter(({ at }) => at.isOver).length === 8);
    await untilOrphans(32);
    for (const { at } of calls) if (!at.isOver) at.answer.writeHead(200, json).end(wholeAnswer);
    const lines = await world.untilSettled(customer.accountId, 40);
    const sources = lines.map((line) => (line as { usage?: { usageSource: UsageSource } }).usage?.usageSource);
    assert.equal(sources.filter((source) => source === UsageSource.PROVIDER).length, 32);
    assert.equal(sources.filter((source) => source === UsageSource.ESTIMATED).length, 8);
    for (const { usage: recorded } of lines) assert.equal(recorded?.endCause, CLIENT_GONE);
  });
});

describe("the relay that reads on", () => {
  test("killed, its next start charges what was known: the input, and what came", async () => {
    const [before, amid] = [await world.createCustomer(), await world.createCustomer()];
    const silent = await begin(before, chatBody("patient"));
    await leaveAndWait(silent);
    const flowing = await begin(amid, chatBody("patient", { stream: true }));
    flowing.leave();
    await untilOrphans(2);
    flowing.at.answer.writeHead(200, events).write(pieceOf("four four four"));
    const { relay } = world.stack.services;
    await until("what came is written down", () =>
      writtenOf(flowing.rid).some(({ usage: known }) => (known?.outputTokens ?? 0n) >= 4n),
    );
    await relay.kill();
    await relay.restart();
    const charge = { sentBody: silent.sentBody, sentText: "" };
    await checkCharge(world, before, { rid: silent.rid, endCause: RELAY_LOST, charge });
    const { amountNanos } = await world.untilBooked(amid.accountId, flowing.rid);
    const outputNanos = (4n * prices.outputTokens) / 1_000_000n;
    assert.ok(-amountNanos >= outputNanos, `${amountNanos}`);
  });

  test("told to stop, it lets these end", async () => {
    const customer = await world.createCustomer();
    const call = await begin(customer, chatBody("patient"));
    await leaveAndWait(call);
    const { relay } = world.stack.services;
    const stopped = relay.kill("SIGTERM");
    await until("it stops", async () => !(await fetch(`${relay.opsUrl}/readyz`)).ok);
    call.at.answer.writeHead(200, json).end(wholeAnswer);
    await stopped;
    assert.equal(await relay.ended, "exit code 0");
    await relay.restart();
    await checkCharge(world, customer, { rid: call.rid, endCause: CLIENT_GONE, charge: { provider: counted } });
  });
});
