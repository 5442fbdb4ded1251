import assert from "node:assert/strict";
import { test } from "node:test";
import { Verdict, type Operation } from "#proto/authquota/v1/authquota_pb.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { until } from "#shared/testing/until.ts";
import { charged, heldOf, open, partOf, quotaOf, start, type Json } from "../../testing/realtime-client.ts";
import { SessionContext } from "./session-context.ts";

// What a caller may try so that a session's provider does work that nobody has held for, or is charged for.

const update = (audio: Json): Json => ({ type: "session.update", session: { type: "realtime", audio } });
const beside: Json = { type: "response.create", response: { conversation: "none", input: [] } };
const stalled = { fault: { kind: "stall" }, text: "slow" } as const;

type Granted = { reserves: number; extends: number };

/** Money for so many holds, and so many of their growths. */
function moneyFor(granted: Granted) {
  return (operation: Operation["operation"]) => {
    const { case: name, value } = operation;
    const known = { accountId: "acct_1", keyId: "key_1" };
    if (name === "reserve") {
      granted.reserves -= 1;
      return granted.reserves < 0 ? { verdict: Verdict.BALANCE } : { ...known, heldNanos: value.estimateNanos };
    }
    if (name !== "extend") return known;
    granted.extends -= 1;
    return granted.extends < 0 ? { verdict: Verdict.BALANCE } : { ...known, heldNanos: value.totalNanos };
  };
}

test("what grows again at once is held for again before the provider has it", async () => {
  const relay = await start({}, { answer: moneyFor({ reserves: 1, extends: 1 }) });
  const { say, closed } = await open(relay);
  say("word ".repeat(20_000));
  say("word ".repeat(60_000));
  assert.equal(await closed, 1008);
  assert.equal(quotaOf(relay).of("extend").length, 2);
  assert.equal(relay.fake.realtime.filter(({ type }) => type === "conversation.item.create").length, 1);
});

test("while nobody can say whether there is money for more, what costs more waits", async () => {
  const verdicts = [Verdict.UNAVAILABLE, Verdict.OK];
  const relay = await start(
    {},
    {
      answer: ({ case: name, value }) => {
        if (name === "reserve") return { accountId: "acct_1", keyId: "key_1", heldNanos: value.estimateNanos };
        if (name !== "extend") return {};
        return { verdict: verdicts.shift() ?? Verdict.OK, heldNanos: value.totalNanos };
      },
    },
  );
  const { say } = await open(relay);
  const received = (): number => relay.fake.realtime.filter(({ type }) => type === "conversation.item.create").length;
  say("word ".repeat(20_000));
  await until("it is with the provider", () => received() === 1);
  assert.equal(quotaOf(relay).of("extend").length, 2);
});

test("no response is asked for while one is that has not begun, so that each has a hold of its own", async () => {
  const relay = await start({}, { answer: moneyFor({ reserves: 1, extends: 9 }) });
  const { ask, send, closed } = await open(relay);
  ask(stalled);
  for (let count = 0; count < 8; count += 1) send(beside);
  assert.equal(await closed, 1008);
  assert.equal(relay.fake.realtime.filter(({ type }) => type === "response.create").length, 1);
  await until("it is charged", () => charged(relay).length === 1);
});

test("a response that its provider refuses makes room for the next one, and is told by its caller's name", async () => {
  const relay = await start();
  const { ask, send, find } = await open(relay);
  ask(stalled);
  await find("response.created");
  send({ type: "response.create", event_id: "mine" });
  send(beside);
  const [error] = await find("error");
  assert.equal(partOf(error, "error")["event_id"], "mine");
  await find("response.created", 2);
});

test("a caller who leaves before the response that he asked for has begun pays for it", async () => {
  const relay = await start();
  const { ask, webSocket } = await open(relay);
  ask({ ...stalled, headersAfterMs: 100 });
  webSocket.close();
  await until("it is charged", () => charged(relay).length === 1);
  assert.equal(charged(relay)[0]?.endCause, EndCause.CLIENT_GONE);
  await until("all is given back", () => heldOf(relay) === 0);
  assert.ok(relay.fake.realtime.some(({ type }) => type === "response.cancel"));
});

