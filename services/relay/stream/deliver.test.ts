import { settle } from "../charge/settle.ts";
import assert from "node:assert/strict";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { until } from "#shared/testing/until.ts";
import { deliver, type Deliverable } from "./deliver.ts";
import { createReplyRoom, type ReplyRoom } from "../http/reply-room.ts";
import { dialects } from "../dialects/index.ts";
import { createMetrics } from "../metrics.ts";
import { countThreads, createThreads } from "../threads/threads.ts";
import { CallFailure } from "../failures.ts";
import type { Prepared } from "../conversion/prepare.ts";
import type { UpstreamAnswer } from "../upstream/reach.ts";
import { createSendSignal, SendError, type Answer } from "../upstream/send.ts";
import { envelopeOf, listeningLog, liveCallOf, settlingOf, noThreads } from "../testing/fakes.ts";

const nothing = (): void => undefined;

test("a whole answer that breaks is its upstream's fault, unless its caller or the relay has ended the call", async () => {
  const registry = createRegistry("relay");
  const metrics = createMetrics(registry);
  const dialect = dialects["openai-chat"];
  const prepared = { dialect, dropped: [], conversion: undefined, single: undefined } as unknown as Prepared;
  const answer: Answer = {
    status: 200,
    headers: { "content-type": "application/json" },
    consume: ({ fail }) => fail(new Error("broken")),
    pause: nothing,
    resume: nothing,
    abort: nothing,
  };
  const breakOff = async (isAborted: boolean): Promise<number> => {
    const call = liveCallOf({ upstream: "somewhere" });
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    const signal = { ...createSendSignal(), isAborted };
    const deliverable: Deliverable = { call, envelope: envelopeOf(), dialect, response, signal };
    const [route] = call.offered.routes;
    assert.ok(route);
    const limits = { maxReplyBytes: 1_000, maxEventBytes: 1_000 };
    await assert.rejects(
      deliver(
        deliverable,
        { answer, prepared, route },
        { settling: settlingOf(), metrics, limits, threads: noThreads, replies: createReplyRoom(1_000) },
        nothing,
      ),
      SendError,
    );
    const { values } = await metrics.faults.get();
    return values.reduce((sum, { value }) => sum + value, 0);
  };
  assert.deepEqual([await breakOff(true), await breakOff(false)], [0, 1]);
});

const bodies: [what: string, answer: "json" | "events", body: unknown, failure: string][] = [
  ["an error", "json", { error: { message: "Upstream is down", type: "server_error" } }, "upstream_error"],
  ["an error with a status", "json", { error: { message: "Too long", code: 400 } }, "upstream_refused"],
  ["a rate limit", "json", { error: { message: "Slow down", code: 429 } }, "upstream_rate"],
  ["trouble with our account", "json", { error: { message: "No credits", code: 402 } }, "upstream_account"],
  [
    "an error that only its words tell",
    "json",
    { error: { message: "Slow", type: "rate_limit_error" } },
    "upstream_rate",
  ],
  ["MiniMax's number", "json", { choices: [], base_resp: { status_code: 2013, status_msg: "no" } }, "upstream_refused"],
  [
    "MiniMax's number for our account",
    "json",
    { base_resp: { status_code: 1008, status_msg: "no" } },
    "upstream_account",
  ],
  ["MiniMax's number for a stream", "events", { base_resp: { status_code: 1002 } }, "upstream_rate"],
  ["an error for a stream", "events", { error: { message: "Upstream is down", code: "502" } }, "upstream_error"],
  ["neither answer nor error", "json", { ok: true }, "upstream_invalid"],
  ["an answer where a stream was asked for", "events", { choices: [] }, "upstream_invalid"],
];

