import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Verdict, type Operation } from "#proto/authquota/v1/authquota_pb.ts";
import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { until } from "#shared/testing/until.ts";
import {
  bucketsOf,
  charged,
  heldOf,
  open,
  partOf,
  quotaOf,
  refused,
  start,
  type Json,
} from "../../testing/realtime-client.ts";

describe("a session passes events both ways", async () => {
  const relay = await start();

  test("by the names that each side has for the model, without what is the provider's own", async () => {
    const { events, send, find } = await open(relay);
    const [created] = await find("session.created");
    assert.equal(partOf(created, "session")["client_secret"], undefined);
    send({ type: "session.update", session: { type: "realtime", model: "talk", instructions: "Be brief." } });
    await find("session.updated");
    const sent = partOf(relay.fake.realtime.at(-1), "session");
    assert.deepEqual([sent["model"], sent["instructions"]], ["gpt-talk", "Be brief."]);
    assert.match(relay.fake.handshakes.at(-1)?.url ?? "", /model=gpt-talk$/);
    assert.equal(relay.fake.handshakes.at(-1)?.headers.authorization, "Bearer demo");
    assert.ok(!events.some(({ type }) => type === "error"));
  });

  test("charges a response by what its provider counts, before the caller has its end", async () => {
    const before = charged(relay).length;
    const { ask, find } = await open(relay);
    const usage = { inputTokens: 100, cacheReadTokens: 40, audioInputTokens: 30, imageInputTokens: 7 };
    ask({ text: "one two", usage: { ...usage, outputTokens: 5, audioOutputTokens: 50 } });
    await find("response.done");
    const [record] = charged(relay).slice(before);
    assert.ok(record);
    const told = Object.entries({ ...usage, outputTokens: 5, audioOutputTokens: 50 });
    const sorted = (buckets: [string, unknown][]) => buckets.toSorted(([one], [other]) => (one < other ? -1 : 1));
    assert.deepEqual(sorted(bucketsOf(record)), sorted(told.map(([name, count]) => [name, BigInt(count)])));
    // (100 × 4 + 40 × 0.4 + 30 × 32 + 7 × 5 + 5 × 16 + 50 × 64) USD / 1,000,000
    assert.equal(record.costNanos, 4_691_000n);
    assert.deepEqual([record.endpoint, record.modelServed], ["/v1/realtime", "gpt-talk"]);
    assert.deepEqual([record.usageSource, record.endCause], [UsageSource.PROVIDER, EndCause.COMPLETE]);
    const [created] = await find("response.created");
    assert.deepEqual(created?.["headers"], { "x-request-id": record.rid });
  });

  test("a response that its provider begins by itself was held for", async () => {
    const { send, find } = await open(relay);
    const before = charged(relay).length;
    const audio = { input: { turn_detection: { type: "server_vad" } } };
    send({ type: "session.update", session: { type: "realtime", audio } });
    send({ type: "input_audio_buffer.append", audio: Buffer.alloc(48_000).toString("base64") });
    await find("response.done");
    const [record] = charged(relay).slice(before);
    assert.ok(record && record.heldNanos > 0n);
    assert.equal(record.usage?.audioInputTokens, 10n);
  });

  test("responses beside the conversation are calls of their own", async () => {
    const { ask, send, find } = await open(relay);
    const before = charged(relay).length;
    ask({ fault: { kind: "stall" }, text: "slow" });
    await find("response.created");
    send({ type: "conversation.item.create", item: { type: "message", role: "user", content: [] } });
    send({ type: "response.create", response: { conversation: "none", input: [] } });
    await find("response.created", 2);
    const [first] = await find("response.created");
    const id = partOf(first, "response")["id"];
    send({ type: "response.cancel", response_id: id });
    await find("response.done");
    assert.equal(charged(relay).length - before, 1);
    assert.equal(charged(relay).at(-1)?.usageSource, UsageSource.PROVIDER);
  });
});

