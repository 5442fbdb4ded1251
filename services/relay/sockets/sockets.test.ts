import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { after, describe, test } from "node:test";
import { WebSocket, type ClientOptions } from "ws";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import type { ScriptedQuota } from "../testing/fakes.ts";
import { startSocketRelay } from "../testing/socket-relay.ts";

type Json = Record<string, unknown>;
type Relay = Awaited<ReturnType<typeof startSocketRelay>>;

const key = { authorization: "Bearer sk-right" };

async function start(...setup: Parameters<typeof startSocketRelay>): Promise<Relay> {
  const relay = await startSocketRelay(...setup);
  after(() => relay[Symbol.asyncDispose]());
  return relay;
}

async function open({ port }: Relay, options: ClientOptions = {}) {
  const webSocket = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers: key, ...options });
  const events: Json[] = [];
  webSocket.on("message", (data) => void events.push(JSON.parse((data as Buffer).toString()) as Json));
  const closed = new Promise<number>((resolve) => webSocket.once("close", resolve));
  await once(webSocket, "open");
  webSocket.on("error", () => undefined);
  after(() => webSocket.terminate());
  const create = (fields: Json = {}): void =>
    webSocket.send(JSON.stringify({ type: "response.create", model: "m", input: "Hi", ...fields }));
  const find = (type: string, count = 1) =>
    until(`${count} ${type}`, () =>
      events.filter((event) => event["type"] === type).length >= count ? events : undefined,
    );
  return { webSocket, events, closed, create, find };
}

async function refused({ port }: Relay, headers: Record<string, string> = key): Promise<[status: number, error: Json]> {
  const webSocket = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers });
  webSocket.on("error", () => undefined);
  const [, response] = (await once(webSocket, "unexpected-response")) as [unknown, IncomingMessage];
  const pieces: Buffer[] = [];
  for await (const piece of response) pieces.push(piece as Buffer);
  return [response.statusCode ?? 0, (JSON.parse(Buffer.concat(pieces).toString()) as { error: Json }).error];
}

/** Sends raw bytes; gives all that comes until the connection closes. */
async function exchange(port: number, ...writes: (string | Buffer)[]): Promise<string> {
  const socket: Socket = connect(port, "127.0.0.1");
  let text = "";
  socket.on("error", () => undefined).on("data", (chunk) => (text += chunk.toString("latin1")));
  for (const bytes of writes) socket.write(bytes);
  await once(socket, "close");
  return text;
}

const handshake = (fields = ""): string =>
  "GET /v1/responses HTTP/1.1\r\nHost: relay\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
  `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${"A".repeat(22)}==\r\n${fields}\r\n`;
const bearer = "Authorization: Bearer sk-right\r\n";

