import assert from "node:assert/strict";
import { test } from "node:test";
import { estimateTokens } from "../dialects/token-weights.ts";
import fc from "fast-check";
import { errors } from "undici";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { DialectName } from "../dialects/dialect.ts";
import type { StreamEvent } from "../dialects/sse.ts";
import { until } from "#shared/testing/until.ts";
import { content, done, eventOf, finish, startStream, usage } from "../testing/pumped.ts";

const dataOf = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const asking = { stream_options: { include_usage: true } };
const text = eventOf("content_block_delta", { index: 0, delta: { type: "text_delta", text: "Hi" } });
const messageDelta = eventOf("message_delta", { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } });
const messageStop = eventOf("message_stop");

test("nothing dropped: the caller gets the upstream's very bytes, in whatever chunks they came", async () => {
  const stream = Buffer.from(`: hello\n\ndata:{"choices":[]}\r\n\r\n${content("漢字 😀")}${finish}${usage}${done}`);
  const cuts = fc.uniqueArray(fc.nat({ max: stream.length }), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(cuts, async (places) => {
      await using pumped = await startStream({ request: asking });
      const edges = [0, ...places.toSorted((a, b) => a - b), stream.length];
      edges.slice(1).forEach((edge, index) => pumped.give(stream.subarray(edges[index], edge)));
      pumped.end();
      assert.equal(await pumped.received(), stream.toString());
      assert.equal(pumped.endCause(), EndCause.COMPLETE);
    }),
    { numRuns: 30 },
  );
});

test("an untouched chunk goes out in the turn in which it came, as one write", async () => {
  await using pumped = await startStream();
  pumped.give(content("a") + content("b"));
  assert.deepEqual(pumped.steps, [`write ${content("a")}${content("b")}`]);
  await until("it is with the caller while the upstream goes on", () => pumped.client.body().includes('"b"'));
});

test("a chunk that ends within an event goes out up to its last whole event, the rest with its end", async () => {
  await using pumped = await startStream();
  pumped.give(content("a") + content("b").slice(0, 20));
  pumped.give(content("b").slice(20));
  assert.deepEqual(pumped.steps, [`write ${content("a")}`, `write ${content("b")}`]);
});

test("a dropped event leaves its neighbours whole", async () => {
  await using pumped = await startStream();
  pumped.give(content("a") + finish + usage + done);
  pumped.end();
  assert.equal(await pumped.received(), content("a") + finish + done);
  assert.equal(pumped.tally.usage?.inputTokens, 9n);
});

test("a caller who does not read pauses the upstream with bounded bytes held, and resumes it by reading", async () => {
  await using pumped = await startStream({ isReading: false });
  const event = content("x".repeat(50_000));
  const mostEvents = 2_000;
  let given = 0;
  const isPaused = (): boolean => pumped.steps.findLast((step) => step === "pause" || step === "resume") === "pause";
  const run = (): void => {
    for (; !isPaused() && given < mostEvents; given += 1) pumped.give(event);
  };
  pumped.answer.resume = () => {
    pumped.steps.push("resume");
    setImmediate(run);
  };
  run();
  let before = -1;
  let quietPolls = 0;
  await until("the kernel's buffers are full and the upstream stays paused", () => {
    quietPolls = isPaused() && given === before ? quietPolls + 1 : 0;
    before = given;
    return quietPolls === 5;
  });
  assert.ok(given < mostEvents, "the upstream is paused long before 100 MB");
  assert.ok(pumped.response.writableLength <= 2 * event.length, `${pumped.response.writableLength} bytes are held`);

  assert.ok(pumped.pumping.stalledMs() > 0, "since when the caller has not read is known");
  const stalledAt = given;
  pumped.client.socket.resume();
  await until("reading resumes the upstream", () => given > stalledAt);
  await until("all is given", () => given === mostEvents);
  await until("the caller has caught up", () => pumped.pumping.stalledMs() === 0);
  pumped.give(finish + done);
  pumped.end();
  const received = await pumped.received();
  assert.equal(received.length, mostEvents * event.length + finish.length + done.length);
  assert.ok(received.endsWith(event + finish + done));
});

test("a stream that waits for money keeps its upstream waiting, whatever its caller does", async () => {
  await using pumped = await startStream();
  const told = () => pumped.steps.filter((step) => step === "pause" || step === "resume");
  pumped.pumping.holdBack(true);
  pumped.pumping.holdBack(true);
  assert.deepEqual(told(), ["pause"]);
  pumped.response.emit("drain");
  assert.deepEqual(told(), ["pause"]);
  pumped.pumping.holdBack(false);
  assert.deepEqual(told(), ["pause", "resume"]);
});