describe("what a caller may not do", async () => {
  const relay = await start();
  const session = (fields: Json): Json => ({ type: "session.update", session: { type: "realtime", ...fields } });
  const item = (content: Json): Json => ({
    type: "conversation.item.create",
    item: { type: "message", role: "user", content: [content] },
  });
  const rows: [what: string, event: Json, message: RegExp][] = [
    ["another model", session({ model: "m" }), /session\.model must be talk/],
    ["the upstream's own name of a model", session({ model: "gpt-talk" }), /session\.model must be talk/],
    ["a session of another type", session({ type: "transcription" }), /session\.type/],
    ["a tool that is billed apart", session({ tools: [{ type: "web_search" }] }), /web_search/],
    ["one in a response", { type: "response.create", response: { tools: [{ type: "file_search" }] } }, /file_search/],
    [
      "what is heard, in a response",
      { type: "response.create", response: { audio: { input: {} } } },
      /audio\.input is/,
    ],
    ["a prompt of somebody else", session({ prompt: { id: "pmpt_1" } }), /session\.prompt names nothing/],
    ["a voice of somebody else", session({ audio: { output: { voice: { id: "voice_1" } } } }), /voice names nothing/],
    ["a model to write with that is none", session({ audio: { input: { transcription: { model: "x" } } } }), /x does/],
    ["a field of no client", session({ service_tier: "priority" }), /session\.service_tier is not supported/],
    ["a field in another case", session({ Model: "m" }), /session\.Model is not supported/],
    ["a field beside the session", { ...session({}), model: "m" }, /field model is not supported/],
    ["an event of no client", { type: "transcription_session.update" }, /not supported/],
    [
      "more values than can be read while others wait",
      item({ type: "x", y: Array(100_000).fill([]) }),
      /too many JSON/,
    ],
    ["an address of the operator's", item({ type: "input_image", image_url: "gs://bucket/x" }), /image_url/],
    ["the same within an object", item({ type: "input_image", image_url: { url: "gs://bucket/x" } }), /image_url/],
    ["a file of the operator's", item({ type: "input_image", file_id: "file-x" }), /content\.file_id is not supported/],
  ];
  for (const [what, event, message] of rows) {
    test(`${what} is refused in an event, and goes nowhere`, async () => {
      const { send, find } = await open(relay);
      const before = relay.fake.realtime.length;
      send({ ...event, event_id: "e1" });
      send({ type: "input_audio_buffer.clear" });
      const [error] = await find("error");
      assert.match(String(partOf(error, "error")["message"]), message);
      await until("the next one is there", () => relay.fake.realtime.length > before);
      assert.equal(relay.fake.realtime.at(-1)?.["type"], "input_audio_buffer.clear");
    });
  }

  test("nothing that is no JSON, no text, or again and again wrong", async () => {
    const { webSocket, find, closed } = await open(relay);
    webSocket.send("{");
    webSocket.send(Buffer.from("x"));
    const errors = await find("error", 2);
    for (const { error } of errors) assert.match(String((error as Json)["message"]), /invalid JSON/);
    webSocket.send(`{"type":"conversation.item.create","item":${"[".repeat(50_000)}${"]".repeat(50_000)}}`);
    await find("error", 3);
    for (let count = 0; count < 40; count += 1) webSocket.send("{}");
    assert.equal(await closed, 1008);
  });
});

describe("who is let in", async () => {
  test("errors of HTTP before a session begins, and nothing stays held", async () => {
    const relay = await start();
    assert.equal((await refused(relay, { options: { headers: {} } }))[0], 401);
    assert.deepEqual((await refused(relay, { model: "x" }))[1]["code"], "model_not_found");
    assert.match(String((await refused(relay, { model: "hear" }))[1]["message"]), /audio\/transcriptions/);
    assert.match(String((await refused(relay, { query: "" }))[1]["message"]), /model is required/);
    assert.match(String((await refused(relay, { query: "call_id=rtc_1" }))[1]["message"]), /WebRTC and SIP/);
    assert.match(String((await refused(relay, { query: "intent=transcription" }))[1]["message"]), /intent/);
    relay.fake.scriptNext({ status: 429 });
    assert.deepEqual((await refused(relay))[0], 429);
    await until("all is given back", () => heldOf(relay) === 0);
    assert.equal(relay.relay.live.size, 0);
  });

  test("a caller without money hears so before the session, and a key of other models that there is none", async () => {
    const answer = ({ case: name }: Operation["operation"]) =>
      name === "reserve" ? { verdict: Verdict.BALANCE } : { accountId: "acct_1", models: ["m"] };
    const relay = await start({}, { answer });
    assert.equal((await refused(relay, { model: "talk" }))[1]["code"], "model_not_found");
    const poor = await start({}, { answer: (one) => ({ ...answer(one), models: [] }) });
    assert.deepEqual(await refused(poor).then(([status, { code }]) => [status, code]), [403, "insufficient_quota"]);
  });

  test("a page names its key among the protocols", async () => {
    const relay = await start();
    const protocols = ["realtime", "openai-insecure-api-key.sk-right"];
    const { webSocket } = await open(relay, { protocols, options: { headers: {} } });
    assert.equal(webSocket.protocol, "realtime");
  });
});

