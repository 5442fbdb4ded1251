import assert from "node:assert/strict";
import { test } from "node:test";
import { chunkText, wantedKind } from "./answers.ts";
import { renderRequest, requestBody, type ClientName } from "./requests.ts";
import { framesOf, modelOn, wholeAnswer, wireOf, wires, type WireName } from "./wire.ts";

const clients: ClientName[] = ["openai-chat", "anthropic-messages", "openai-responses"];
const names = Object.keys(wires) as WireName[];

test("whole answers have 1 KB, and only a content frame has the place of an instant", () => {
  for (const name of names) {
    assert.equal(Buffer.byteLength(wholeAnswer(name)), 1_024, name);
    const { start, content, rest } = wires[name];
    assert.equal(content.split(chunkText).length, 2, name);
    assert.ok(![...start, ...rest].join("").includes("@"), name);
    assert.equal(framesOf(name), start.length + 100 + rest.length);
  }
});

test("a request of each dialect has the bytes that were asked for, and names its kind at the beginning", () => {
  for (const client of clients) {
    for (const kind of ["json", "paced", "burst", "idle"] as const) {
      const body = Buffer.from(requestBody({ kind, client, model: modelOn(client), bytes: 32_768 }));
      assert.deepEqual([body.length, wantedKind(body.subarray(0, 1_024))], [32_768, kind], `${client} ${kind}`);
    }
  }
});

test("a request carries the headers of its destination, and another secret in the place of theirs", () => {
  const call = { kind: "json", client: "anthropic-messages", model: "m", bytes: 300 } as const;
  const destination = { port: 7, headers: { authorization: "Bearer a", "x-more": "b" } };
  const text = renderRequest(call, destination, "c").toString();
  assert.match(text, /^POST \/v1\/messages HTTP\/1\.1\r\nhost: 127\.0\.0\.1:7\r\n/);
  assert.match(text, /\r\nauthorization: Bearer c\r\n/);
  assert.match(text, /\r\nx-more: b\r\ncontent-length: 300\r\n\r\n\{/);
  assert.ok(!text.includes("Bearer a"));
});

test("a path tells its dialect", () => {
  const paths = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1beta/models/m:generateContent"];
  assert.deepEqual(paths.map(wireOf), ["openai-chat", "anthropic-messages", "openai-responses", "gemini-generate"]);
});
