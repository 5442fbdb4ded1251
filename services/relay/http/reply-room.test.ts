import assert from "node:assert/strict";
import { test } from "node:test";
import { createReplyRoom, type ReplyPlace, type ReplyRoom } from "./reply-room.ts";

const nothing = (): void => undefined;

/** Claims byte by byte until it has to wait; tells how many it got. */
function fill(place: ReplyPlace, onRoom = nothing): number {
  while (place.claim(place.heldBytes + 1, onRoom)) continue;
  return place.heldBytes;
}

/** A room for four answers of 100 bytes, in which one account has all that it gets. */
function filledRoom(): { room: ReplyRoom; first: ReplyPlace; second: ReplyPlace } {
  const room = createReplyRoom(100);
  const [first, second] = [room.open("acct_1"), room.open("acct_1")];
  assert.ok(first.claim(100, nothing) && second.claim(220, nothing));
  return { room, first, second };
}

test("one account gets four fifths of the room, whoever comes next gets some, and one more answer may go on", () => {
  const { room } = filledRoom();
  const beyond = room.open("acct_1");
  assert.ok(beyond.claim(64, nothing));
  assert.equal(fill(room.open("acct_1")), 0);
  assert.equal(fill(room.open("acct_2")), 64);
  assert.ok(beyond.claim(100, nothing), "the one that may go on gets to its end");
  assert.equal(room.bytes(), 484);
});

test("who waits goes on when there is room again, in turn, and not before", () => {
  const { room, first, second } = filledRoom();
  const beyond = room.open("acct_1");
  assert.ok(beyond.claim(100, nothing));
  const wentOn: string[] = [];
  const waiting = ["a", "b", "c"].map((name) => {
    const place = room.open("acct_1");
    assert.equal(
      place.claim(100, () => wentOn.push(name)),
      false,
    );
    return place;
  });
  assert.deepEqual([wentOn, room.waiting()], [[], 3]);
  first.release();
  assert.deepEqual(wentOn, ["a"], "within the room");
  beyond.release();
  assert.deepEqual(wentOn, ["a", "b"], "beyond it");
  second.release();
  assert.deepEqual([wentOn, room.waiting()], [["a", "b", "c"], 0]);
  for (const place of waiting) place.release();
  assert.equal(room.bytes(), 0);
});

test("answers that have come half never wait for each other for ever", () => {
  const room = createReplyRoom(100);
  const ends: number[] = [];
  const read = (place: ReplyPlace): void => {
    while (place.heldBytes < 100) if (!place.claim(place.heldBytes + 10, () => read(place))) return;
    ends.push(place.heldBytes);
    place.release();
  };
  const places = Array.from({ length: 20 }, (_, at) => room.open(`acct_${at % 3}`));
  const halfway = places.filter((place) => place.claim(50, () => read(place)));
  assert.ok(halfway.length > 4 && room.waiting() > 0);
  for (const place of halfway) read(place);
  assert.deepEqual([ends.length, room.bytes(), room.waiting()], [20, 0, 0]);
});

test("however many of one account wait, the next one of another goes on before them", () => {
  const { room } = filledRoom();
  const beyond = room.open("acct_1");
  assert.ok(beyond.claim(100, nothing));
  const wentOn: string[] = [];
  for (let count = 0; count < 10; count += 1) room.open("acct_1").claim(100, () => wentOn.push("mine"));
  assert.equal(
    room.open("acct_2").claim(100, () => wentOn.push("other")),
    false,
  );
  beyond.release();
  assert.deepEqual(wentOn, ["other"]);
});

test("an answer that goes away while it waits is asked for no more", () => {
  const { room, first, second } = filledRoom();
  room.open("acct_2").claim(100, nothing);
  const gone = room.open("acct_1");
  assert.equal(
    gone.claim(100, () => assert.fail("it is gone")),
    false,
  );
  gone.release();
  first.release();
  second.release();
  assert.equal(room.waiting(), 0);
});

test("who has been reading for half a minute is broken off while others wait, first of the account that holds the most", () => {
  const { room, first, second } = filledRoom();
  const small = room.open("acct_2");
  assert.ok(small.claim(10, nothing));
  const broken: string[] = [];
  const readers = { small, first, second };
  for (const [name, place] of Object.entries(readers)) place.awaitReader(() => broken.push(name), 0);
  room.makeRoom(60_000);
  assert.deepEqual(broken, [], "nobody waits");
  assert.ok(room.open("acct_3").claim(100, nothing));
  room.open("acct_3").claim(100, nothing);
  room.makeRoom(29_999);
  assert.deepEqual(broken, [], "everybody has that long");
  room.makeRoom(30_000);
  assert.deepEqual(broken, ["first"]);
});