// API spec, Streaming that stops partway.
const cutRows: [string, DialectName, string, string][] = [
  [
    "Chat completions: Ends with `data: [DONE]` without any data whose `finish_reason` has a value",
    "openai-chat",
    content("a"),
    done,
  ],
  ["Messages: Answer ends partway", "anthropic-messages", text, ""],
];

for (const [what, dialect, whole, end] of cutRows) {
  for (const how of ["breaks", "ends"]) {
    test(`API spec, Streaming that stops partway: ${what} (the upstream ${how} mid event)`, async () => {
      await using pumped = await startStream({ dialect });
      pumped.give(whole + whole.slice(0, -3));
      if (how === "breaks") pumped.fail(new Error("other side closed"));
      else pumped.end();
      assert.equal(await pumped.received(), whole + end);
      assert.equal(pumped.endCause(), EndCause.UPSTREAM_CUT);
      assert.equal(pumped.tally.hasFinish, false);
    });
  }
}

test("silence of the upstream has a cause of its own", async () => {
  await using pumped = await startStream();
  pumped.give(content("a"));
  pumped.fail(new errors.BodyTimeoutError());
  assert.equal(await pumped.received(), content("a") + done);
  assert.equal(pumped.endCause(), EndCause.UPSTREAM_TIMEOUT);
});

test("API spec, Streaming that stops partway: Chat completions: Data containing `error` arrives, nothing behind it", async () => {
  await using pumped = await startStream();
  const error = dataOf({ error: { message: "overloaded", type: "server_error", code: null, param: null } });
  pumped.give(content("a") + error);
  pumped.end();
  assert.equal(await pumped.received(), content("a") + error);
  assert.equal(pumped.endCause(), EndCause.UPSTREAM_ERROR);
});

test("API spec, Streaming that stops partway: Messages: No error arrives; answer ends partway, the upstream is left at once", async () => {
  await using pumped = await startStream({ dialect: "anthropic-messages" });
  pumped.give(text + eventOf("error", { error: { type: "overloaded_error", message: "Overloaded" } }) + text);
  assert.ok(pumped.steps.includes("abort"));
  assert.equal(await pumped.received(), text);
  assert.equal(pumped.endCause(), EndCause.UPSTREAM_ERROR);
});

test("onEnd runs before the last bytes of a whole answer are written", async () => {
  for (const [dialect, last] of [
    ["openai-chat", finish + done],
    ["anthropic-messages", messageDelta + messageStop],
  ] as const) {
    await using pumped = await startStream({ dialect });
    pumped.give(last);
    assert.deepEqual(pumped.steps, ["onEnd", `write ${last}`]);
    pumped.end();
    await pumped.received();
    assert.equal(pumped.endCause(), EndCause.COMPLETE);
  }
});

test("onEnd runs before the end mark of a broken answer is written", async () => {
  await using pumped = await startStream();
  pumped.give(content("a"));
  pumped.fail(new Error("other side closed"));
  assert.deepEqual(pumped.steps, [`write ${content("a")}`, "onEnd", `end ${done}`]);
});

test("API spec, Streaming that stops partway: Chat completions: whole when Data with a `finish_reason` value arrived; API spec, Events: Chat completions: Lines `data: {...}` ending with `data: [DONE]`, which is added when missing", async () => {
  await using pumped = await startStream();
  pumped.give(content("a") + finish);
  pumped.end();
  assert.equal(await pumped.received(), content("a") + finish + done);
  assert.equal(pumped.endCause(), EndCause.COMPLETE);
});

// What stands behind the last blank line when the upstream ends the connection in good order.
const restRows: [string, string, string, EndCause][] = [
  [
    "[DONE] without its blank line",
    content("a") + finish + done.trimEnd(),
    content("a") + finish + done,
    EndCause.COMPLETE,
  ],
  ["a finish without its blank line", content("a") + finish.trimEnd(), content("a") + finish + done, EndCause.COMPLETE],
  [
    "content without its blank line",
    content("a") + content("b").trimEnd(),
    content("a") + content("b") + done,
    EndCause.UPSTREAM_CUT,
  ],
  [
    "an error without its blank line",
    content("a") + dataOf({ error: { message: "x" } }).trimEnd(),
    content("a") + dataOf({ error: { message: "x" } }),
    EndCause.UPSTREAM_ERROR,
  ],
  [
    "half a usage chunk behind the finish",
    content("a") + finish + usage.slice(0, 30),
    content("a") + finish + done,
    EndCause.COMPLETE,
  ],
  [
    "the usage chunk, not asked for, without its blank line",
    content("a") + finish + usage.trimEnd(),
    content("a") + finish + done,
    EndCause.COMPLETE,
  ],
  ["half of the end mark", content("a") + finish + done.slice(0, 9), content("a") + finish + done, EndCause.COMPLETE],
];

