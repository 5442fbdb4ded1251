import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { createReader, retryAfterOf } from "./read-answer.ts";
import { upstreamAt } from "../testing/upstream-at.ts";

const readWith = (text: string, changes: Parameters<typeof upstreamAt>[1] = {}): unknown => {
  const reader = createReader(upstreamAt("https://api.example", changes));
  reader.take(Buffer.from(text));
  return reader.read();
};

test("Retry-After is seconds or a date, at most a day; anything else is none", () => {
  const cases: [string | string[] | undefined, number | undefined][] = [
    ["7", 7],
    [" 0 ", 0],
    [["3", "9"], 3],
    ["999999999999", 86_400],
    [new Date(0).toUTCString(), 0],
    [new Date(Date.now() + 10 * 86_400_000).toUTCString(), 86_400],
    ["soon", undefined],
    ["", undefined],
    [undefined, undefined],
  ];
  for (const [header, seconds] of cases) assert.equal(retryAfterOf(header), seconds, String(header));
});

test("Retry-After: whatever stands there is none or a whole number of seconds within a day", () => {
  fc.assert(
    fc.property(fc.string(), (header) => {
      const seconds = retryAfterOf(header);
      assert.ok(seconds === undefined || (Number.isInteger(seconds) && seconds >= 0 && seconds <= 86_400));
    }),
  );
});

test("an answer is put together of its pieces, also where one cuts a character", () => {
  const bytes = Buffer.from('{"prompt":"漢字"}');
  const reader = createReader(upstreamAt("https://api.example"));
  for (const byte of bytes) reader.take(Buffer.from([byte]));
  assert.deepEqual(reader.read(), { prompt: "漢字" });
});

test("of more than 1 MiB nothing is read, also where the rest is only blanks", () => {
  const reader = createReader(upstreamAt("https://api.example"));
  assert.equal(reader.take(Buffer.from('{"id":"video_1"}')), true);
  assert.equal(reader.take(Buffer.alloc(1_048_576, " ")), false);
  assert.equal(reader.read(), undefined);
});

test("JSON nested without end is no answer, and no crash", () => {
  assert.equal(readWith("[".repeat(500_000) + "]".repeat(500_000)), undefined);
});

test("credential, operator's headers and the proxy's password are taken out; short values are no secrets", () => {
  const changes = {
    credential: "secret-of-the-studio",
    headers: ["x-team", "secret-of-the-studio-team", "x-beta", "true"],
    proxy: new URL("http://someone:p%40ssword@proxy.internal:3128"),
  };
  const text = JSON.stringify({
    a: ["secret-of-the-studio-team", "true"],
    b: "p@ssword p%40ssword secret-of-the-studio",
  });
  assert.deepEqual(readWith(text, changes), { a: ["[hidden]", "true"], b: "[hidden] [hidden] [hidden]" });
});