/** Yes to all, and no to holds from the one of this number on. */
function poorFrom(number: number) {
  let holds = 0;
  return (operation: Operation["operation"]) => {
    const heldNanos = operation.case === "reserve" ? operation.value.estimateNanos : 0n;
    if (operation.case === "reserve" && (holds += 1) >= number) return { verdict: Verdict.BALANCE };
    return { accountId: "acct_1", keyId: "key_1", heldNanos };
  };
}

describe("money of a session", async () => {
  test("without money for the next response it is told so and closed; what was served is charged", async () => {
    const relay = await start({}, { answer: poorFrom(2) });
    const { ask, find, closed } = await open(relay);
    ask({ text: "one" });
    const [error] = await find("error");
    assert.equal(partOf(error, "error")["code"], "insufficient_quota");
    assert.equal(await closed, 1008);
    assert.equal(charged(relay).length, 1);
    await until("all is given back", () => heldOf(relay) === 1);
  });

  test("what is held grows with what was said", async () => {
    const relay = await start();
    const { say, find, send } = await open(relay);
    say("word ".repeat(20_000));
    send({ type: "session.update", session: { type: "realtime" } });
    await find("session.updated");
    const [extend] = quotaOf(relay).of("extend");
    assert.ok(extend && extend.totalNanos > 80_000_000n, `${extend?.totalNanos}`);
  });

  test("a response that outgrows what is held, and gets no more, is cut and charged", async () => {
    const answer = ({ case: name }: Operation["operation"]) => ({
      accountId: "acct_1",
      keyId: "key_1",
      heldNanos: 1_000n,
      verdict: name === "extend" ? Verdict.BALANCE : Verdict.OK,
    });
    const relay = await start({}, { answer });
    const { send, find, closed } = await open(relay);
    send({ type: "response.create", response: {} });
    await find("error");
    assert.equal(await closed, 1008);
  });

  test("a provider that counts nothing is charged for by what was sent", async () => {
    const relay = await start();
    const { ask, find } = await open(relay);
    ask({ text: "one two three", usage: "omit" });
    await find("response.done");
    const [record] = charged(relay);
    assert.equal(record?.usageSource, UsageSource.ESTIMATED);
    // Three words of 100 ms of sound each.
    assert.equal(record.usage?.audioOutputTokens, 6n);
    assert.ok((record.usage.inputTokens ?? 0n) > 100n);
  });

  test("counts that cannot be are not charged", async () => {
    const relay = await start();
    const { ask, find } = await open(relay);
    ask({ text: "one", usage: { outputTokens: 10_000_000, audioOutputTokens: 10_000_000 } });
    await find("response.done");
    const [record] = charged(relay);
    assert.ok(record && record.costNanos > 0n && record.costNanos < 2_000_000_000_000n, `${record?.costNanos}`);
  });

  test("a response that failed before any content costs nothing", async () => {
    const relay = await start();
    const { ask, find } = await open(relay);
    ask({ text: "", fault: { kind: "failed-event" }, usage: "omit" }, { output_modalities: ["text"] });
    await find("response.done");
    assert.equal(charged(relay)[0]?.costNanos, 0n);
    assert.equal(charged(relay)[0]?.endCause, EndCause.UPSTREAM_ERROR);
  });

  test("what is heard and written down is a call of the model that writes", async () => {
    const relay = await start();
    const { send, find } = await open(relay);
    const audio = { input: { transcription: { model: "hear" } } };
    send({ type: "session.update", session: { type: "realtime", audio } });
    send({ type: "input_audio_buffer.append", audio: Buffer.alloc(96_000).toString("base64") });
    send({ type: "input_audio_buffer.commit" });
    await find("conversation.item.input_audio_transcription.completed");
    const [record] = charged(relay);
    assert.deepEqual([record?.modelRequested, record?.usage?.mediaMs, record?.costNanos], ["hear", 2_000n, 200_000n]);
    const sent = relay.fake.realtime.find(({ type }) => type === "session.update");
    assert.match(JSON.stringify(sent), /"transcription":\{"model":"whisper"\}/);
  });

  test("a session that is priced by its time is one call", async () => {
    const relay = await start();
    const { ask, find, webSocket } = await open(relay, { model: "timed" });
    ask({ text: "one" });
    await find("response.done");
    assert.equal(charged(relay).length, 0);
    webSocket.close();
    await until("it is charged", () => charged(relay).length === 1);
    const [record] = charged(relay);
    assert.ok(record && (record.usage?.mediaMs ?? 0n) > 0n && record.costNanos > 0n);
    assert.equal(heldOf(relay), 0);
  });
});

