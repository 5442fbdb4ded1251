import assert from "node:assert/strict";
import { after, test } from "node:test";
import { chooseRoutes } from "../catalog/choose.ts";
import type { Model } from "../catalog/models.ts";
import { createPreparation, type Prepared } from "./prepare.ts";
import { createThreadPreparation } from "./prepare-in-thread.ts";
import { readReply } from "./whole-reply.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure } from "../failures.ts";
import { readEnvelope } from "../http/read.ts";
import { until } from "#shared/testing/until.ts";
import { modelOf, upstreamOf } from "../testing/fakes.ts";
import { envelopeOfFacts, factsOf } from "../threads/facts.ts";
import { createThreads, type ThreadCounts, type ThreadSession } from "../threads/threads.ts";

const ended: unknown[] = [];
let refusals = 0;
const nothing = (): void => undefined;
const counts: ThreadCounts = {
  waitedSeconds: nothing,
  workedSeconds: nothing,
  refused: () => void (refusals += 1),
  ended: (error) => void ended.push(error),
};
const threads = createThreads(counts);
after(() => threads[Symbol.asyncDispose]());

const headers = { "content-type": "application/json", "provider-version": "2023-06-01" };
const open = (account = "acct_1") => threads.open(account);
const share = () => ({ claim: () => true });

function modelAt(spoken: string): Model {
  const upstream = upstreamOf({ dialects: [spoken as never] });
  return modelOf({ routes: [{ upstream, model: "its-name", priority: 0, weight: 0 }] });
}

const plain = ({ body, dropped, dialect, conversion }: Prepared, model: Model) => ({
  body: body.toString(),
  dropped: [...dropped],
  path: dialect.upstreamPath(model.id, "json"),
  spoken: dialect.name,
  request: conversion?.asked.request,
});

const chat = {
  model: "m",
  messages: [
    { role: "system", content: "Be short." },
    { role: "user", content: [{ type: "text", text: "é".repeat(40_000) }] },
  ],
  logit_bias: { 1: 1 },
};
const requests: [DialectName, string, object][] = [
  ["openai-chat", "openai-chat", chat],
  ["openai-chat", "anthropic-messages", chat],
  ["openai-chat", "gemini-generate", chat],
  ["openai-responses", "anthropic-messages", { model: "m", input: "x", instructions: "Be short.", top_p: 0.5 }],
  ["anthropic-messages", "openai-chat", { model: "m", max_tokens: 9, messages: [{ role: "user", content: "x" }] }],
  ["openai-embeddings", "gemini-generate", { model: "m", input: ["a", "b"], encoding_format: "base64" }],
  ["openai-speech", "openai-speech", { model: "m", input: "Hello", voice: "alloy" }],
];

for (const [name, spoken, request] of requests) {
  test(`a thread reads and prepares a request as it is done here: ${name} to ${spoken}`, async () => {
    const dialect = dialects[name];
    const bytes = Buffer.from(JSON.stringify(request));
    const model = modelAt(spoken);
    const [route] = chooseRoutes(model, name);
    assert.ok(route);
    const here = readEnvelope(Buffer.from(bytes), dialect, headers);
    const expected = createPreparation({ envelope: here, dialect, model, inputTokens: 7, share }).for(route);

    const session = open();
    for (let at = 0; at < bytes.length; at += 9_999) session.add("request", bytes.subarray(at, at + 9_999), false);
    const facts = await session.work<"read">({ kind: "read", dialect: name, headers });
    const { isHoldingState, length } = facts.body;
    assert.deepEqual({ ...facts, body: undefined }, { ...here, body: undefined });
    assert.deepEqual(facts.body, factsOf(here).body);
    assert.equal(length, bytes.length);
    const envelope = envelopeOfFacts(facts);
    const inThread = { envelope, dialect, model, inputTokens: 7, share, session, headers, length, isHoldingState };
    const preparation = createThreadPreparation(inThread);
    await preparation.readFor([route], () => assert.fail("nothing is to be fetched"));
    const prepared = await preparation.for(route);
    const { request: settings = {}, ...rest } = plain(prepared, model);
    const { request: whole = {}, ...others } = plain(expected, model);
    assert.deepEqual(rest, others);
    const { input: _, messages: __, ...kept } = whole;
    assert.deepEqual(settings, kept);
    assert.equal(preparation.for(route), prepared);
  });
}

