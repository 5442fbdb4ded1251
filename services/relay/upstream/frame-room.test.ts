import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { after, test } from "node:test";
import { WebSocket, WebSocketServer } from "ws";
import { until } from "#shared/testing/until.ts";
import { createReplyRoom } from "../http/reply-room.ts";
import { FrameRoom } from "./frame-room.ts";

const mebibyte = 1_048_576;
const frame = Buffer.alloc(mebibyte, "x");

/** Sockets to a provider, of one account, that keep each frame until they are told that it is read. */
async function startSockets(count: number, roomBytes: number) {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  after(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  // A fourth, because there is room for four of the largest.
  const replies = createReplyRoom(roomBytes / 4);
  const open = async () => {
    const webSocket = new WebSocket(`ws://127.0.0.1:${port}`);
    after(() => webSocket.terminate());
    let connection: Duplex | undefined;
    webSocket.once("upgrade", ({ socket }) => (connection = socket));
    await once(webSocket, "open");
    const kept: number[] = [];
    const reading = {
      unreadBytes: () => 0,
      hold: () => webSocket.pause(),
      free: () => webSocket.resume(),
    };
    const room = new FrameRoom(replies.open("acct_1"), reading);
    room.watch(webSocket, connection as unknown as Duplex);
    webSocket.on("message", (data) => void kept.push((data as Buffer).length));
    return { room, kept };
  };
  const sockets = [];
  for (let made = 0; made < count; made += 1) sockets.push(await open());
  const send = (payload: Buffer): void => {
    for (const client of server.clients) client.send(payload, { binary: false });
  };
  return { sockets, replies, send };
}

test("frames of many sockets are read as there is room for them, and each when it is its turn", async () => {
  const { sockets, replies, send } = await startSockets(12, 4 * mebibyte);
  const isThere = ({ kept }: (typeof sockets)[number]): boolean => kept.length > 0;
  const waiting = (): number => sockets.filter(({ room }) => room.isWaiting).length;
  send(frame);
  let read = 0;
  while (read < sockets.length) {
    await until("a frame is there", () => sockets.some(isThere));
    // An account alone gets four fifths, and one frame may go on beyond that.
    assert.ok(replies.bytes() <= 5 * mebibyte, `${replies.bytes()} bytes are in memory`);
    const socket = sockets.find(isThere);
    assert.ok(socket);
    const [bytes = 0] = socket.kept.splice(0);
    socket.room.passed(bytes);
    read += 1;
  }
  assert.deepEqual([replies.bytes(), replies.waiting(), waiting()], [0, 0, 0]);
});

test("small frames take no room, and a socket that ends gives back what it had", async () => {
  const { sockets, replies, send } = await startSockets(6, 4 * mebibyte);
  send(Buffer.from("small"));
  await until("all have it", () => sockets.every(({ kept }) => kept.length === 1));
  assert.equal(replies.bytes(), 0);
  for (const { room } of sockets) room.passed(5);
  send(frame);
  await until("one waits", () => sockets.some(({ room }) => room.isWaiting));
  for (const { room } of sockets) room[Symbol.dispose]();
  assert.deepEqual([replies.bytes(), replies.waiting()], [0, 0]);
});