test("what was heard before a caller wanted nothing more written down is charged", async () => {
  const relay = await start();
  const { send, find } = await open(relay);
  send(update({ input: { transcription: { model: "hear" } } }));
  send({ type: "input_audio_buffer.append", audio: Buffer.alloc(96_000).toString("base64") });
  send({ type: "input_audio_buffer.commit" });
  send(update({ input: { transcription: null } }));
  await find("conversation.item.input_audio_transcription.completed");
  await find("session.updated", 2);
  assert.deepEqual(
    charged(relay).map(({ modelRequested, costNanos }) => [modelRequested, costNanos]),
    [["hear", 200_000n]],
  );
});

test("no other model writes down what is heard before the one in use is done, for no event names it", () => {
  const context = new SessionContext();
  context.change({ transcriber: "dear" });
  assert.ok(context.mayWrite("dear") && !context.mayWrite("cheap"));
  context.commit("item_1");
  context.change({ transcriber: null });
  context.commit("item_2");
  context.updated({});
  context.commit("item_3");
  assert.deepEqual(context.unwrittenItems, ["item_1", "item_2"]);
  assert.ok(!context.mayWrite("cheap"));
  context.written("item_1");
  context.written("item_2");
  assert.ok(context.mayWrite("cheap"));
});

test("sound that a caller commits is held for before it is answered, however long it is", async () => {
  const relay = await start();
  const { send, find } = await open(relay);
  const audio = { input: { format: { type: "audio/pcmu" } } };
  send({ type: "session.update", session: { type: "realtime", max_output_tokens: 1, audio } });
  // Four minutes each, of 10 tokens a second.
  const sound = Buffer.alloc(4 * 60 * 8_000).toString("base64");
  for (let count = 0; count < 6; count += 1) send({ type: "input_audio_buffer.append", audio: sound });
  send({ type: "input_audio_buffer.commit" });
  await find("input_audio_buffer.committed");
  const extend = quotaOf(relay).of("extend").at(-1);
  assert.ok(extend && extend.totalNanos >= 14_400n * 32_000n, `${extend?.totalNanos}`);
});

test("what is said behind the beginning of speech counts whole, silence before it for a minute", () => {
  const context = new SessionContext();
  const minute = { type: "input_audio_buffer.append", textTokens: 0, pictures: 0, itemSound: 0, isBeside: false };
  const hear = (minutes: number) =>
    context.add({ ...minute, eventId: undefined, frame: "", change: {}, heardSound: minutes * 60 * 64_000 });
  const soundOf = (): bigint | undefined => context.requested().units.audioInputTokens;
  hear(30);
  assert.equal(soundOf(), 600n);
  context.speak();
  hear(10);
  assert.equal(soundOf(), 6_600n);
  context.commit("item_1");
  assert.equal(soundOf(), 6_600n + 30n * 600n - 600n);
});

test("what a response beside the conversation reads is held for with that response, and not ever after", async () => {
  const relay = await start();
  const { ask, send, find } = await open(relay);
  const text = "word ".repeat(20_000);
  const input = [{ type: "message", role: "user", content: [{ type: "input_text", text }] }];
  for (let count = 1; count <= 3; count += 1) {
    send({ type: "response.create", response: { conversation: "none", input } });
    await find("response.done", count);
  }
  ask({ text: "Hello" });
  await find("response.done", 4);
  const held = charged(relay).map(({ heldNanos }) => Number(heldNanos) / 1e9);
  const [first = 0, , third = 0, last = 0] = held;
  assert.ok(first > 0.08 && third < 1.5 * first, `${held.join(" ")}`);
  assert.ok(last < third, `${held.join(" ")}`);
});

test("what is added while a response runs is held for with those behind it, also behind one beside", async () => {
  const relay = await start();
  const { ask, say, send, find } = await open(relay);
  ask(stalled);
  await find("response.created");
  say("word ".repeat(20_000));
  const [created] = await find("response.created");
  send({ type: "response.cancel", response_id: partOf(created, "response")["id"] });
  await find("response.done");
  // It takes the hold that had grown for the long text, and reads nothing of it.
  send(beside);
  await find("response.done", 2);
  ask({ text: "Hello" });
  await find("response.done", 3);
  const held = charged(relay).map(({ heldNanos }) => Number(heldNanos) / 1e9);
  assert.ok((held[2] ?? 0) > 0.08, `${held.join(" ")}`);
});

