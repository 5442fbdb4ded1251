import assert from "node:assert/strict";
import { once } from "node:events";
import { after, describe, test } from "node:test";
import OpenAI from "openai";
import { ResponsesWebSocketSession } from "openai/lib/responses/responses-websocket-session";
import { ResponsesWS } from "openai/resources/responses/ws";
import { WebSocket } from "ws";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { startSocketRelay } from "../testing/socket-relay.ts";

type Json = Record<string, unknown>;
type Relay = Awaited<ReturnType<typeof startSocketRelay>>;
type Setup = NonNullable<Parameters<typeof startSocketRelay>[1]>;

const finals = ["response.completed", "response.incomplete", "response.failed", "error"];

async function start({ upstream, ...setup }: Setup = {}, limits: Parameters<typeof startSocketRelay>[0] = {}) {
  const relay = await startSocketRelay(limits, { ...setup, upstream: { hasResponsesSocket: true, ...upstream } });
  after(() => relay[Symbol.asyncDispose]());
  return relay;
}

/** A caller who says one thing after the other; `say` gives the event that ends the turn. */
async function open({ port }: Relay) {
  const headers = { authorization: "Bearer sk-right" };
  const webSocket = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers });
  const events: Json[] = [];
  webSocket.on("message", (data) => void events.push(JSON.parse((data as Buffer).toString()) as Json));
  webSocket.on("error", () => undefined);
  const closed = new Promise<number>((resolve) => webSocket.once("close", resolve));
  await once(webSocket, "open");
  after(() => webSocket.terminate());
  const create = (fields: Json = {}): void =>
    webSocket.send(JSON.stringify({ type: "response.create", model: "m", input: "Hi there", ...fields }));
  const ends = () => events.filter(({ type }) => finals.includes(String(type)));
  const say = async (fields: Json = {}): Promise<Json> => {
    const before = ends().length;
    create(fields);
    await until("the end of a turn", () => ends().length > before);
    return ends().at(-1) as Json;
  };
  return { webSocket, events, closed, create, say };
}

const idOf = (event: Json): string => String((event["response"] as Json)["id"]);
const inputTokensOf = (event: Json): unknown => ((event["response"] as Json)["usage"] as Json)["input_tokens"];
const codeOf = (event: Json): unknown => (event["error"] as Json | undefined)?.["code"];
async function lines({ lines: all }: Relay, count: number): Promise<Json[]> {
  const calls = (): Json[] => all.filter((line) => String(line["msg"]).startsWith("call"));
  await until(`${count} lines`, () => calls().length >= count);
  return calls();
}
const isLost = ({ lines: all }: Relay): boolean => all.some((line) => line["msg"] === "upstream socket lost");

/** Requests that came to the provider otherwise than by a socket's frame. */
const overHttp = ({ fake }: Relay): number => fake.received.filter(({ headers }) => !headers["upgrade"]).length;

