import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Pool } from "undici";
import { boundedConnector, boundReading, maxPieceBytes } from "./bounded-connector.ts";

async function serve(bytes: Buffer): Promise<AsyncDisposable & { port: number }> {
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", () => socket.end(bytes));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return { port, [Symbol.asyncDispose]: async () => void (await once(server.close(), "close")) };
}

function open(port: number): AsyncDisposable & Pick<Pool, "request"> {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connect: boundedConnector({}) });
  return { request: pool.request.bind(pool), [Symbol.asyncDispose]: () => pool.destroy() };
}

test("a body comes whole, however large", async () => {
  const body = Buffer.from(Array.from({ length: 1_000_000 }, (_, at) => at % 251));
  await using server = await serve(
    Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`), body]),
  );
  await using upstream = open(server.port);
  const answer = await upstream.request({ path: "/", method: "GET" });
  assert.deepEqual(Buffer.from(await answer.body.arrayBuffer()), body);
});

test("a head of a million fields ends its request, and errors have stacks again", async () => {
  await using server = await serve(Buffer.from(`HTTP/1.1 200 OK\r\n${"a: b\r\n".repeat(1_000_000)}\r\n`));
  await using upstream = open(server.port);
  await assert.rejects(upstream.request({ path: "/", method: "GET" }), { code: "UND_ERR_HEADERS_OVERFLOW" });
  await turn();
  assert.match(new Error("with a stack").stack ?? "", /at /);
});

test("a piece is bounded, and nothing is read behind the end of a connection", async () => {
  await using server = await serve(Buffer.alloc(10 * maxPieceBytes));
  const socket = connect(server.port, "127.0.0.1");
  boundReading(socket);
  await once(socket, "connect");
  socket.write("x");
  while (socket.readableLength <= maxPieceBytes) {
    socket.read(0);
    await turn();
  }
  assert.equal((socket.read() as Buffer).length, maxPieceBytes);
  socket.destroy(new Error("too much"));
  assert.equal(new Error("in the same turn").stack, "Error: in the same turn");
  assert.equal(socket.read(), null);
  await assert.rejects(once(socket, "close"), { message: "too much" });
});