for (const [what, kind, body, failure] of bodies) {
  test(`status 200 with ${what} is ${failure}, and nobody pays`, async () => {
    const dialect = dialects["openai-chat"];
    const prepared = { dialect, dropped: [], conversion: undefined, single: undefined } as unknown as Prepared;
    const consume: Answer["consume"] = ({ data, end }) => {
      data(Buffer.from(JSON.stringify(body)));
      end();
    };
    const headers = { "content-type": "application/json" };
    const answer: Answer = { status: 200, headers, consume, pause: nothing, resume: nothing, abort: nothing };
    const call = liveCallOf({ upstream: "somewhere" });
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    const envelope = { ...envelopeOf(), answer: kind };
    const [route] = call.offered.routes;
    assert.ok(route);
    const relay = {
      settling: settlingOf(),
      metrics: createMetrics(createRegistry("relay")),
      limits: { maxReplyBytes: 1_000, maxEventBytes: 1_000 },
      threads: noThreads,
      replies: createReplyRoom(1_000),
    };
    const settled: unknown[] = [];
    await assert.rejects(
      deliver(
        { call, envelope, dialect, response, signal: createSendSignal() },
        { answer, prepared, route },
        relay,
        (endCause) => settled.push(endCause),
      ),
      (thrown) => thrown instanceof CallFailure && thrown.failure.name === failure,
    );
    assert.deepEqual(settled, []);
  });
}

/** Delivers a stream in memory. */
function startFlow(
  consume: Answer["consume"],
  log = listeningLog(),
  contentType = "text/event-stream",
  kind = "events",
) {
  const metrics = createMetrics(createRegistry("relay"));
  const dialect = dialects["openai-chat"];
  const envelope = { ...envelopeOf(), answer: kind };
  const prepared = { dialect, dropped: [], body: Buffer.from("prompt"), conversion: undefined, single: undefined };
  const headers = { "content-type": contentType };
  const answer: Answer = { status: 200, headers, consume, pause: nothing, resume: nothing, abort: nothing };
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const route = { upstream: { credential: "", headers: [] } };
  const call = liveCallOf({ upstream: "u" });
  const deliverable = { call, envelope, dialect, response, signal: createSendSignal() } as unknown as Deliverable;
  const answered = { answer, route, prepared } as unknown as UpstreamAnswer;
  const limits = { maxReplyBytes: 1_000, maxEventBytes: 1_000 };
  const settling = settlingOf({ log: log.log });
  const delivered = deliver(
    deliverable,
    answered,
    { settling, metrics, limits, threads: noThreads, replies: createReplyRoom(1_000) },
    (endCause) => settle(settling, call, endCause),
  );
  return { delivered, prepared, envelope, response, call, lines: log.lines };
}

test("an answer whose thread has ended is charged what was held for it, and not asked for again", async () => {
  const ended = createThreads(countThreads(createMetrics(createRegistry("relay")), listeningLog().log));
  const dialect = dialects["openai-chat"];
  const prepared = { dialect, dropped: [], conversion: undefined, single: undefined };
  const body = Buffer.from(JSON.stringify({ choices: [], filling: "x".repeat(300_000) }));
  const consume: Answer["consume"] = ({ data, end }) => {
    data(body);
    // What it has read until now is lost with it: in this turn of the event loop, or the next.
    setImmediate(() => void ended[Symbol.asyncDispose]().then(end));
  };
  const headers = { "content-type": "application/json" };
  const answer: Answer = { status: 200, headers, consume, pause: nothing, resume: nothing, abort: nothing };
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const call = liveCallOf({ upstream: "u" });
  const envelope = { ...envelopeOf(), outputCap: 77 };
  const deliverable = { call, envelope, dialect, response, signal: createSendSignal() };
  const limits = { maxReplyBytes: 1_000_000, maxEventBytes: 1_000 };
  const metrics = createMetrics(createRegistry("relay"));
  const replies = createReplyRoom(1_000_000);
  const answered = { answer, route: { upstream: {} }, prepared } as unknown as UpstreamAnswer;
  const ends: EndCause[] = [];
  const relay = { settling: settlingOf(), metrics, limits, threads: ended, replies };
  await assert.rejects(
    deliver(deliverable, answered, relay, (endCause) => void ends.push(endCause)),
    (error) => error instanceof CallFailure && error.failure.name === "answer_too_large",
  );
  assert.deepEqual([ends, call.httpStatus], [[EndCause.COMPLETE], 400]);
  const { usage, contentTokens, hasContent } = call.tally;
  assert.deepEqual([usage, contentTokens, hasContent], [undefined, 77, true]);
});

