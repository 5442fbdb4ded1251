import assert from "node:assert/strict";
import { test } from "node:test";
import { contentPath, startFiles, startWithFile } from "../testing/video-files.ts";
import { ask, errorOf } from "../testing/video-relay.ts";

const away = "The model service is temporarily unavailable, please try again later";

const statuses: [number, number, string | null][] = [
  [401, 503, "60"],
  [429, 429, "60"],
  [500, 502, null],
  [503, 503, "5"],
  [204, 502, null],
];
for (const [status, told, retryAfter] of statuses) {
  test(`the provider answers ${status}`, async () => {
    await using files = await startFiles((_request, response) => void response.writeHead(status).end());
    await using relay = await startWithFile(files.port);
    const answer = await ask(relay, contentPath);
    assert.deepEqual([answer.status, answer.headers.get("retry-after")], [told, retryAfter]);
  });
}

test("API spec, Cases: Upstream returned an error | 500 | Upstream wording, without our insides", async () => {
  const words = "It broke at https://somewhere.internal with sk-abcdef123";
  for (const [dialect, error] of [
    ["openai-videos", { message: words, type: "server_error", param: "variant", code: null }],
    ["gemini-videos", { code: 500, message: words, status: "INTERNAL" }],
  ] as const) {
    for (const status of [500, 502, 520]) {
      await using files = await startFiles((_request, response) => {
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ error }));
      });
      await using relay = await startWithFile(files.port, { upstream: { dialects: [dialect] } });
      const { status: told, body } = await ask(relay, contentPath);
      const param = dialect === "openai-videos" ? "variant" : "";
      const message = "It broke at [hidden] with [hidden]";
      assert.equal(told, 500, dialect);
      assert.deepEqual(body, { error: { message, type: "api_error", param, code: "server_error" } });
    }
  }
});

test("words of a provider that says 503, or that the trouble is our account, are not told", async () => {
  const bodies = ["insufficient_quota", "server_error"].map((type) => ({ error: { message: "words", type } }));
  for (const [status, body, retryAfter] of [
    [500, bodies[0], "60"],
    [503, bodies[1], "5"],
  ] as const) {
    await using files = await startFiles((_, response) => {
      response.writeHead(status).end(JSON.stringify(body));
    });
    await using relay = await startWithFile(files.port);
    const answer = await ask(relay, contentPath);
    assert.deepEqual(errorOf(answer), [503, "api_error", "service_unavailable", away]);
    assert.equal(answer.headers.get("retry-after"), retryAfter);
  }
});

test("an error of a provider that never ends, or is no JSON, is told as one that cannot be read", async () => {
  for (const begin of ["<html>", '{"error":']) {
    await using files = await startFiles((_, response) => {
      response.writeHead(500).write(begin);
      setImmediate(() => response.destroy());
    });
    await using relay = await startWithFile(files.port);
    assert.equal((await ask(relay, contentPath)).status, 502, begin);
  }
});

test("a provider that is not there is a 500, one that says nothing a 504", async () => {
  await using files = await startFiles(() => undefined);
  await using silent = await startWithFile(files.port, { upstream: { firstByteTimeoutMs: 50 } });
  assert.deepEqual(errorOf(await ask(silent, contentPath)), [504, "api_error", "server_error", away]);
  await using relay = await startWithFile(1);
  assert.deepEqual(errorOf(await ask(relay, contentPath)), [500, "api_error", "server_error", away]);
});
