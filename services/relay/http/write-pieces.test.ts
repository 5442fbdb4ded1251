import assert from "node:assert/strict";
import { Agent, request as httpRequest } from "node:http";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import fc from "fast-check";
import { until } from "#shared/testing/until.ts";
import { connectRaw, serveHttp } from "../testing/raw-client.ts";
import { createPieceWriter, type PieceWriter } from "./write-pieces.ts";

type Writing = (writer: PieceWriter, response: ServerResponse) => Promise<void> | void;

/** A server that answers each request in the same way. */
function serve(writing: Writing) {
  return serveHttp((_request, response) => {
    response.writeHead(200).flushHeaders();
    void writing(createPieceWriter(response), response);
  });
}

function get(port: number, agent: Agent): Promise<string> {
  return new Promise((resolve, reject) => {
    httpRequest({ port, host: "127.0.0.1", agent }, (answer) => {
      let body = "";
      answer.setEncoding("latin1").on("data", (text: string) => (body += text));
      answer.on("end", () => resolve(body)).on("error", reject);
    })
      .on("error", reject)
      .end();
  });
}

const sizes = fc.oneof(
  fc.nat({ max: 300 }),
  fc.constantFrom(1, 15, 16, 255, 256, 4_095, 4_096, 32_755, 32_756, 70_000),
);

test("pieces of any size arrive whole and in order, on a connection that serves the next call too", async () => {
  const turns = fc.array(fc.array(sizes, { maxLength: 5 }), { maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(turns, async (wanted) => {
      let sent = "";
      await using server = await serve(async (writer) => {
        sent = "";
        for (const pieces of wanted) {
          for (const size of pieces) {
            const text = String.fromCodePoint(97 + (sent.length % 26)).repeat(size);
            sent += text;
            writer.write(Buffer.from(text));
          }
          await turn();
        }
        writer.end([], "");
      });
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let call = 0; call < 2; call += 1) assert.equal(await get(server.port, agent), sent);
      agent.destroy();
    }),
    { numRuns: 60 },
  );
});

test("the pieces of a turn go out as one chunk when it ends, each turn's by itself", async () => {
  await using server = await serve(async (writer) => {
    writer.write(Buffer.from("one "));
    writer.write(Buffer.from("two"));
    await turn();
    writer.write(Buffer.from("three"));
    writer.end([Buffer.from(" four")], " five");
  });
  const client = await connectRaw(server.port);
  client.socket.write("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
  await client.closed;
  assert.equal(client.body().toString(), "7\r\none two\r\na\r\nthree four\r\n5\r\n five\r\n0\r\n\r\n");
});

test("HTTP/1.0 has no chunks: the body is the pieces", async () => {
  await using server = await serve((writer) => {
    writer.write(Buffer.from("one "));
    writer.write(Buffer.from("two"));
    writer.end([], "");
  });
  const client = await connectRaw(server.port);
  client.socket.write("GET / HTTP/1.0\r\n\r\n");
  await client.closed;
  assert.equal(client.body().toString(), "one two");
});

test("of two calls sent at once on one connection, the second's pieces wait for the end of the first answer", async () => {
  let calls = 0;
  await using server = await serve(async (writer) => {
    const name = (calls += 1) === 1 ? "first" : "second";
    // The second answer is ready before the first.
    if (name === "first") await until("the second is answered", () => calls === 2).then(() => turn());
    writer.write(Buffer.from(`${name} `));
    await turn();
    writer.write(Buffer.from(name));
    writer.end([], "");
  });
  const client = await connectRaw(server.port);
  const asked = "GET / HTTP/1.1\r\nhost: a\r\n";
  client.socket.write(`${asked}\r\n${asked}connection: close\r\n\r\n`);
  await client.closed;
  const all = `${client.head()}${client.body().toString()}`;
  assert.deepEqual(all.match(/first|second|\r\n0\r\n/g), [
    "first",
    "first",
    "\r\n0\r\n",
    "second",
    "second",
    "\r\n0\r\n",
  ]);
});

test("a caller who does not read is told of, and the answer's own drain says when he does", async () => {
  const piece = Buffer.alloc(1_000, "x");
  let written = 0;
  let isFull = false;
  let isDrained = false;
  await using server = await serve(async (writer, response) => {
    while (writer.write(piece)) {
      written += 1;
      if (written % 10 === 0) await turn();
    }
    written += 1;
    isFull = true;
    response.once("drain", () => {
      isDrained = true;
      writer.end([], "");
    });
  });
  const client = await connectRaw(server.port, false);
  client.socket.write("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
  await until("the writer says that it is full", () => isFull);
  assert.equal(isDrained, false);
  client.socket.resume();
  await client.closed;
  assert.ok(isDrained);
  assert.equal(client.body().toString("latin1").replaceAll(/[^x]/g, "").length, written * piece.length);
});

test("what waits when the caller goes away is dropped in silence", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  await using server = await serve(async (writer, response) => {
    writer.write(Buffer.from("a"));
    response.socket?.destroy();
    writer.write(Buffer.from("b"));
    await turn();
    writer.end([], "");
    resolve();
  });
  const client = await connectRaw(server.port);
  client.socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await promise;
  await client.closed;
  assert.equal(client.body().toString(), "");
});