test("a thread reads an answer as it is done here", async () => {
  const session = open();
  const model = modelAt("anthropic-messages");
  const envelope = readEnvelope(Buffer.from(JSON.stringify({ ...chat, model: "m" })), dialects["openai-chat"], headers);
  const [route] = chooseRoutes(model, "openai-chat");
  assert.ok(route);
  const prepared = createPreparation({ envelope, dialect: dialects["openai-chat"], model, inputTokens: 7, share }).for(
    route,
  );
  const answer = Buffer.from(
    JSON.stringify({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "m",
      content: [{ type: "text", text: "x".repeat(300_000) }],
      stop_reason: "end_turn",
      usage: { input_tokens: -5, output_tokens: 5 },
    }),
  );
  const { quirks } = model;
  const reading = { quirks, limits: model, contentType: "application/json" };
  const dialect = dialects["openai-chat"];
  const here = readReply(answer, { ...reading, envelope, dialect, prepared }).reply;
  session.add("answer", answer, false);
  const { contextTokens, maxOutputTokens } = model;
  const { reply } = await session.work<"reply">({
    kind: "reply",
    reading: {
      ...reading,
      limits: { contextTokens, maxOutputTokens },
      dialect: "openai-chat",
      spoken: "anthropic-messages",
      facts: factsOf(envelope),
      asked: prepared.conversion?.asked,
    },
  });
  assert.ok(here && reply);
  assert.equal(reply.hasNoCounts, true);
  const told = (body: Uint8Array): object => ({ ...JSON.parse(Buffer.from(body).toString()), created: 0, id: "" });
  assert.deepEqual(told(reply.body), told(here.body));
  assert.deepEqual(reply.tally, here.tally);
});

test("what is wrong with a body is told as it is here", async () => {
  const session = open();
  session.add("request", Buffer.from('{"model":"m"'), false);
  await assert.rejects(session.work<"read">({ kind: "read", dialect: "openai-chat", headers }), (error) => {
    assert.ok(error instanceof CallFailure);
    assert.equal(error.failure.name, "invalid_json");
    assert.match(String(error.failure.cause), /not valid JSON at byte 12/);
    return true;
  });
});

test("of the work that waits half may be one account's, and whoever leaves makes room", async () => {
  const sessions: ThreadSession[] = [];
  const ask = (account: string): Promise<string> => {
    const session = open(account);
    sessions.push(session);
    session.add("request", Buffer.from("{}"), false);
    return session.work<"read">({ kind: "read", dialect: "openai-chat", headers }).then(
      () => "read",
      (error: CallFailure) => error.failure.name,
    );
  };
  refusals = 0;
  const asked = Array.from({ length: 40 }, () => ask("greedy"));
  assert.ok(refusals >= 6, `${refusals} were refused`);
  const other = ask("modest");
  for (const session of sessions.slice(0, 40)) session.cancel();
  assert.equal(await other, "field_required");
  const outcomes = await Promise.all(asked);
  assert.ok(outcomes.includes("service_unavailable"));
  assert.equal(threads.waiting(), 0);
});

test("a thread that ends fails what it had, and another takes its place", async () => {
  const own = createThreads(counts);
  const lost = own.open("acct_1");
  lost.add("request", Buffer.from("{}"), false);
  const failing = assert.rejects(lost.work<"read">({ kind: "read", dialect: "openai-chat", headers }), CallFailure);
  await own[Symbol.asyncDispose]();
  await failing;
  await assert.rejects(lost.work<"read">({ kind: "read", dialect: "openai-chat", headers }), CallFailure);
  const next = own.open("acct_1");
  next.add("request", Buffer.from(JSON.stringify(chat)), false);
  const { model } = await next.work<"read">({ kind: "read", dialect: "openai-chat", headers });
  assert.equal(model, "m");
  await own[Symbol.asyncDispose]();
  assert.deepEqual(ended, []);
});

test("threads that do not keep up say so, and when they do again, also behind sessions that are over", async () => {
  await using own = createThreads(counts);
  const caughtUp = Promise.withResolvers<void>();
  const piece = 1_048_576;
  let sessions = 0;
  assert.ok(own.keepUp(() => assert.fail("nothing was held")));
  // All in one turn, in which the thread cannot say what it has taken.
  while (own.keepUp(caughtUp.resolve)) {
    const refused = own.open("acct_1");
    refused.add("request", Buffer.alloc(piece), true);
    refused.forget();
    sessions += 1;
  }
  assert.equal(sessions, 17);
  await caughtUp.promise;
  await until("all is taken", () => own.keepUp(nothing));
});

test("whoever waits for a thread that ends goes on", async () => {
  const own = createThreads(counts);
  const released = Promise.withResolvers<void>();
  const lost = own.open("acct_1");
  while (own.keepUp(released.resolve)) lost.add("request", Buffer.alloc(1_048_576), true);
  await own[Symbol.asyncDispose]();
  await released.promise;
  assert.ok(own.keepUp(() => assert.fail("nothing was held")));
});
