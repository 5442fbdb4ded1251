import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { until } from "#shared/testing/until.ts";
import { createBodyBudget, type BodyBudget } from "./body-budget.ts";
import { maxBodyBytes, readBody } from "./body.ts";
import { CallFailure } from "../failures.ts";
import {
  announce,
  announceChunks,
  lastChunk,
  mebibyte,
  startReading,
  write,
  writeChunk,
} from "../testing/body-reading.ts";
import { connectRaw, serveHttp, type RawClient } from "../testing/raw-client.ts";

test("a body of 64 KiB is read without asking for the key, a larger one asks once, before it is read", async () => {
  for (const [length, keyChecks] of [
    [0, 0],
    [65_536, 0],
    [65_537, 1],
    [mebibyte, 1],
  ] as const) {
    await using announced = await startReading();
    await announce(announced.client, length);
    await write(announced.client, Buffer.alloc(length));
    const reading = await announced.reading;
    assert.deepEqual([await reading.outcome, reading.keyChecks], [{ bytes: length }, keyChecks]);

    await using chunked = await startReading();
    await announceChunks(chunked.client);
    if (length > 0) await writeChunk(chunked.client, length);
    await write(chunked.client, lastChunk);
    const readingChunks = await chunked.reading;
    assert.deepEqual([await readingChunks.outcome, readingChunks.keyChecks], [{ bytes: length }, keyChecks]);
  }
});

/** Sends a body in pieces and gives what was read of it. */
async function sendInPieces(sent: Buffer, pieceBytes: number, isChunked: boolean): Promise<Buffer> {
  await using caller = await startReading();
  await (isChunked ? announceChunks(caller.client) : announce(caller.client, sent.length));
  for (let at = 0; at < sent.length; at += pieceBytes) {
    const piece = sent.subarray(at, at + pieceBytes);
    if (isChunked) await write(caller.client, `${piece.length.toString(16)}\r\n`);
    await write(caller.client, piece);
    if (isChunked) await write(caller.client, "\r\n");
  }
  if (isChunked) await write(caller.client, lastChunk);
  const reading = await caller.reading;
  assert.deepEqual(await reading.outcome, { bytes: sent.length });
  return reading.body;
}

for (const isChunked of [false, true]) {
  test(`a body arrives byte for byte, whole or in pieces, ${isChunked ? "in chunks" : "announced"}`, async () => {
    for (const length of [1, 65_536, 65_537, 3 * mebibyte + 1]) {
      const sent = randomBytes(length);
      assert.ok((await sendInPieces(sent, length, isChunked)).equals(sent), `${length} bytes`);
      assert.ok((await sendInPieces(sent, 100_001, isChunked)).equals(sent), `${length} bytes in pieces`);
    }
  });
}

test("a body that comes with its head is taken as it is, and its connection goes on", async () => {
  const readings: { listeners: number; text: string }[] = [];
  const requests: IncomingMessage[] = [];
  await using server = await serveHttp((request, response) => {
    const checkKey = async (): Promise<void> => undefined;
    const owner = { address: "192.0.2.1", accountId: "" };
    const reading = readBody(request, response, { checkKey, budget: createBodyBudget(mebibyte), owner });
    requests.push(request);
    void reading.then((body) => {
      readings.push({ listeners: request.listenerCount("error"), text: String(body) });
      response.end("read");
    });
  });
  const caller = await connectRaw(server.port);
  const call = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n";
  for (const count of [1, 2, 3]) {
    await write(caller, `${call}text${count}`);
    await until("it is read", () => readings.length === count);
  }
  await write(caller, `${call}text4${call}text5`);
  await until("both are read", () => readings.length === 5);
  assert.deepEqual(
    readings,
    [1, 2, 3, 4, 5].map((count) => ({ listeners: 0, text: `text${count}` })),
  );
  assert.ok(requests.every(({ readableEnded }) => readableEnded));
  caller.socket.destroy();
});

test("while the key of a large body is checked, no more of it is read than what is under way", async () => {
  const key = Promise.withResolvers<void>();
  await using caller = await startReading(() => key.promise);
  await announceChunks(caller.client);
  const written = (async () => {
    for (let count = 0; count < 64; count += 1) await writeChunk(caller.client, mebibyte);
  })();
  const reading = await caller.reading;
  let before = -1;
  let quietPolls = 0;
  await until("nothing more is read", () => {
    quietPolls = reading.request.socket.bytesRead === before && reading.keyChecks === 1 ? quietPolls + 1 : 0;
    before = reading.request.socket.bytesRead;
    return quietPolls === 5;
  });
  assert.ok(before < mebibyte, `${before} bytes were read`);
  key.resolve();
  await written;
  await write(caller.client, lastChunk);
  assert.deepEqual(await reading.outcome, { bytes: 64 * mebibyte });
});

