import assert from "node:assert/strict";
import { test } from "node:test";
import { comesInTinyChunks } from "./tiny-chunks.ts";

const head = "POST /v1/x HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n";
const isTiny = (body: string, more = ""): boolean =>
  comesInTinyChunks(Buffer.from(`${head}${more}\r\n${body}`), 100, 8);

test("more chunks than are free, of fewer bytes than is the least, are tiny", () => {
  assert.ok(isTiny("1\r\n \r\n".repeat(101)));
  assert.ok(isTiny("0a\r\n0123456789\r\n" + "1;a=b\r\n \r\n".repeat(150)));
  assert.ok(isTiny("1\r\n\n\r\n".repeat(101)), "a line's end is content as well");
});

test("what is fewer, larger, cut, no chunk or without that head is Node's", () => {
  for (const body of [
    "",
    "1\r\n \r\n".repeat(100),
    "8\r\n01234567\r\n".repeat(500),
    `ff\r\n${"1\r\n \r\n".repeat(200)}`,
    `ffff\r\n${"1\r\n \r\n".repeat(200)}`,
    `${"1\r\n \r\n".repeat(90)}0\r\n\r\n${"1\r\n \r\n".repeat(200)}`,
    `${"1\r\n \r\n".repeat(90)}x\r\n${"1\r\n \r\n".repeat(200)}`,
    `${"1\r\n  \r\n".repeat(200)}`,
    `${"000000001\r\n \r\n".repeat(200)}`,
  ]) {
    assert.ok(!isTiny(body), body.slice(0, 40));
  }
  const chunks = "1\r\n \r\n".repeat(200);
  assert.ok(!comesInTinyChunks(Buffer.from(`POST / HTTP/1.1\r\nHost: r\r\n\r\n${chunks}`), 100, 8));
  assert.ok(!comesInTinyChunks(Buffer.from(head), 100, 8));
});
