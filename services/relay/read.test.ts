import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import { until } from "#shared/testing/until.ts";
import type { DialectName } from "./dialects/dialect.ts";
import { dialects } from "./dialects/index.ts";
import { CallFailure, type Failure } from "./failures.ts";
import { maxBodyBytes, readBody, readEnvelope, readKey, readVersion } from "./read.ts";
import { respondFailure } from "./respond.ts";
import { connectRaw, serveHttp, type RawClient } from "./testing/raw-client.ts";

function failureOf(run: () => unknown): Failure {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof CallFailure, `a CallFailure, not ${String(error)}`);
    return error.failure;
  }
  return assert.fail("nothing was thrown");
}

const keyRows: [string, Record<string, string>, boolean, string | undefined][] = [
  ["Authorization on any endpoint", { authorization: "Bearer sk-a" }, false, "sk-a"],
  ["Authorization on a Format B endpoint", { authorization: "Bearer sk-a" }, true, "sk-a"],
  ["x-api-key on a Format B endpoint", { "x-api-key": "sk-b" }, true, "sk-b"],
  ["x-api-key works only on Format B endpoints", { "x-api-key": "sk-b" }, false, undefined],
  ["x-api-key beside Authorization on Format B", { "x-api-key": "sk-b", authorization: "Bearer sk-a" }, true, "sk-b"],
  ["x-api-key beside Authorization elsewhere", { "x-api-key": "sk-b", authorization: "Bearer sk-a" }, false, "sk-a"],
  ["an empty x-api-key is none", { "x-api-key": "", authorization: "Bearer sk-a" }, true, "sk-a"],
  ["the scheme in any case", { authorization: "bearer  sk-a" }, false, "sk-a"],
  ["missing", {}, true, undefined],
  ["another scheme", { authorization: "Basic c2stYQ==" }, false, undefined],
  ["a scheme without a key", { authorization: "Bearer " }, false, undefined],
  ["two keys", { authorization: "Bearer sk-a sk-b" }, false, undefined],
];

for (const [what, headers, isFormatB, key] of keyRows) {
  test(`API spec, Authentication rules 1 and 6: ${what}`, () => {
    if (key === undefined) assert.equal(failureOf(() => readKey(headers, isFormatB)).name, "key_invalid");
    else assert.equal(readKey(headers, isFormatB), key);
  });
}

test("API spec, Authentication rule 2: provider-version, or anthropic-version, is a date <YYYY-MM-DD>", () => {
  assert.equal(readVersion({ "provider-version": "2026-10-21" }), "2026-10-21");
  assert.equal(readVersion({ "anthropic-version": "2023-06-01" }), "2023-06-01");
  assert.equal(readVersion({ "provider-version": "2026-10-21", "anthropic-version": "2023-06-01" }), "2026-10-21");
  for (const version of ["", "2026-1-1", "latest", "2026-10-21T00:00:00Z", " 2026-10-21"]) {
    assert.equal(readVersion({ "provider-version": version }), undefined, version);
  }
  assert.equal(readVersion({}), undefined);
});

type Outcome = { bytes: number } | { failure: string } | { gone: true };
type Reading = { request: IncomingMessage; keyChecks: number; outcome: Promise<Outcome> };

