import assert from "node:assert/strict";
import { test } from "node:test";
import { chunkText, instantMark, streamChunks, type LoadKind } from "./answers.ts";
import { streamEnds } from "./requests.ts";
import { createChecker, type Expectation } from "./verdict.ts";
import { framesOf, wholeAnswer, wires } from "./wire.ts";

const { start, content, rest } = wires["openai-chat"];
const frames = [...start, ...Array.from({ length: streamChunks }, () => content), ...rest];
const streamText = frames.join("").replaceAll(chunkText, ` ${instantMark}0012${"0".repeat(12)}`);
const stream = Buffer.from(streamText);

function expectation(kind: LoadKind, size: number | undefined): Expectation {
  return { kind, size, minSize: kind === "json" ? 1 : streamChunks, end: streamEnds["openai-chat"] };
}

function judge(expected: Expectation, status: number, parts: Buffer[]) {
  const instants: number[] = [];
  const checker = createChecker(expected, (instantUs) => instants.push(instantUs));
  checker.begin(status);
  const records = parts.reduce((sum, part) => sum + checker.look(part), 0);
  return { complaint: checker.complaint(), records, instants };
}

const whole = expectation("paced", framesOf("openai-chat"));
const cut = (bytes: Buffer, at: number): Buffer[] => [bytes.subarray(0, at), bytes.subarray(at)];

test("a whole stream passes, wherever its bytes are cut in two", () => {
  for (let at = 1; at < stream.length; at += 1) {
    const { complaint, records } = judge(whole, 200, cut(stream, at));
    assert.deepEqual([complaint, records], ["", 104], `cut at ${at}`);
  }
});

test("each content chunk of a paced stream tells its instant", () => {
  const { instants } = judge(whole, 200, [stream]);
  assert.deepEqual([instants.length, new Set(instants)], [100, new Set([12_000_000_000_000])]);
});

test("a stream without one of its records, or without its end, is told", () => {
  const burst = expectation("burst", framesOf("openai-chat"));
  assert.match(judge(burst, 200, [Buffer.from(frames.slice(1).join(""))]).complaint, /103 records/);
  assert.match(judge(burst, 200, [Buffer.from(frames.slice(0, -1).join(""))]).complaint, /103 records/);
  const extended = [...frames.slice(0, -1), "data: [DONE!\n\n"].join("");
  assert.match(judge(burst, 200, [Buffer.from(extended)]).complaint, /DONE/);
});

test("where the size is not known, the first answer sets it, and it must have something in it", () => {
  const learning = expectation("burst", undefined);
  assert.match(judge(learning, 200, [Buffer.from("data: [DONE]\n\n")]).complaint, /1 records instead of at least 100/);
  assert.equal(judge(learning, 200, [stream]).complaint, "");
  assert.match(judge(learning, 200, [Buffer.from(frames.slice(1).join(""))]).complaint, /103 records instead of 104/);
});

test("an answer of another length or status is told, with the words of a refusal", () => {
  const json = Buffer.from(wholeAnswer("openai-chat"));
  const expected = expectation("json", json.length);
  assert.equal(judge(expected, 200, cut(json, 9)).complaint, "");
  assert.match(judge(expected, 200, [json.subarray(1)]).complaint, /1023 bytes/);
  assert.match(judge(expected, 401, [Buffer.from('{"error":"Invalid API key"}')]).complaint, /401.*Invalid API key/);
});
