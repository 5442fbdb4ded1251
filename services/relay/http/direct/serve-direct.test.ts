import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { after, test } from "node:test";
import { until } from "#shared/testing/until.ts";
import { createBodyBudget } from "../body-budget.ts";
import { readBody } from "../body.ts";
import { respondReply } from "../respond.ts";
import { createPieceWriter } from "../write-pieces.ts";
import { DirectResponse } from "./response.ts";
import { serveDirect } from "./serve-direct.ts";

const path = "/v1/chat/completions";
const budget = createBodyBudget(1_000_000);

/** What a server under test has answered last. */
type Answered = { response: ServerResponse; events: string[] };

/** Answers as the relay does, by the same means: the request as it was read, whole or as a stream. */
function createAnswering(seen: Answered[]): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    const events: string[] = [];
    seen.push({ response, events });
    for (const name of ["finish", "close", "drain"]) {
      response.on(name, () => events.push(`${name} ${response.writableFinished}`));
    }
    const reading = { checkKey: async () => undefined, budget, owner: { address: "a", accountId: "b" } };
    void readBody(request, response, reading).then((body) => {
      if (!body) return;
      const { url, headers } = request;
      const text = Buffer.from(JSON.stringify({ url, headers, body: body.toString("latin1") }));
      if (headers["x-answer"] === "none") return;
      if (headers["x-answer"] !== "stream") return respondReply(response, "rid", text);
      response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
      const writer = createPieceWriter(response);
      for (let at = 0; at < text.length; at += 50) writer.write(text.subarray(at, at + 50));
      writer.end([Buffer.from("one more")], "the \u20ac end");
    });
  };
}

type Side = { server: Server; port: number; seen: Answered[] };

async function start(isDirect: boolean, keepAliveMs = 75_000): Promise<Side> {
  const seen: Answered[] = [];
  const answer = createAnswering(seen);
  const server = createServer({ keepAliveTimeout: keepAliveMs, requireHostHeader: false });
  if (isDirect) serveDirect(server, { paths: new Set([path]), keepAliveMs });
  server.on("request", answer);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { server, port: (server.address() as AddressInfo).port, seen };
}

const node = await start(false);
const direct = await start(true);

async function open({ port }: Side): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1" });
  await once(socket, "connect");
  socket.on("error", () => undefined);
  after(() => void socket.destroy());
  return socket;
}

/** All that comes back of pieces sent one after the other, until the server closes. */
async function exchange(side: Side, pieces: readonly Buffer[]): Promise<string> {
  const socket = await open(side);
  const came: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => came.push(chunk));
  const closed = once(socket, "close");
  for (const piece of pieces) {
    if (socket.destroyed) break;
    socket.write(piece);
    // So that it is read as a piece of its own.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await closed;
  return Buffer.concat(came)
    .toString("latin1")
    .replaceAll(/Date: [^\r]+/g, "Date: now");
}

const plain = (fields = "", body = '{"a":1}'): string =>
  `POST ${path} HTTP/1.1\r\nHost: relay\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`;
const last = "GET /over HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

const conversations: [string, string][] = [
  ["a plain call", plain()],
  ["a stream", plain("x-answer: stream\r\n")],
  ["a large answer", plain("", "y".repeat(60_000))],
  ["calls one behind the other", plain() + plain("x-answer: stream\r\n") + plain("x-a: b\r\n")],
  ["a call behind one that is Node's", plain("x-a:\tb\r\n") + plain()],
  [
    "a call in chunks behind a plain one",
    `${plain()}${plain("Transfer-Encoding: chunked\r\n")
      .replace(/Content.*\r\n/, "")
      .replace('{"a":1}', '7\r\n{"a":1}\r\n0\r\n\r\n')}`,
  ],
  ["a large body behind a plain one", plain() + plain("", "z".repeat(200_000)) + plain()],
  ["nonsense behind a plain call", `${plain()}nonsense\r\n\r\n`],
  ["two lengths behind a plain call", `${plain()}${plain("Content-Length: 3\r\n")}`],
];

for (const [what, sent] of conversations) {
  test(`on the bare connection, ${what} is answered with the bytes that node:http answers with`, async () => {
    const bytes = Buffer.from(sent + last, "latin1");
    const expected = await exchange(node, [bytes]);
    assert.notEqual(expected, "");
    const before = direct.seen.length;
    assert.equal(await exchange(direct, [bytes]), expected);
    const isOwn = direct.seen[before]?.response instanceof DirectResponse;
    assert.equal(isOwn, what !== "a call behind one that is Node's", "whose the first call was");
    const cuts = bytes.length < 500 ? bytes.length : 40;
    for (let count = 1; count < cuts; count += 1) {
      const at = Math.floor((bytes.length * count) / cuts);
      const pieces = [bytes.subarray(0, at), bytes.subarray(at)];
      assert.equal(await exchange(direct, pieces), expected, `cut at ${at}`);
    }
  });
}