for (const [what, stream, expected, endCause] of restRows) {
  test(`half a frame never precedes the end mark, a whole one is served: ${what}`, async () => {
    await using pumped = await startStream();
    pumped.give(stream);
    pumped.end();
    assert.equal(await pumped.received(), expected);
    assert.equal(pumped.endCause(), endCause);
    const served = estimateTokens(expected.includes('"b"') ? "ab" : "a");
    assert.equal(pumped.tally.contentTokens, served, "counted is what was served");
  });
}

test("half a frame alone has served nothing", async () => {
  await using pumped = await startStream();
  pumped.give(content("a").slice(0, -4));
  pumped.end();
  assert.equal(await pumped.received(), done);
  assert.equal(pumped.tally.hasContent, false);
});

test("a connection that breaks behind a whole answer adds nothing to it", async () => {
  await using pumped = await startStream({ request: asking });
  pumped.give(content("a") + finish + usage + done);
  pumped.fail(new Error("reset"));
  assert.equal(await pumped.received(), content("a") + finish + usage + done);
  assert.equal(pumped.endCause(), EndCause.COMPLETE);
});

for (const isTooLate of [false, true]) {
  const when = isTooLate ? "while the upstream was thinking" : "in the middle";
  test(`a stream whose caller left ${when} is read on and counted to its end, and nothing is written`, async () => {
    await using pumped = await startStream({ isTooLate, request: asking });
    pumped.give(content("a"));
    pumped.client.socket.destroy();
    await until("the relay has heard of it", () => pumped.response.destroyed);
    const writes = pumped.steps.filter((step) => step.startsWith("write")).length;
    for (let piece = 0; piece < 100; piece += 1) pumped.give(content("b".repeat(10_000)));
    pumped.give(finish + usage + done);
    pumped.end();
    await pumped.pumping.over;
    assert.equal(pumped.endCause(), EndCause.COMPLETE);
    assert.equal(pumped.tally.usage?.outputTokens, 2n);
    assert.equal(pumped.steps.filter((step) => step.startsWith("write")).length, writes);
    const count = (name: string): number => pumped.steps.filter((step) => step === name).length;
    assert.deepEqual([count("pause") - count("resume"), count("abort")], [0, 0]);
  });
}

test("a stream that waits for its caller flows on when the caller leaves", async () => {
  await using pumped = await startStream({ isReading: false });
  for (let piece = 0; !pumped.steps.includes("pause"); piece += 1) pumped.give(content("x".repeat(100_000)));
  pumped.client.socket.destroy();
  await until("the upstream is read again", () => pumped.steps.includes("resume"));
  assert.equal(pumped.pumping.stalledMs(), 0);
  pumped.fail(new Error("reset"));
  assert.equal(pumped.endCause(), EndCause.UPSTREAM_CUT, "the bill says what ended the answer");
});

test("a stream cut from outside ends with its end mark, its upstream aborted and its own cause on the bill", async () => {
  for (const [dialect, whole, end] of [
    ["openai-chat", content("a"), done],
    ["anthropic-messages", text, ""],
  ] as const) {
    await using pumped = await startStream({ dialect });
    pumped.onPieces.push(() => pumped.pumping.cut(EndCause.HOLD_EXHAUSTED));
    pumped.give(whole);
    assert.ok(pumped.steps.includes("abort"));
    assert.equal(await pumped.received(), whole + end);
    assert.equal(pumped.endCause(), EndCause.HOLD_EXHAUSTED);
  }
});

test("an event over the limit cuts the stream and aborts the upstream", async () => {
  await using pumped = await startStream({ maxEventBytes: 1_000 });
  pumped.give(content("a"));
  pumped.give(`data: ${"x".repeat(1_001)}`);
  assert.ok(pumped.steps.includes("abort"));
  assert.equal(await pumped.received(), content("a") + done);
  assert.equal(pumped.endCause(), EndCause.UPSTREAM_ERROR);
});