test("a wrong key on a large body is told even to a caller who first sends all of it and then reads", async () => {
  for (const isChunked of [false, true]) {
    await using caller = await startReading(() => Promise.reject(new CallFailure({ name: "key_invalid" })));
    caller.client.socket.pause();
    const length = 16 * mebibyte;
    await (isChunked ? announceChunks(caller.client) : announce(caller.client, length));
    if (isChunked) await writeChunk(caller.client, length);
    else await write(caller.client, Buffer.alloc(length));
    caller.client.socket.resume();
    await until("the refusal is there", () => caller.client.body().includes("Invalid API key"));
    assert.match(caller.client.head(), /^HTTP\/1\.1 401 /);
  }
});

test("API spec, Limits: Request body size. A body above 128 MB is 400, announced or not, but a wrong key comes first", async () => {
  assert.equal(maxBodyBytes, 134_217_728);
  {
    await using caller = await startReading();
    await announce(caller.client, maxBodyBytes + 1);
    assert.deepEqual(await (await caller.reading).outcome, { failure: "body_too_large" });
  }
  {
    await using caller = await startReading(() => Promise.reject(new CallFailure({ name: "key_invalid" })));
    await announce(caller.client, maxBodyBytes + 1);
    assert.deepEqual(await (await caller.reading).outcome, { failure: "key_invalid" });
  }
  await using caller = await startReading();
  await announceChunks(caller.client);
  for (let sent = 0; sent < 128; sent += 16) await writeChunk(caller.client, 16 * mebibyte);
  await writeChunk(caller.client, 1);
  assert.deepEqual(await (await caller.reading).outcome, { failure: "body_too_large" });
  await until("the refusal is there", () => caller.client.body().includes("request body too large"));
});

test("a caller who goes away while sending, or while its key is checked, ends it quietly", async () => {
  {
    await using caller = await startReading();
    await announce(caller.client, 1_000);
    const reading = await caller.reading;
    caller.client.socket.destroy();
    assert.deepEqual(await reading.outcome, { gone: true });
  }
  for (const isChunked of [false, true]) {
    const key = Promise.withResolvers<void>();
    await using caller = await startReading(() => key.promise);
    await (isChunked ? announceChunks(caller.client) : announce(caller.client, mebibyte));
    if (isChunked) await writeChunk(caller.client, mebibyte / 4);
    const reading = await caller.reading;
    await until("the key is asked for", () => reading.keyChecks === 1);
    caller.client.socket.destroy();
    // A paused body hides the end of the connection behind itself; a body of which nothing came does not.
    if (!isChunked) await until("the server has noticed", () => reading.request.destroyed);
    key.resolve();
    assert.deepEqual(await reading.outcome, { gone: true });
  }
});

const encoders: Record<string, (text: Buffer) => Buffer> = {
  gzip: (text) => gzipSync(text),
  deflate: (text) => deflateSync(text),
  br: (text) => brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  zstd: (text) => zstdCompressSync(text),
};

const announceEncoded = (client: RawClient, encoding: string, length: number): Promise<void> =>
  write(client, `POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: ${encoding}\r\nContent-Length: ${length}\r\n\r\n`);

/** Sends one encoded body and gives what became of it. */
async function sendEncoded(encoding: string, sent: Buffer, budget?: BodyBudget) {
  await using caller = await startReading(async () => undefined, budget ? { budget } : {});
  await announceEncoded(caller.client, encoding, sent.length);
  await write(caller.client, sent);
  const reading = await caller.reading;
  return {
    outcome: await reading.outcome,
    start: reading.body.toString("latin1", 0, 20),
    keyChecks: reading.keyChecks,
  };
}

