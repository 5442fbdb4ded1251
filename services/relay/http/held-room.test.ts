import assert from "node:assert/strict";
import { test } from "node:test";
import { HeldRoom } from "./held-room.ts";
import { createReplyRoom } from "./reply-room.ts";

const mebibyte = 1_048_576;

/** Streams of one account, each with what is in memory of it, in a room of four mebibytes. */
function openStreams(count: number) {
  const replies = createReplyRoom(mebibyte);
  const streams = Array.from({ length: count }, () => {
    const stream = { bytes: 0, isHeld: false };
    const room = new HeldRoom(replies.open("acct_1"), {
      bytes: () => stream.bytes,
      hold: () => (stream.isHeld = true),
      free: () => (stream.isHeld = false),
    });
    const keep = (bytes: number): void => {
      stream.bytes = bytes;
      room.look();
    };
    return { stream, room, keep };
  });
  return { replies, streams };
}

test("a stream for whose bytes there is no room is not read until there is some", () => {
  const { replies, streams } = openStreams(6);
  for (const { keep } of streams) keep(mebibyte);
  const held = streams.filter(({ stream }) => stream.isHeld);
  // Three are in an account's share of four fifths, and one more may go on.
  assert.equal(held.length, 2);
  assert.equal(replies.bytes(), 4 * mebibyte);
  for (const { stream, keep } of streams) if (!stream.isHeld) keep(0);
  assert.ok(streams.every(({ stream }) => !stream.isHeld));
  for (const { keep } of streams) keep(0);
  assert.deepEqual([replies.bytes(), replies.waiting()], [0, 0]);
});

test("small streams take no room, and one that ends while it waits is let go", () => {
  const { replies, streams } = openStreams(6);
  for (const { keep } of streams) keep(65_536);
  assert.equal(replies.bytes(), 0);
  for (const { keep } of streams) keep(mebibyte);
  for (const { room } of streams) room[Symbol.dispose]();
  assert.ok(streams.every(({ stream }) => !stream.isHeld));
  for (const { keep } of streams) keep(mebibyte);
  assert.deepEqual([replies.bytes(), replies.waiting()], [0, 0]);
});
