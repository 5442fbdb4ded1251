import assert from "node:assert/strict";
import { test } from "node:test";
import { zstdCompressSync } from "node:zlib";
import { until } from "#shared/testing/until.ts";
import { announce, mebibyte, startReading, write } from "../testing/body-reading.ts";

/** Threads that keep up, or do not, as they are told. */
function createPace() {
  let isBehind = false;
  let held: (() => void)[] = [];
  return {
    keepUp: (goOn: () => void): boolean => {
      if (isBehind) held.push(goOn);
      return !isBehind;
    },
    fallBehind: () => void (isBehind = true),
    catchUp: () => {
      isBehind = false;
      const released = held;
      held = [];
      for (const goOn of released) goOn();
    },
    held: () => held.length,
  };
}

test("a large body is read no further while threads do not keep up, and then to its end", async () => {
  const pace = createPace();
  pace.fallBehind();
  await using caller = await startReading(undefined, { keepUp: pace.keepUp });
  await announce(caller.client, 64 * mebibyte);
  const written = write(caller.client, Buffer.alloc(64 * mebibyte));
  const reading = await caller.reading;
  await until("it is held", () => pace.held() === 1);
  let before = -1;
  let quietPolls = 0;
  await until("nothing more is read", () => {
    quietPolls = reading.request.socket.bytesRead === before ? quietPolls + 1 : 0;
    before = reading.request.socket.bytesRead;
    return quietPolls === 5;
  });
  assert.ok(before < 2 * mebibyte, `${before} bytes were read`);
  pace.catchUp();
  await written;
  assert.deepEqual(await reading.outcome, { bytes: 64 * mebibyte });
});

test("an inflated body is held, too, and goes on", async () => {
  const pace = createPace();
  pace.fallBehind();
  const body = zstdCompressSync(Buffer.alloc(6 * mebibyte, "abcdefgh"));
  await using caller = await startReading(undefined, { keepUp: pace.keepUp });
  const head = `POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: zstd\r\nContent-Length: ${body.length}\r\n\r\n`;
  await write(caller.client, head);
  await write(caller.client, body);
  const reading = await caller.reading;
  await until("it is held", () => pace.held() === 1);
  pace.catchUp();
  assert.deepEqual(await reading.outcome, { bytes: 6 * mebibyte });
});

test("a body that is held for too long is no fault of its sender's", async () => {
  const pace = createPace();
  pace.fallBehind();
  await using caller = await startReading(undefined, { keepUp: pace.keepUp, stallMs: 50 });
  await announce(caller.client, 4 * mebibyte);
  void write(caller.client, Buffer.alloc(4 * mebibyte));
  const reading = await caller.reading;
  assert.deepEqual(await reading.outcome, { failure: "service_unavailable" });
});

test("a small body goes on while threads do not keep up", async () => {
  const pace = createPace();
  pace.fallBehind();
  await using caller = await startReading(undefined, { keepUp: pace.keepUp });
  await announce(caller.client, 65_536);
  await write(caller.client, Buffer.alloc(65_536));
  const reading = await caller.reading;
  assert.deepEqual(await reading.outcome, { bytes: 65_536 });
});