describe("turns on one socket to the upstream", async () => {
  test("all turns of a caller's socket, each sending only what is new, and each a call of its own", async () => {
    const relay = await start();
    const { say } = await open(relay);
    const first = await say({ store: false });
    const second = await say({ store: false, previous_response_id: idOf(first), input: "And now" });
    assert.deepEqual([first["type"], second["type"]], ["response.completed", "response.completed"]);
    const { frames, handshakes } = relay.fake.sockets;
    assert.deepEqual([handshakes.length, frames.length, overHttp(relay)], [1, 2, 0]);
    assert.deepEqual(frames[1]?.["input"], [{ role: "user", content: "And now" }]);
    assert.equal(frames[0]?.["stream"], undefined);
    assert.notEqual(frames[1]?.["previous_response_id"], idOf(first), "the provider's own id, which callers never see");
    assert.equal((second["response"] as Json)["previous_response_id"], idOf(first));
    // The provider has read all of the conversation, and says so.
    assert.equal(inputTokensOf(second), 2 + 8 + 2);
    const [one, other] = await lines(relay, 2);
    assert.notEqual(one?.["rid"], other?.["rid"]);
    assert.equal(handshakes[0]?.authorization, "Bearer demo");
  });

  test("the official client's session calls a tool and goes on", async () => {
    const relay = await start();
    const socket = new ResponsesWS(new OpenAI({ baseURL: `${relay.url}/v1`, apiKey: "sk-right", maxRetries: 0 }));
    after(() => socket.close());
    const limits = { maxLanes: 2, maxBufferedEvents: 1_000, maxBufferedBytes: 1_000_000 };
    const lane = new ResponsesWebSocketSession(socket, limits).lane("main");
    await new Promise<void>((resolve) => socket.socket.on("open", resolve));
    const asked = behaviourText({ tools: [{ name: "look", arguments: { where: "here" } }] });
    const tools = [{ type: "function" as const, name: "look", parameters: { type: "object" }, strict: false }];
    lane.create({ model: "m", store: false, tools, input: [{ role: "user", content: asked }] });
    const first = await lane.finalResponse();
    const call = first.output.find((item) => item.type === "function_call");
    assert.equal(call?.name, "look");
    const result = { type: "function_call_output" as const, call_id: call?.call_id ?? "", output: "sunny" };
    const next = { role: "user" as const, content: behaviourText({ text: "It is sunny" }) };
    lane.create({ model: "m", store: false, tools, input: [result, next], previous_response_id: first.id });
    assert.equal((await lane.finalResponse()).output_text, "It is sunny");
    const { frames } = relay.fake.sockets;
    assert.deepEqual([frames.length, overHttp(relay), (frames[1]?.["input"] as Json[] | undefined)?.length], [2, 0, 2]);
  });

  test("a fork from a response that the provider has forgotten is said again in full, in the same call", async () => {
    const relay = await start();
    const { say } = await open(relay);
    const first = await say({ store: false });
    await say({ store: false, previous_response_id: idOf(first), input: "One" });
    // Only the latest is remembered there; the relay still has it.
    const fork = await say({ store: false, previous_response_id: idOf(first), input: "Other" });
    assert.equal(fork["type"], "response.completed");
    assert.equal(inputTokensOf(fork), 2 + 8 + 1);
    assert.deepEqual([relay.fake.sockets.frames.length, overHttp(relay)], [4, 0], "forgotten, and said again");
    const whole = await say({ store: false, input: "All of it" });
    assert.equal(inputTokensOf(whole), 3);
    assert.equal((await lines(relay, 4)).length, 4, "what is said again is the same call");
  });

  test("a turn that runs beside another goes over HTTP", async () => {
    const relay = await start();
    const { create, events, say } = await open(relay);
    create({ stream_id: "a", input: behaviourText({ text: "one two three four five six", gapMs: 50 }) });
    await until("it runs", () => events.some(({ type }) => type === "response.created"));
    const other = await say({ stream_id: "b" });
    assert.equal(other["stream_id"], "b");
    await until("both", () => events.filter(({ type }) => type === "response.completed").length === 2);
    assert.deepEqual([relay.fake.sockets.frames.length, overHttp(relay)], [1, 1]);
  });

  test("another upstream has the socket when two turns in a row go there", async () => {
    const relay = await start();
    const { say } = await open(relay);
    await say();
    await say({ model: "other" });
    await say();
    assert.deepEqual([relay.fake.sockets.handshakes.length, overHttp(relay)], [1, 1]);
    await say({ model: "other" });
    await say({ model: "other" });
    assert.deepEqual([relay.fake.sockets.handshakes.length, overHttp(relay)], [2, 2]);
    await until("the first is closed", () => relay.fake.sockets.open.size === 1);
  });

  test("the upstream waits for a caller who does not read", async () => {
    const relay = await start();
    const { webSocket, events, create } = await open(relay);
    webSocket.pause();
    create({ input: behaviourText({ textBytes: 4_000_000, chunks: 200 }) });
    await until("it stands still", () => [...relay.relay.live].some((call) => call.stalledMs() > 0));
    webSocket.resume();
    await until("the end", () => events.some(({ type }) => type === "response.completed"));
    assert.ok(events.filter(({ type }) => type === "response.output_text.delta").length >= 200);
    assert.equal(overHttp(relay), 0);
  });
});

