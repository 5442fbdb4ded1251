import assert from "node:assert/strict";
import { test } from "node:test";
import { createRequestReader } from "./request-reader.ts";

function readRequests(text: string, size: number): string[] {
  const seen: string[] = [];
  const read = createRequestReader((path, bodyStart) => seen.push(`${path} ${bodyStart.toString()}`));
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size));
  return seen;
}

const request = "POST /v1/messages HTTP/1.1\r\nhost: a\r\nContent-Length: 4\r\n\r\nbody";
const bodyless = "GET /none HTTP/1.1\r\nhost: a\r\n\r\n";

test("requests are read alike however their bytes are cut, each only when it is whole", () => {
  const text = request + bodyless + request;
  for (let size = 1; size <= text.length; size += 1) {
    assert.deepEqual(readRequests(text, size), ["/v1/messages body", "/none ", "/v1/messages body"], `${size} bytes`);
  }
  assert.deepEqual(readRequests(request.slice(0, -1), 7), []);
});

test("of a large body only the beginning is kept", () => {
  const body = "x".repeat(100_000);
  const large = `POST /big HTTP/1.1\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  assert.deepEqual(readRequests(large + request, 1_000), [`/big ${"x".repeat(1_024)}`, "/v1/messages body"]);
});

test("a body that does not tell its length is an error", () => {
  assert.throws(() => readRequests("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 9), /without its length/);
});