/** Sends a call that is not answered by itself, and gives its answer. */
async function ask(side: Side, fields = "x-answer: none\r\n"): Promise<Answered & { socket: Socket }> {
  const socket = await open(side);
  const before = side.seen.length;
  socket.write(plain(fields));
  await until("the call is there", () => side.seen.length > before);
  return { ...(side.seen.at(-1) as Answered), socket };
}

for (const [what, leave] of [
  ["breaks the connection", (socket: Socket) => void socket.resetAndDestroy()],
  ["closes the connection", (socket: Socket) => void socket.destroy()],
  ["closes his side", (socket: Socket) => void socket.end()],
] as const) {
  test(`an answer hears that its caller ${what}, as with node:http`, async () => {
    for (const side of [node, direct]) {
      const { response, events, socket } = await ask(side);
      response.writeHead(200, { "content-type": "a/b" }).flushHeaders();
      leave(socket.resume());
      await until("the answer is closed", () => events.length > 0);
      assert.deepEqual(events, ["close false"]);
      assert.equal(response.destroyed, true);
    }
  });
}

test("a caller who does not read holds the writer back, and lets it go on when he reads", async () => {
  for (const side of [node, direct]) {
    const { response, events, socket } = await ask(side);
    socket.pause();
    response.writeHead(200, { "content-type": "a/b" }).flushHeaders();
    while (response.write(Buffer.alloc(100_000)));
    assert.equal(events.length, 0);
    socket.resume();
    await until("there is room", () => events.includes("drain false"));
    response.end();
    await until("the answer is over", () => events.includes("close true"));
    assert.ok(events.includes("finish true"));
  }
});

test("what a caller sends ahead of his turn is not read without a bound, and is served in its turn", async () => {
  const { response, socket } = await ask(direct);
  const { socket: served } = response;
  const more = plain("", "x".repeat(60_000));
  const count = 200;
  const before = direct.seen.length;
  socket.resume().write(more.repeat(count));
  await until("it is not read any more", () => served?.isPaused() === true);
  assert.ok((served?.bytesRead ?? 0) < 1_000_000, `${served?.bytesRead} bytes were read`);
  response.writeHead(200, { "content-length": 0 }).end();
  await until("all are served", () => direct.seen.length === before + count);
});

test("between calls that were sent at once, others have their turn", async () => {
  const socket = await open(direct);
  const before = direct.seen.length;
  let most = 0;
  let known = before;
  const watch = (): void => {
    most = Math.max(most, direct.seen.length - known);
    known = direct.seen.length;
    if (known < before + 100) setImmediate(watch);
  };
  setImmediate(watch);
  socket.resume().write(plain().repeat(100));
  await until("all are served", () => direct.seen.length === before + 100);
  assert.equal(most, 1);
});

test("a server that closes does not wait for connections on which nothing is asked", async () => {
  const closing = await start(true);
  const socket = await open(closing);
  socket.write(plain());
  await once(socket.resume(), "data");
  const closed = once(closing.server, "close");
  closing.server.close();
  await closed;
});

test("a connection that nobody uses any more is closed, and one that was never used is Node's", async () => {
  const brief = await start(true, 1_000);
  const socket = await open(brief);
  socket.resume().write(plain());
  const never = await open(brief);
  await once(socket, "end");
  let isTaken = false;
  brief.server.once("clientError", () => (isTaken = true));
  never.write("nonsense\r\n\r\n");
  await until("Node's parser has it", () => isTaken);
});

test("an answer has no header that would begin another one", async () => {
  const { response } = await ask(direct);
  assert.throws(() => response.writeHead(200, { "x-a": "b\r\nx-c: d" }), TypeError);
});

test("an answer says that its connection closes, and closes it, when it shall", async () => {
  for (const side of [node, direct]) {
    const { response, socket } = await ask(side);
    let came = "";
    socket.on("data", (chunk: Buffer) => (came += chunk.toString()));
    response.shouldKeepAlive = false;
    response.writeHead(200, { "content-length": 2 }).end("ok");
    await once(socket, "end");
    assert.match(came, /\r\nConnection: close\r\n[^]*ok$/);
  }
});

test("a body in tiny chunks is refused before Node reads a thousand of them; one in larger chunks is read", async () => {
  const errors: unknown[] = [];
  const server = createServer((request, response) => void request.resume().on("end", () => response.end("read")));
  server.on("clientError", ({ code, rawPacket }: Error & { code?: string; rawPacket?: Buffer }, socket) => {
    errors.push([code, rawPacket?.toString("latin1", 0, 10)]);
    socket.end("refused");
  });
  serveDirect(server, { paths: new Set([path]), keepAliveMs: 1_000 });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  after(() => server.close());
  const head = "POST /x HTTP/1.1\r\nHost: r\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  const answerTo = async (chunk: string): Promise<string> => {
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1").setEncoding("latin1");
    socket.end(`${head}${chunk.repeat(5_000)}0\r\n\r\n`);
    let told = "";
    for await (const piece of socket) told += piece as string;
    return told;
  };
  assert.equal(await answerTo("1\r\n \r\n"), "refused");
  assert.match(await answerTo("9\r\n123456789\r\n"), /read/);
  assert.deepEqual(errors, [["HPE_USER", "POST /x HT"]]);
});