describe("what goes over HTTP instead", async () => {
  test("all turns where the upstream opens no socket, which is asked for one once", async () => {
    const relay = await start();
    relay.fake.sockets.refusedWith = 404;
    const { say } = await open(relay);
    const first = await say();
    const second = await say({ previous_response_id: idOf(first) });
    assert.equal(second["type"], "response.completed");
    assert.deepEqual([relay.fake.sockets.handshakes.length, overHttp(relay)], [1, 2]);
  });

  test("a turn whose connection is as old as the provider lets it become; the next has a new one", async () => {
    const relay = await start();
    const { say } = await open(relay);
    const first = await say();
    relay.fake.scriptNext({ status: 400, error: { code: "websocket_connection_limit_reached" } });
    const second = await say({ previous_response_id: idOf(first), input: "More" });
    assert.deepEqual([second["type"], inputTokensOf(second)], ["response.completed", 11]);
    assert.equal(overHttp(relay), 1);
    await say({ previous_response_id: idOf(second), input: "More" });
    assert.deepEqual([relay.fake.sockets.handshakes.length, overHttp(relay)], [2, 1]);
  });

  test("a turn before which the provider closes the socket, in the moment it is sent", async () => {
    const relay = await start();
    const { say } = await open(relay);
    const first = await say();
    // Nothing of the answer comes, and the provider says by its close frame that nothing will.
    relay.fake.scriptNext({ fault: { kind: "end-early", afterFrames: 0 } });
    const second = await say({ previous_response_id: idOf(first), input: "More" });
    assert.deepEqual([second["type"], inputTokensOf(second), overHttp(relay)], ["response.completed", 11, 1]);
  });
});

describe("sockets that are lost", async () => {
  test("between turns: the next opens another and sends all of the conversation", async () => {
    const relay = await start();
    const { say } = await open(relay);
    const first = await say({ store: false });
    for (const socket of relay.fake.sockets.open) socket.terminate();
    await until("it is noticed", () => isLost(relay));
    const second = await say({ store: false, previous_response_id: idOf(first), input: "More" });
    assert.deepEqual([second["type"], inputTokensOf(second)], ["response.completed", 11]);
    assert.deepEqual([relay.fake.sockets.handshakes.length, overHttp(relay)], [2, 0]);
  });

  test("without a word between turns", async () => {
    const relay = await start({}, { pingMs: 400 });
    const { say } = await open(relay);
    await say();
    for (const socket of relay.fake.sockets.open) socket.pause();
    await until("it is noticed", () => isLost(relay));
    assert.equal((await say())["type"], "response.completed");
  });

  test("in the middle of a turn: charged as a stream that is cut, and the caller's socket goes on", async () => {
    const relay = await start();
    const { say } = await open(relay);
    const text = "one two three four five";
    const cut = await say({ input: behaviourText({ text, fault: { kind: "cut", afterChunks: 3 } }) });
    assert.equal(cut["type"], "error");
    const [line] = await lines(relay, 1);
    assert.equal(line?.["end"], "upstream_cut");
    assert.ok(Number(line?.["chargedNanos"]) > 0);
    assert.equal((await say())["type"], "response.completed");
    assert.deepEqual([relay.fake.sockets.handshakes.length, overHttp(relay)], [2, 0]);
  });

  test("before anything of a turn came, which nobody is asked again: it may have been done", async () => {
    const relay = await start();
    const { say } = await open(relay);
    await say();
    relay.fake.scriptNext({ fault: { kind: "reset-before-headers" } });
    const lost = await say({ model: "both" });
    assert.deepEqual([lost["type"], lost["status"]], ["error", 500]);
    const [, line] = await lines(relay, 2);
    assert.equal(line?.["chargedNanos"], "0");
    assert.deepEqual([relay.fake.sockets.frames.length, overHttp(relay)], [2, 0]);
  });

  test("when nothing comes for too long, at first and between two events", async () => {
    const relay = await start({ upstream: { firstByteTimeoutMs: 100, idleTimeoutMs: 100 } });
    const { say } = await open(relay);
    const late = await say({ input: behaviourText({ fault: { kind: "silence" } }) });
    assert.deepEqual([late["type"], late["status"]], ["error", 504]);
    await say({ input: behaviourText({ text: "one two three", fault: { kind: "stall", afterChunks: 1 } }) });
    const [first, second] = await lines(relay, 2);
    assert.deepEqual([first?.["end"], second?.["end"]], ["upstream_timeout", "upstream_timeout"]);
    assert.ok(Number(first?.["chargedNanos"]) === 0 && Number(second?.["chargedNanos"]) > 0);
    await until("both sockets are given up", () => relay.fake.sockets.open.size === 0);
  });
});