describe("how a session ends", async () => {
  test("a caller who leaves has the response stopped, and pays what the provider then counts", async () => {
    const relay = await start();
    const { ask, find, webSocket } = await open(relay);
    ask({ fault: { kind: "stall" }, usage: { outputTokens: 3 } });
    await find("response.created");
    webSocket.close();
    await until("it is charged", () => charged(relay).length === 1);
    const [record] = charged(relay);
    assert.deepEqual([record?.endCause, record?.usageSource], [EndCause.CLIENT_GONE, UsageSource.PROVIDER]);
    await until("all is given back", () => heldOf(relay) === 0 && relay.relay.live.size === 0);
    assert.ok(relay.fake.realtime.some(({ type }) => type === "response.cancel"));
  });

  test("a provider that breaks off is told, and what came is charged", async () => {
    const relay = await start();
    const { ask, find, closed } = await open(relay);
    ask({ text: "one two", fault: { kind: "cut" } });
    await find("response.created");
    assert.equal(await closed, 1011);
    const [record] = charged(relay);
    assert.deepEqual([record?.endCause, record?.usageSource], [EndCause.UPSTREAM_CUT, UsageSource.ESTIMATED]);
    await until("all is given back", () => heldOf(relay) === 0 && relay.relay.live.size === 0);
  });

  test("errors of a provider pass without its insides", async () => {
    const { ask, find } = await open(await start());
    ask({ text: "one", fault: { kind: "error-event" } });
    const [error] = await find("error");
    assert.equal(partOf(error, "error")["message"], "[hidden] [hidden] failed");
  });

  test("a relay that stops lets the response under way end, and closes", async () => {
    const relay = await start();
    const [idle, busy] = [await open(relay), await open(relay)];
    busy.ask({ fault: { kind: "stall" } });
    const [created] = await busy.find("response.created");
    relay.relay.isDraining = true;
    relay.app.sockets.drain();
    assert.equal(await idle.closed, 1012);
    busy.send({ type: "response.create" });
    await busy.find("error");
    busy.send({ type: "response.cancel", response_id: partOf(created, "response")["id"] });
    assert.equal(await busy.closed, 1012);
    await until("all is given back", () => heldOf(relay) === 0);
  });

  test("the key of a session is looked at beside its responses", async () => {
    let asked = 0;
    const answer = ({ case: name }: Operation["operation"]) => {
      if (name === "authorize") asked += 1;
      return { accountId: "acct_1", keyId: "key_1", verdict: asked > 1 ? Verdict.KEY_INVALID : Verdict.OK };
    };
    const { closed } = await open(await start({}, { answer }));
    assert.equal(await closed, 1008);
  });

  test("a caller who sends faster than sound is said waits, and nothing of it is lost", async () => {
    const relay = await start();
    const { send } = await open(relay);
    for (let number = 0; number < 2_500; number += 1) send({ type: "input_audio_buffer.append", audio: "AAAA" });
    await until("all are there", () => relay.fake.realtime.length === 2_500);
  });

  test("at its age, with the provider's own code", async () => {
    const { closed, find } = await open(await start({ maxAgeMs: 50 }));
    const [error] = await find("error");
    assert.equal(partOf(error, "error")["code"], "session_expired");
    assert.equal(await closed, 1001);
  });
});