test("a response that is cut short before its provider has counted makes nothing of the conversation cheaper", async () => {
  const relay = await start();
  const { ask, say, send, find } = await open(relay);
  say("word ".repeat(20_000));
  ask({ ...stalled, usage: { inputTokens: 0, outputTokens: 0 } });
  const [created] = await find("response.created");
  send({ type: "response.cancel", response_id: partOf(created, "response")["id"] });
  await find("response.done");
  say("Hi");
  send(beside);
  await find("response.done", 2);
  ask({ text: "Hello" });
  await find("response.done", 3);
  const held = charged(relay).map(({ heldNanos }) => Number(heldNanos) / 1e9);
  assert.ok((held[2] ?? 0) > 0.08, `${held.join(" ")}`);
});

test("of what callers add, only what is in front of a response is in what its provider has counted", () => {
  const context = new SessionContext();
  const event = { eventId: undefined, frame: "", change: {}, pictures: 0, heardSound: 0, isBeside: false };
  const say = (textTokens: number, itemSound = 0) =>
    context.add({ ...event, type: "conversation.item.create", textTokens, itemSound });
  const askFor = () => context.add({ ...event, type: "response.create", textTokens: 0, itemSound: 0 });
  const read = () => [context.requested().inputTokens, context.requested().units.audioInputTokens];
  say(1_000);
  askFor();
  // The provider may begin before it has this, and say so behind it.
  say(30, 38_400);
  const first = context.begin(true);
  say(5);
  context.answered({ inputTokens: 900n, outputTokens: 100n }, first, true);
  assert.deepEqual(read(), [1_035, 6n]);
  // It begins by itself when somebody has spoken.
  context.speak();
  say(7);
  context.commit("item_1");
  const second = context.begin(true);
  context.commit("item_2");
  context.answered({ inputTokens: 2_000n }, second, true);
  assert.deepEqual(read(), [2_007, 0n]);
  askFor();
  const beside = context.begin(false);
  const third = context.begin(true);
  assert.deepEqual(beside, third, "one beside is not what was asked for");
  context.answered({ inputTokens: 10n }, third, false);
  assert.deepEqual(read(), [2_007, 0n], "what is cut short may be counted before it is read");
  context.answered({ inputTokens: 10n }, context.begin(true), true);
  assert.deepEqual(read(), [10, 0n]);
});

test("what is refused, or has ended, beside the conversation is not read by the next response", () => {
  const context = new SessionContext();
  const asked = { type: "response.create", eventId: undefined, frame: "", change: {}, pictures: 0, isBeside: true };
  const ask = (textTokens: number) => context.add({ ...asked, textTokens, itemSound: 0, heardSound: 0 });
  const before = context.requested().inputTokens;
  const read = (): number => context.requested().inputTokens - before;
  ask(500);
  assert.equal(read(), 500);
  context.refusedLast();
  assert.equal(read(), 0);
  ask(300);
  context.answeredBeside();
  context.refusedLast();
  assert.equal(read(), 0);
});

test("sound in fewer bytes that is asked for one response is counted as that, where its provider counts nothing", async () => {
  const relay = await start();
  const { ask, find } = await open(relay);
  const silent = { text: "one two three", usage: "omit" } as const;
  ask(silent, { audio: { output: { format: { type: "audio/pcmu" } } } });
  await find("response.done");
  ask(silent);
  await find("response.done", 2);
  const spoken = charged(relay).map(({ usage }) => usage?.audioOutputTokens);
  assert.deepEqual(spoken, [36n, 6n]);
});

test("how sound is written is what the provider has taken over, and until then what is more for each byte", () => {
  const context = new SessionContext();
  context.change({ heard: "g711", spoken: "g711" });
  context.updated({ audio: { input: { format: { type: "audio/pcmu" } }, output: { format: { type: "audio/pcmu" } } } });
  context.change({ heard: "pcm", spoken: "pcm" });
  assert.deepEqual([context.heard, context.spoken], ["g711", "g711"], "it may refuse the change");
  context.updated({ audio: { input: { format: { type: "audio/pcm" } } }, output_audio_format: "pcm16" });
  assert.deepEqual([context.heard, context.spoken], ["pcm", "pcm"]);
});