/** A server that reads one body as the path of a call does, and a caller on a socket. */
async function startReading(checkKey: () => Promise<void> = async () => undefined) {
  const begun = Promise.withResolvers<Reading>();
  const server = await serveHttp((request, response) => {
    const reading: Reading = { request, keyChecks: 0, outcome: Promise.resolve({ gone: true }) };
    const read = async (): Promise<Outcome> => {
      try {
        const body = await readBody(request, () => {
          reading.keyChecks += 1;
          return checkKey();
        });
        response.end("read");
        return body ? { bytes: body.length } : { gone: true };
      } catch (error) {
        assert.ok(error instanceof CallFailure);
        const { failure } = error;
        respondFailure(response, { rid: "rid-1", failure, dialect: dialects["openai-chat"] });
        return { failure: failure.name };
      }
    };
    reading.outcome = read();
    begun.resolve(reading);
  });
  const client = await connectRaw(server.port);
  return {
    client,
    reading: begun.promise,
    [Symbol.asyncDispose]: async () => {
      client.socket.destroy();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** Resolves when all of it has left this process, whether or not the server answers meanwhile. */
const write = ({ socket }: RawClient, bytes: string | Buffer): Promise<void> =>
  new Promise((written) => socket.write(bytes, () => written()));

const announce = (client: RawClient, length: number): Promise<void> =>
  write(client, `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`);
const announceChunks = (client: RawClient): Promise<void> =>
  write(client, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
const writeChunk = async (client: RawClient, length: number): Promise<void> => {
  await write(client, `${length.toString(16)}\r\n`);
  await write(client, Buffer.alloc(length, "x"));
  await write(client, "\r\n");
};
const lastChunk = "0\r\n\r\n";
const mebibyte = 1024 * 1024;

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

test("API spec, Limits: a body above 128 MB is 400, announced or not, but a wrong key comes first", async () => {
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

const version = { "provider-version": "2026-10-21" };

function envelopeFailure(text: string, dialect: DialectName = "openai-chat", headers = version): Failure {
  return failureOf(() => readEnvelope(Buffer.from(text), dialects[dialect], headers));
}

const requiredRows: [DialectName, string, string][] = [
  ["openai-chat", "{}", "model"],
  ["openai-chat", '{"messages":[]}', "model"],
  ["openai-chat", '{"model":null,"messages":[]}', "model"],
  ["openai-chat", '{"model":"","messages":[]}', "model"],
  ["openai-chat", '{"model":"m"}', "messages"],
  ["openai-chat", '{"model":"m","messages": null}', "messages"],
  ["anthropic-messages", '{"max_tokens":5,"messages":[]}', "model"],
  ["anthropic-messages", '{"model":"m","max_tokens":5}', "messages"],
  ["anthropic-messages", '{"model":"m","messages":[]}', "max_tokens"],
  ["anthropic-messages", '{"model":"m","messages":[],"max_tokens":null}', "max_tokens"],
];

for (const [dialect, text, field] of requiredRows) {
  test(`API spec, Cases, Required field missing: field ${field} is required, of ${dialect} ${text}`, () => {
    const failure = envelopeFailure(text, dialect);
    assert.deepEqual([failure.name, failure.detail], ["field_required", field]);
  });
}

const invalidRows: [string, string, RegExp][] = [
  ["a model that is no string", '{"model":7,"messages":[]}', /^field model must be a string$/],
  ["messages that are no array", '{"model":"m","messages":"hi"}', /^field messages must be an array$/],
  ["messages that are an object", '{"model":"m","messages":{}}', /^field messages must be an array$/],
];

for (const [what, text, detail] of invalidRows) {
  test(`400 invalid_request in words of our own: ${what}`, () => {
    const failure = envelopeFailure(text);
    assert.equal(failure.name, "field_invalid");
    assert.match(failure.detail ?? "", detail);
  });
}

for (const text of [
  "",
  "nope",
  "[]",
  '{"model":"m",}',
  '{"model":"m","model":"n","messages":[]}',
  '{"model":"\\q","messages":[]}',
]) {
  test(`API spec, Cases, Body not valid JSON: ${text}`, () => {
    assert.equal(envelopeFailure(text).name, "invalid_json");
  });
}

test("on /v1/messages a missing or malformed provider-version is 400 invalid_request_error, elsewhere it is not asked for", () => {
  const body = '{"model":"m","messages":[],"max_tokens":5}';
  for (const headers of [{}, { "provider-version": "latest" }]) {
    assert.equal(envelopeFailure(body, "anthropic-messages", headers as typeof version).name, "field_invalid");
    assert.equal(readEnvelope(Buffer.from(body), dialects["openai-chat"], headers).model, "m");
  }
  const alias = { "anthropic-version": "2023-06-01" };
  assert.equal(readEnvelope(Buffer.from(body), dialects["anthropic-messages"], alias).outputCap, 5);
});

test("everything else in a body is the upstream's to judge", () => {
  const body = '{"model":"m","messages":[{"role":7}],"temperature":"hot","max_tokens":"many","x_unknown":null}';
  const envelope = readEnvelope(Buffer.from(body), dialects["openai-chat"], {});
  assert.deepEqual([envelope.model, envelope.outputCap, envelope.isStream], ["m", undefined, false]);
});