describe("who is let in", async () => {
  test("a wrong or missing key is 401, maintenance and a relay that stops are 503", async () => {
    const relay = await start({}, { answer: () => ({ verdict: Verdict.KEY_INVALID }) });
    assert.equal((await refused(relay))[0], 401);
    assert.equal((await refused(relay, {}))[0], 401);
    assert.equal((await refused(relay, { "x-api-key": "sk-right" }))[0], 401);
    relay.state.isMaintenance = true;
    assert.equal((await refused(relay))[0], 503);
    relay.state.isMaintenance = false;
    relay.relay.isDraining = true;
    assert.deepEqual(await refused(relay).then(([status, { code }]) => [status, code]), [503, "service_unavailable"]);
    assert.equal(relay.app.sockets.size, 0);
  });

  test("no more sockets than the process, and than an account, may have", async () => {
    const narrow = await start({ maxSockets: 1 });
    const first = await open(narrow);
    assert.equal((await refused(narrow))[0], 503);
    first.webSocket.close();
    await until("it is closed", () => narrow.app.sockets.size === 0);
    await open(narrow);
    const shared = await start({ maxPerAccount: 1 });
    await open(shared);
    assert.equal((await refused(shared))[0], 429);
  });

  test("a handshake of another kind is 400; without one the path is 404", async () => {
    const { port } = await start();
    const wrong = handshake(bearer);
    for (const head of [
      wrong.replace("Version: 13", "Version: 12"),
      wrong.replace("AAAA", "A*AA"),
      wrong.replace("Host: relay", "Host: relay\r\nHost: relay"),
    ]) {
      assert.match(await exchange(port, head), /^HTTP\/1\.1 400 .*The request could not be completed/s);
    }
    const plain = handshake(bearer).replace("Upgrade: websocket", "Upgrade: h2c");
    const socket = connect(port, "127.0.0.1");
    socket.write(plain);
    const [answer] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    assert.match(answer.toString(), /^HTTP\/1\.1 404 .*Invalid URL/s);
  });

  test("an offer of HTTP/2 with a call is ignored", async () => {
    const { port } = await start();
    const body = '{"model":"m","input":"Hi"}';
    const head = `POST /v1/responses HTTP/1.1\r\nHost: relay\r\n${bearer}Connection: close, Upgrade, HTTP2-Settings\r\n`;
    const offer = "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Type: application/json\r\n";
    const answer = await exchange(port, `${head}${offer}Content-Length: ${body.length}\r\n\r\n${body}`);
    assert.match(answer, /^HTTP\/1\.1 200 .*"object": ?"response"/s);
  });

  test("a handshake behind a plain call has its turn when that is answered", async () => {
    const relay = await start();
    const socket = connect(relay.port, "127.0.0.1");
    const body = '{"model":"m","input":"Hi"}';
    const head = `POST /v1/responses HTTP/1.1\r\nHost: relay\r\n${bearer}Content-Type: application/json\r\n`;
    socket.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}${handshake(bearer)}`);
    let answers = "";
    socket.on("data", (chunk: Buffer) => (answers += chunk.toString()));
    await until("both are answered", () => /^HTTP\/1\.1 200 .*HTTP\/1\.1 101 /s.test(answers));
    socket.destroy();
  });

  test("behind a call that node:http answers it closes the connection, and nothing else breaks", async () => {
    const relay = await start();
    const body = JSON.stringify({ model: "m", input: behaviourText({ headersAfterMs: 60_000 }) });
    const plain = `POST /v1/responses HTTP/1.1\r\nHost: relay\r\n${bearer}Content-Type: application/json\r\n`;
    const head = `${plain}TE: trailers\r\n`;
    await exchange(relay.port, `${head}Content-Length: ${body.length}\r\n\r\n${body}`, handshake(bearer));
    const { create, find } = await open(relay);
    create();
    await find("response.completed");
  });
});

describe("what is no turn", async () => {
  const relay = await start({ maxRefused: 5 });

  test("each wrong frame is told, and several in a row close the socket", async () => {
    const { webSocket, events, closed, create, find } = await open(relay);
    for (const frame of ["{", "[]", '{"type":"x"}', Buffer.from("{}")]) webSocket.send(frame);
    await find("error", 4);
    assert.deepEqual(new Set(events.map(({ status }) => status)), new Set([400]));
    create();
    await find("response.completed");
    for (let number = 0; number < 5; number += 1) webSocket.send("{");
    assert.equal(await closed, 1008);
    await until("its line", () =>
      relay.lines.some((line) => line["msg"] === "socket closed" && line["end"] === "misuse"),
    );
  });

  test("so do notes that ask for nothing, without a turn between them", async () => {
    const { webSocket, closed } = await open(relay);
    for (let number = 0; number < 5; number += 1) webSocket.send('{"type":"response.processed"}');
    assert.equal(await closed, 1008);
  });

  test("what the endpoint refuses over HTTP is told in its words, and the socket goes on", async () => {
    const { events, create, find } = await open(relay);
    create({ model: undefined });
    create({ background: true });
    create({ model: "unknown" });
    create({ input: { a: 1 } });
    await find("error", 4);
    const told = events.map(({ status, error }) => [status, (error as Json)["message"]]);
    assert.deepEqual(told, [
      [400, "field model is required"],
      [400, "field background must not be true"],
      [503, "The model unknown does not exist or is not available"],
      [400, "field input must be a string or an array"],
    ]);
    create();
    await find("response.completed");
  });

  test("injecting into a response is not supported, and told with what was sent", async () => {
    const { webSocket, events, find } = await open(relay);
    const input = [{ type: "function_call_output", call_id: "c", output: "x" }];
    webSocket.send(JSON.stringify({ type: "response.inject", response_id: "resp_1", input }));
    await find("response.inject.failed");
    const { error, input: returned, response_id: responseId } = events[0] ?? {};
    assert.equal((error as { code?: string }).code, "response_not_found");
    assert.deepEqual([returned, responseId], [input, "resp_1"]);
  });

  test("steering is not supported, and told with what was sent", async () => {
    const { webSocket, events, find } = await open(relay);
    webSocket.send(JSON.stringify({ type: "response.steer", previous_response_id: "resp_1", input: "Stop." }));
    await find("response.steer.failed");
    assert.deepEqual(events[0]?.["steer"], { input: "Stop.", previous_response_id: "resp_1" });
  });

  test("a frame that says it is larger than 4 MiB closes the socket before it comes", async () => {
    const answer = exchange(
      relay.port,
      handshake(bearer),
      Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0x00, 0x40, 0, 1, 0, 0, 0, 0]),
    );
    const code = Buffer.from([1009 >> 8, 1009 & 255]).toString("latin1");
    assert.ok((await answer).endsWith(`\x88\x02${code}`));
  });

  test("a frame in more than 1,024 pieces closes the socket, though all of them are empty", async () => {
    const { webSocket, closed } = await open(await start());
    for (let piece = 0; piece < 1_026; piece += 1) webSocket.send("", { fin: false });
    assert.equal(await closed, 1008);
  });

  test("frames that the account has no room for are refused as bodies are", async () => {
    const small = await start({}, { maxBodyBytes: 1_000_000 });
    const { events, closed, create, find } = await open(small);
    create({ input: "x".repeat(2_000_000) });
    await find("error");
    assert.equal(events[0]?.["status"], 503);
    assert.equal(await closed, 1013);
    await until("the room is free again", () => small.relay.bodyBudget.bytes() === 0);
    assert.equal(events.length, 1, "told once");
  });
});

describe("how a socket ends", async () => {
  test("without a turn for too long, and no sooner than that", async () => {
    const { closed } = await open(await start({ idleMs: 50 }));
    assert.equal(await closed, 1001);
  });

  test("at its age: a turn under way ends first, and the provider's code says why", async () => {
    const { events, closed, create } = await open(await start({ maxAgeMs: 2_000 }));
    create({ input: behaviourText({ text: "one two three four", firstChunkAfterMs: 2_500 }) });
    assert.equal(await closed, 1001);
    const types = events.map(({ type }) => type);
    assert.ok(types.includes("response.completed"));
    const { error, status } = events.at(-1) ?? {};
    assert.deepEqual([status, (error as Json)["code"]], [400, "websocket_connection_limit_reached"]);
  });

  test("whose key was stopped, without another turn; what auth-quota cannot decide ends none", async () => {
    let verdict: Verdict = Verdict.UNAVAILABLE;
    let asked = 0;
    const answer = () => {
      asked += 1;
      return { accountId: "acct_1", keyId: "key_1", verdict: asked === 1 ? Verdict.OK : verdict };
    };
    const { closed } = await open(await start({}, { answer }));
    await until("it was looked at", () => asked > 3);
    verdict = Verdict.KEY_INVALID;
    assert.equal(await closed, 1008);
  });

  test("keys are looked at once for all of their sockets, and in turn where there are many", async () => {
    const relay = await start({ maxKeyChecks: 1 });
    const secrets = ["sk-a", "sk-a", "sk-b"];
    for (const secret of secrets) await open(relay, { headers: { authorization: `Bearer ${secret}` } });
    const quota = relay.relay.settling.quota as ScriptedQuota;
    const asked = () => quota.of("authorize").map(({ keyHash }) => Buffer.from(keyHash ?? []).toString("hex"));
    const opened = asked().length;
    await until("several rounds", () => asked().length >= opened + 6);
    const [first, second, third, fourth] = asked().slice(opened);
    assert.deepEqual([third, fourth], [first, second]);
    assert.notEqual(first, second);
  });

  test("whose caller is gone without a word", async () => {
    const relay = await start({ pingMs: 30 });
    const { closed } = await open(relay, { autoPong: false });
    assert.equal(await closed, 1006);
    await until("its line", () =>
      relay.lines.some((line) => line["msg"] === "socket closed" && line["end"] === "silent"),
    );
  });

  test("a caller who answers pings stays", async () => {
    const relay = await start({ pingMs: 2_000 });
    const { webSocket, create, find } = await open(relay);
    let pings = 0;
    webSocket.on("ping", () => (pings += 1));
    await until("a ping", () => pings > 0);
    create();
    await find("response.completed");
  });

  test("a relay that stops ends idle sockets at once, takes no turn, and lets those under way end", async () => {
    const relay = await start();
    const [idle, busy] = [await open(relay), await open(relay)];
    busy.create({ stream_id: "a", input: behaviourText({ text: "one two three", gapMs: 100 }) });
    busy.create({ stream_id: "a" });
    await busy.find("response.created");
    relay.relay.isDraining = true;
    relay.app.sockets.drain();
    assert.equal(await idle.closed, 1012);
    busy.create({ stream_id: "b" });
    assert.equal(await busy.closed, 1012);
    const ends = busy.events.filter(({ type }) => type === "response.completed" || type === "error");
    const told = new Set(ends.map(({ type, stream_id: stream, status = 200 }) => [type, stream, status].join(" ")));
    assert.deepEqual(told, new Set(["response.completed a 200", "error a 503", "error b 503"]));
  });
});

test("only so many turns wait; the others go on", async () => {
  const relay = await start();
  const { events, create, find } = await open(relay);
  create({ input: behaviourText({ text: "This takes until all others have come.", gapMs: 300 }) });
  for (let number = 1; number < 40; number += 1) create({ input: behaviourText({ text: "Hi." }) });
  await find("response.completed", 33);
  const errors = events.filter(({ type }) => type === "error");
  assert.deepEqual(
    errors.map(({ status, error }) => [status, (error as Json)["code"]]),
    Array.from({ length: 7 }, () => [429, "rate_limit_exceeded"]),
  );
});

test("the upstream waits for a caller who does not read, and nothing of the answer is lost", async () => {
  const relay = await start();
  const { webSocket, events, create, find } = await open(relay);
  webSocket.pause();
  create({ input: behaviourText({ textBytes: 4_000_000, chunks: 200 }) });
  await until("it stands still", () => [...relay.relay.live].some((call) => call.stalledMs() > 0));
  webSocket.resume();
  await find("response.completed");
  const deltas = events.filter(({ type }) => type === "response.output_text.delta");
  assert.ok(deltas.length >= 200, `${deltas.length}`);
});

test("each turn is held and charged by an id of its own, and its line names the socket", async () => {
  const relay = await start();
  const { create, find } = await open(relay);
  create();
  create();
  await find("response.completed", 2);
  const lines = (): Json[] => relay.lines.filter((line) => line["msg"] === "call");
  await until("two lines", () => lines().length === 2);
  const opened = relay.lines.find((line) => line["msg"] === "socket opened");
  assert.deepEqual(new Set(lines().map(({ socket }) => socket)), new Set([opened?.["rid"]]));
  assert.equal(new Set(lines().map(({ rid }) => rid)).size, 2);
});