for (const [encoding, encode] of Object.entries(encoders)) {
  test(`a body in ${encoding} is read inflated, after the key`, async () => {
    const { outcome, start, keyChecks } = await sendEncoded(encoding, encode(Buffer.from('{"model":"m"}')));
    assert.deepEqual([outcome, start, keyChecks], [{ bytes: 13 }, '{"model":"m"}', 1]);
    const large = await sendEncoded(encoding.toUpperCase(), encode(Buffer.alloc(mebibyte, "x")));
    assert.deepEqual([large.outcome, large.keyChecks], [{ bytes: mebibyte }, 1]);
  });

  test(`a body in ${encoding} that is cut short, or is nothing of the kind, is 400`, async () => {
    const whole = encode(Buffer.from(JSON.stringify({ text: "word ".repeat(1_000) })));
    const cut = whole.subarray(0, whole.length - 5);
    assert.deepEqual((await sendEncoded(encoding, cut)).outcome, { failure: "malformed_request" });
    for (const plain of ['{"model":"m","messages":[]}', ""]) {
      const { outcome } = await sendEncoded(encoding, Buffer.from(plain));
      assert.deepEqual(outcome, { failure: "malformed_request" });
    }
  });

  test(`a bomb in ${encoding} is refused as too large before it has grown, and as busy by what it has grown to`, async () => {
    const bomb = encode(Buffer.alloc(maxBodyBytes + 1, " "));
    assert.ok(bomb.length < mebibyte, `${bomb.length} bytes`);
    const budget = createBodyBudget(512 * mebibyte);
    assert.deepEqual((await sendEncoded(encoding, bomb, budget)).outcome, { failure: "body_too_large" });
    await until("its bytes are given back", () => budget.bytes() === 0);
    const small = createBodyBudget(mebibyte);
    assert.deepEqual((await sendEncoded(encoding, bomb, small)).outcome, { failure: "service_unavailable" });
    await until("its bytes are given back", () => small.bytes() === 0);
  });
}

test("an unknown encoding, or several, is 400, but a wrong key comes first; identity is none", async () => {
  for (const encoding of ["compress", "gzip, gzip", "gzip;q=1", "constructor", "__proto__"]) {
    const { outcome } = await sendEncoded(encoding, gzipSync("{}"));
    assert.deepEqual(outcome, { failure: "malformed_request" }, encoding);
  }
  assert.deepEqual((await sendEncoded("identity", Buffer.from("{}"))).outcome, { bytes: 2 });
  await using caller = await startReading(() => Promise.reject(new CallFailure({ name: "key_invalid" })));
  await announceEncoded(caller.client, "compress", 2);
  assert.deepEqual(await (await caller.reading).outcome, { failure: "key_invalid" });
});

test("an encoded body that yields nothing is refused above 128 MB on the wire", async () => {
  await using caller = await startReading();
  const empty = gzipSync("");
  const many = Buffer.concat(Array.from({ length: 50_000 }, () => empty));
  await write(
    caller.client,
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
  );
  for (let sent = 0; sent <= maxBodyBytes; sent += many.length) {
    await write(caller.client, `${many.length.toString(16)}\r\n`);
    await write(caller.client, many);
    await write(caller.client, "\r\n");
  }
  assert.deepEqual(await (await caller.reading).outcome, { failure: "body_too_large" });
});

test("a body in chunks of few bytes is put together as it comes, and takes its bytes", async () => {
  await using caller = await startReading();
  await announceChunks(caller.client);
  const bytes = 320_000;
  await write(caller.client, `10\r\n${"x".repeat(16)}\r\n`.repeat(bytes / 16));
  await write(caller.client, lastChunk);
  const { outcome, body } = await caller.reading.then(async (reading) => ({
    outcome: await reading.outcome,
    body: reading.body,
  }));
  assert.deepEqual(outcome, { bytes });
  assert.equal(body.buffer.byteLength, bytes, "its memory is its own");
  assert.ok(body.equals(Buffer.alloc(bytes, "x")));
});

test("a small body may come byte by byte; of a larger one that is refused, for each piece costs as much as many", async () => {
  for (const [bytes, expected] of [
    [1_000, { bytes: 1_000 }],
    [20_000, { failure: "malformed_request" }],
  ] as const) {
    await using caller = await startReading();
    await announceChunks(caller.client);
    await write(caller.client, "1\r\nx\r\n".repeat(bytes));
    await write(caller.client, lastChunk);
    assert.deepEqual(await (await caller.reading).outcome, expected);
  }
});

test("a caller who expects 100-continue is asked for the body only once it is wanted", async () => {
  const head = (length: number): string =>
    `POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`;
  {
    await using caller = await startReading();
    await write(caller.client, head(5));
    await until("it is asked to go on", () => caller.client.head() === "HTTP/1.1 100 Continue");
    await write(caller.client, "hello");
    assert.deepEqual(await (await caller.reading).outcome, { bytes: 5 });
  }
  await using refused = await startReading(() => Promise.reject(new CallFailure({ name: "key_invalid" })));
  await write(refused.client, head(mebibyte));
  await refused.client.closed;
  assert.match(refused.client.head(), /^HTTP\/1\.1 401 /);
});