/** Delivers a whole answer of 100 kB, which ends when its upstream may go on. */
function startLarge(replies: ReplyRoom) {
  const dialect = dialects["openai-chat"];
  const prepared = { dialect, dropped: [], conversion: undefined, single: undefined };
  const message = { role: "assistant", content: "x".repeat(100_000) };
  const body = Buffer.from(JSON.stringify({ choices: [{ index: 0, message, finish_reason: "stop" }] }));
  const state = { isPaused: false, end: nothing };
  const answer: Answer = {
    status: 200,
    headers: { "content-type": "application/json" },
    consume: ({ data, end }) => {
      data(body);
      if (state.isPaused) state.end = end;
      else end();
    },
    pause: () => void (state.isPaused = true),
    resume: () => {
      state.isPaused = false;
      state.end();
    },
    abort: nothing,
  };
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const signal = createSendSignal();
  const deliverable = { call: liveCallOf({ upstream: "u" }), envelope: envelopeOf(), dialect, response, signal };
  const metrics = createMetrics(createRegistry("relay"));
  const limits = { maxReplyBytes: 1_000_000, maxEventBytes: 1_000 };
  const relay = { settling: settlingOf(), metrics, limits, threads: noThreads, replies };
  const answered = { answer, route: { upstream: {} }, prepared } as unknown as UpstreamAnswer;
  return { delivered: deliver(deliverable, answered, relay, nothing), response, state };
}

test("a large answer that nobody reads keeps others' upstreams waiting, until its caller is gone", async () => {
  const replies = createReplyRoom(30_000);
  const unread = startLarge(replies);
  await unread.delivered;
  const next = startLarge(replies);
  await until("the next one waits", () => replies.waiting() === 1);
  assert.ok(unread.response.writableEnded && !unread.state.isPaused && next.state.isPaused);
  unread.response.emit("close");
  await next.delivered;
  next.response.emit("close");
  assert.deepEqual([replies.bytes(), replies.waiting()], [0, 0]);
});

test("who reads a large answer for half a minute while others wait is broken off", async () => {
  const replies = createReplyRoom(30_000);
  const unread = startLarge(replies);
  await unread.delivered;
  const next = startLarge(replies);
  await until("the next one waits", () => replies.waiting() === 1);
  replies.makeRoom(performance.now() + 29_000);
  assert.ok(!unread.response.destroyed);
  replies.makeRoom(performance.now() + 30_000);
  assert.ok(unread.response.destroyed && next.state.isPaused);
});

const flows: [type: string, kind: string, isFlow: boolean][] = [
  ["Text/Event-Stream; charset=UTF-8", "events", true],
  ["application/json", "events", false],
  ["audio/mpeg", "bytes", true],
  ["application/octet-stream", "bytes", true],
  ["", "bytes", true],
  ["text/html", "bytes", false],
  ["Application/Problem+JSON", "bytes", false],
];
for (const [type, kind, isFlow] of flows) {
  test(`"${type}" where ${kind} were asked for ${isFlow ? "passes" : "is no answer"}`, async () => {
    const { delivered } = startFlow(({ end }) => setImmediate(end), listeningLog(), type, kind);
    if (isFlow) await delivered;
    else await assert.rejects(delivered, CallFailure);
  });
}

test("a stream under way keeps nothing of its request's body", async () => {
  const { delivered, prepared, envelope } = startFlow(({ end }) => setImmediate(end));
  assert.equal(prepared.body.length, 0);
  assert.equal(envelope.body.bytes.toString(), "{}");
  await delivered;
});

test("a stream that cannot be begun is broken off, not left open behind its head", async () => {
  const { delivered, response } = startFlow(() => {
    throw new Error("a fault of ours");
  });
  await assert.rejects(delivered, /a fault of ours/);
  assert.ok(response.destroyed);
});

test("a stream that breaks while it is read leaves a line with the call's id and the reason, not the event", async () => {
  const { delivered, lines, call } = startFlow(({ data }) => data(Buffer.from(`data: ${"x".repeat(1_001)}`)));
  await delivered;
  const [line] = lines;
  assert.deepEqual([line?.["rid"], line?.["upstream"]], [call.rid, "u"]);
  assert.match(JSON.stringify(line), /an event exceeds 1000 bytes/);
  assert.ok(!JSON.stringify(line).includes("xxx"));
});
