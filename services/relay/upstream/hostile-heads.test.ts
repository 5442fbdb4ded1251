import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { until } from "#shared/testing/until.ts";
import { SendError } from "./send.ts";
import { askOver, listen, upstreamAt, wholeOf } from "../testing/sending.ts";

// Heads by which a provider that does harm would fill a relay, or keep it waiting.

const early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/** Writes the same for as long as it is read. */
function pour(socket: Socket, piece: string): void {
  const many = piece.repeat(1_000);
  const more = (): void => {
    while (!socket.destroyed && socket.write(many));
    socket.once("drain", more);
  };
  more();
}

/** Writes a little for as long as it is read. */
function drip(socket: Socket, piece: string): void {
  const timer = setInterval(() => socket.write(piece), 10);
  socket.once("close", () => clearInterval(timer));
}

type Row = [what: string, answer: (socket: Socket) => void, changes?: Partial<Upstream>];

const rows: Row[] = [
  ["20,000 heads of status 103 and an answer", (socket) => void socket.write(early.repeat(20_000) + whole)],
  ["heads of status 100 without end", (socket) => pour(socket, "HTTP/1.1 100 Continue\r\n\r\n")],
  [
    "a head whose fields never end",
    (socket) => {
      socket.write("HTTP/1.1 200 OK\r\n");
      pour(socket, "a: b\r\n");
    },
  ],
  ["a field that never ends", (socket) => pour(socket, "HTTP/1.1 200 OK\r\na: ")],
  [
    "the name of a field that never ends",
    (socket) => {
      socket.write("HTTP/1.1 200 OK\r\n");
      pour(socket, "a");
    },
  ],
  // Nothing of it is kept, and it ends with the time for a first byte.
  ["a reason that never ends", (socket) => pour(socket, "HTTP/1.1 200 OK "), { firstByteTimeoutMs: 300 }],
  [
    "a head that drips without end",
    (socket) => {
      socket.write("HTTP/1.1 200 OK\r\na: ");
      drip(socket, "b");
    },
    { firstByteTimeoutMs: 300, totalTimeoutMs: 600 },
  ],
  ["early heads that drip without end", (socket) => drip(socket, early), { totalTimeoutMs: 1_000 }],
];

for (const [what, answer, changes] of rows) {
  test(`an upstream that sends ${what} has failed, and its connection is closed`, { timeout: 20_000 }, async () => {
    await using server = await listen(createServer((socket) => void socket.once("data", () => answer(socket))));
    await using pools = createPools();
    const asked = askOver(pools, upstreamAt(server.port, changes));
    await assert.rejects(asked.answer, SendError);
    assert.equal(asked.overs(), 1);
    await until("it is closed", () => server.sockets.size === 0);
  });
}

test("a few early heads are nothing to fail for", async () => {
  await using server = await listen(
    createServer((socket) => void socket.once("data", () => void socket.write(early.repeat(3) + whole))),
  );
  await using pools = createPools();
  assert.equal(await wholeOf(askOver(pools, upstreamAt(server.port))), "ok");
});