for (const isWhole of [true, false]) {
  const what = isWhole ? "an event" : "a last event without its blank line";
  test(`${what} that breaks its reader ends the stream behind what came before it, and is told of`, async () => {
    const read = ({ data }: StreamEvent): "pass" => {
      if (data?.includes("bad")) throw new TypeError("no reader for this");
      return "pass";
    };
    await using pumped = await startStream({ tap: { read, end: () => done } });
    pumped.give(content("a") + content("bad").slice(0, isWhole ? undefined : -2));
    if (!isWhole) pumped.end();
    assert.equal(await pumped.received(), content("a") + done);
    assert.equal(pumped.endCause(), EndCause.UPSTREAM_ERROR);
    assert.deepEqual(pumped.broken.map(String), ["TypeError: no reader for this"]);
  });
}

test("an answer that cannot be charged is broken off instead of left open, and its call is over", async () => {
  await using pumped = await startStream({ isUnchargeable: true });
  pumped.give(content("a"));
  await until("the caller has it", () => pumped.client.body().length > 0);
  pumped.end();
  assert.equal(await pumped.received(), content("a"));
  await pumped.pumping.over;
  assert.ok(pumped.response.destroyed && !pumped.response.writableEnded);
  assert.deepEqual(pumped.broken.map(String), ["Error: no charge"]);
});

test("a stream of which nothing reaches the caller beats, whatever comes from the upstream", async () => {
  await using pumped = await startStream();
  pumped.give(content("a"));
  const keepAlive = "write : keep-alive\n\n";
  await until("nothing was sent for a while", () => {
    pumped.give(usage);
    pumped.pumping.beat(20);
    return pumped.steps.includes(keepAlive);
  });
  assert.deepEqual(pumped.steps, [`write ${content("a")}`, keepAlive]);
});

test("onPiece follows each chunk that passed", async () => {
  await using pumped = await startStream();
  let pieces = 0;
  pumped.onPieces.push(() => (pieces += 1));
  pumped.give(content("a"));
  pumped.give(content("b"));
  assert.equal(pieces, 2);
});

test("API spec, Streaming that stops partway: whoever holds a finish_reason has a whole answer, so it goes out once that is charged", async () => {
  await using pumped = await startStream({ request: asking });
  pumped.give(content("a"));
  pumped.give(content("b") + finish);
  assert.deepEqual(pumped.steps, [`write ${content("a")}`, `write ${content("b")}`], "not yet");
  pumped.give(usage);
  assert.equal(pumped.steps.length, 2);
  pumped.give(done);
  assert.deepEqual(pumped.steps.slice(2, 5), ["onEnd", `write ${finish}`, `write ${usage}`]);
  pumped.end();
  assert.equal(await pumped.received(), content("a") + content("b") + finish + usage + done);
});

test("one choice of several that ends holds nothing back", async () => {
  await using pumped = await startStream({ request: { ...asking, n: 2 } });
  pumped.give(finish);
  assert.deepEqual(pumped.steps, [`write ${finish}`]);
});

test("an end that is cut before it is whole goes out behind its charge, and what never ends is not held for ever", async () => {
  await using cut = await startStream({ request: asking });
  cut.give(content("a") + finish);
  cut.fail(new Error("cut"));
  assert.equal(await cut.received(), content("a") + finish + done);
  assert.deepEqual(cut.steps.slice(0, 3), [`write ${content("a")}`, "onEnd", `write ${finish}`]);
  await using endless = await startStream({ request: asking });
  endless.give(finish);
  for (let event = 0; event < 1_000; event += 1) endless.give(content("0123456789"));
  assert.ok(endless.steps.length > 0, "it passes after 64 KiB");
});

test("bytes and the gaps between pieces are counted; a gap in which the caller did not read is not", async () => {
  await using stream = await startStream();
  const { counts } = stream;
  const gaps = (): number => counts.gaps.counts.reduce((sum, count) => sum + count, 0);
  const pieces = [content("one"), content("two"), content("three")];
  for (const piece of pieces) stream.give(piece);
  assert.equal(gaps(), 2);
  assert.equal(counts.bytes.value, Buffer.byteLength(pieces.join("")));
  stream.give(": upstream's own comment");
  assert.equal(gaps(), 2, "half an event is no piece");
  stream.end();
  await stream.received();
});

test("the time for which a caller does not read is counted, and is no gap", async () => {
  await using stream = await startStream();
  const { counts, steps } = stream;
  const gaps = (): number => counts.gaps.counts.reduce((sum, count) => sum + count, 0);
  const piece = content("x".repeat(100_000));
  stream.give(piece);
  assert.ok(steps.includes("pause"));
  assert.equal(counts.backpressure.value, 0, "it is counted when it has ended");
  await until("the caller has read", () => steps.includes("resume"));
  assert.ok(counts.backpressure.value > 0);
  stream.give(content("next"));
  assert.equal(gaps(), 0);
});