describe("what the upstream refuses", async () => {
  for (const [behaviour, status, code] of [
    [{ status: 400 }, 400, "context_length_exceeded"],
    [{ status: 401 }, 503, "service_unavailable"],
    [{ status: 429, retryAfterSeconds: 9 }, 429, "rate_limit_exceeded"],
    [{ status: 500 }, 500, "server_error"],
    [{ status: 503 }, 503, "service_unavailable"],
  ] as const) {
    test(`${behaviour.status} is told as over HTTP, and costs nothing`, async () => {
      const [relay, other] = [await start(), await start({ upstream: { hasResponsesSocket: false } })];
      for (const one of [relay, other]) one.fake.script(behaviour);
      const [told, same] = [await (await open(relay)).say(), await (await open(other)).say()];
      assert.deepEqual([told["status"], codeOf(told), told["error"]], [status, codeOf(same), same["error"]]);
      assert.ok(codeOf(told) === code || code === "server_error");
      const [failed] = await lines(relay, 1);
      assert.equal(failed?.["chargedNanos"], "0");
      assert.deepEqual([relay.fake.sockets.frames.length, overHttp(relay)], [1, 0]);
    });
  }

  test("goes to the next upstream where it may", async () => {
    const relay = await start();
    const { say } = await open(relay);
    relay.fake.scriptNext({ status: 503 });
    assert.equal((await say({ model: "both" }))["type"], "response.completed");
    assert.deepEqual([relay.fake.sockets.frames.length, overHttp(relay)], [1, 1]);
  });

  test("an error among the events ends the turn, and what follows it is nobody's", async () => {
    const relay = await start();
    const { events, say } = await open(relay);
    const text = "one two three";
    await say({ input: behaviourText({ text, fault: { kind: "error-event", afterChunks: 1 } }) });
    await until("how it ended", () => events.some(({ type }) => type === "response.failed"));
    assert.equal((await say())["type"], "response.completed");
    assert.equal(relay.fake.sockets.handshakes.length, 2);
  });
});

describe("who leaves", async () => {
  const slow = behaviourText({ text: "one two three four five six", gapMs: 30 });

  test("a caller whose answer is read on: charged as the provider counts, and the socket is closed then", async () => {
    const relay = await start();
    const { webSocket, events, create } = await open(relay);
    create({ input: slow });
    await until("it runs", () => events.some(({ type }) => type === "response.output_text.delta"));
    webSocket.terminate();
    const [line] = await lines(relay, 1);
    assert.equal(line?.["end"], "client_gone");
    assert.equal(relay.fake.truth[0]?.ended, "whole");
    await until("it is closed", () => relay.fake.sockets.open.size === 0);
  });

  test("a caller whose answer is stopped: only the end of the socket stops the provider", async () => {
    const relay = await start({ upstream: { onCallerGone: { action: "abort" } } });
    const { webSocket, events, create } = await open(relay);
    create({ input: behaviourText({ text: "one two three four", gapMs: 60_000 }) });
    await until("it runs", () => events.some(({ type }) => type === "response.created"));
    webSocket.terminate();
    await lines(relay, 1);
    await until("it is stopped", () => relay.fake.truth[0]?.ended === "client-gone");
  });

  test("the relay: turns end first, and the sockets on both sides are closed", async () => {
    const relay = await start();
    const { events, closed, create } = await open(relay);
    create({ input: slow });
    await until("it runs", () => events.some(({ type }) => type === "response.created"));
    relay.relay.isDraining = true;
    relay.app.sockets.drain();
    assert.equal(await closed, 1012);
    assert.ok(events.some(({ type }) => type === "response.completed"));
    await until("the other is closed", () => relay.fake.sockets.open.size === 0);
  });
});
