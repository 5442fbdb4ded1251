import assert from "node:assert/strict";
import { test } from "node:test";
import { createAnswerReader } from "./answer-reader.ts";

type Answer = { status: number; body: string };

function readAnswers(parts: Buffer[]): Answer[] {
  const answers: Answer[] = [];
  let current: Answer = { status: 0, body: "" };
  const read = createAnswerReader({
    onHead: (status) => (current = { status, body: "" }),
    onPayload: (part) => (current.body += part.toString("latin1")),
    onEnd: () => answers.push(current),
  });
  for (const part of parts) read(part);
  return answers;
}

function piecesOf(text: string, size: number): Buffer[] {
  const bytes = Buffer.from(text, "latin1");
  const count = Math.ceil(bytes.length / size);
  return Array.from({ length: count }, (_, index) => bytes.subarray(index * size, (index + 1) * size));
}

const whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const empty = "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n";
const chunked =
  "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1A\r\n0\r\n\r\nabcdefghijklmnopqrstu\r\n0\r\n\r\n";
const trailed = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n";
const expected: Answer[] = [
  { status: 200, body: "hello" },
  { status: 204, body: "" },
  { status: 503, body: "hello0\r\n\r\nabcdefghijklmnopqrstu" },
  { status: 200, body: "hi" },
  { status: 200, body: "hello" },
];

test("answers are read alike however their bytes are cut", () => {
  const text = whole + empty + chunked + trailed + whole;
  for (let size = 1; size <= text.length; size += 1) {
    assert.deepEqual(readAnswers(piecesOf(text, size)), expected, `pieces of ${size} bytes`);
  }
});

test("an answer that is cut off does not count as one", () => {
  assert.deepEqual(readAnswers([Buffer.from(chunked.slice(0, -1))]), []);
  assert.deepEqual(readAnswers([Buffer.from(whole.slice(0, -1))]), []);
});

test("what is no HTTP, or tells no length, is an error", () => {
  assert.throws(() => readAnswers([Buffer.from("SSH-2.0\r\n\r\n")]), /no HTTP/);
  assert.throws(() => readAnswers([Buffer.from("HTTP/1.1 200 OK\r\n\r\n")]), /without its length/);
  assert.throws(() => readAnswers([Buffer.from(`${chunked.slice(0, 51)}zz\r\n`)]), /without its size/);
});
