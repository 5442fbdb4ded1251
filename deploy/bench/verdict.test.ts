import assert from "node:assert/strict";
import { test } from "node:test";
import { instantMark, jsonAnswer, requestBody, streamAnswer, streamFrames, wantedKind } from "./answers.ts";
import { createChecker } from "./verdict.ts";

const stream = Buffer.from(streamAnswer().join("").replaceAll(`${instantMark}0000`, `${instantMark}0012`));

function judge(kind: "json" | "paced" | "burst", status: number, parts: Buffer[]) {
  const instants: number[] = [];
  const checker = createChecker(kind, (instantUs) => instants.push(instantUs));
  checker.begin(status);
  const records = parts.reduce((sum, part) => sum + checker.look(part), 0);
  return { complaint: checker.complaint(), records, instants };
}

const cut = (bytes: Buffer, at: number): Buffer[] => [bytes.subarray(0, at), bytes.subarray(at)];

test("requests and whole answers have 1 KB, and a request names its kind", () => {
  assert.equal(Buffer.byteLength(jsonAnswer()), 1_024);
  for (const kind of ["json", "paced", "burst"] as const) {
    const body = Buffer.from(requestBody(kind));
    assert.deepEqual([body.length, wantedKind(body)], [1_024, kind]);
  }
});

test("a whole stream passes, wherever its bytes are cut in two", () => {
  for (let at = 1; at < stream.length; at += 1) {
    const { complaint, records } = judge("paced", 200, cut(stream, at));
    assert.deepEqual([complaint, records], ["", streamFrames], `cut at ${at}`);
  }
});

test("each content chunk of a paced stream tells its instant", () => {
  const { instants } = judge("paced", 200, [stream]);
  assert.deepEqual([instants.length, new Set(instants)], [100, new Set([12_000_000_000_000])]);
});

test("a stream without one of its records, or without its end, is told", () => {
  const frames = streamAnswer();
  assert.match(judge("burst", 200, [Buffer.from(frames.slice(1).join(""))]).complaint, /103 records/);
  assert.match(judge("burst", 200, [Buffer.from(frames.slice(0, -1).join(""))]).complaint, /103 records/);
  const extended = [...frames.slice(0, -1), "data: [DONE!\n\n"].join("");
  assert.match(judge("burst", 200, [Buffer.from(extended)]).complaint, /DONE/);
});

test("an answer of another length or status is told, with the words of a refusal", () => {
  const json = Buffer.from(jsonAnswer());
  assert.equal(judge("json", 200, cut(json, 9)).complaint, "");
  assert.match(judge("json", 200, [json.subarray(1)]).complaint, /1023 bytes/);
  assert.match(judge("json", 401, [Buffer.from('{"error":"Invalid API key"}')]).complaint, /401.*Invalid API key/);
});
