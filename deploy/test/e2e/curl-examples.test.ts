import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { httpDialects } from "../../../services/relay/dialects/index.ts";
import { startStack } from "../../tools/local/stack.ts";

const run = promisify(execFile);
const readme = await readFile(fileURLToPath(import.meta.resolve("../../../services/relay/README.md")), "utf8");

/** The fenced shell blocks of the section "Try it", in order. */
function readExamples(): string[] {
  const section = /^## Try it\n(.*?)^## /ms.exec(readme)?.[1] ?? "";
  return [...section.matchAll(/^```sh\n(.*?)^```/gms)].map(([, block]) => block ?? "");
}

const examples = readExamples().map((script) => ({ script, path: /\$BASE_URL(\/[\w/]+)/.exec(script)?.[1] ?? "none" }));

/** What an answer must say, by the path. */
const answers: Record<string, RegExp> = {
  "/v1/chat/completions": /^data: .*"content":"Hello!".*"finish_reason":"stop".*^data: \[DONE\]$/ms,
  "/v1/responses": /^event: response\.created$.*^event: response\.output_text\.delta$.*^event: response\.completed$/ms,
  "/v1/messages": /^event: message_start$.*"text":"Hello!".*^event: message_stop$/ms,
  "/v1/responses/compact": /"object": "response\.compaction"/,
  "/v1/embeddings": /"embedding":"[\w+/]{43}=".*"embedding":"[\w+/]{43}="/,
  "/v1/completions": /"text": "Hello! You said: \\"Once upon a time\\"/,
  "/v1/images/generations": /^event: image_generation\.partial_image$.*^event: image_generation\.completed$/ms,
  "/v1/images/edits": /"b64_json".*"usage"/s,
  "/v1/audio/speech": /^$/,
  "/v1/audio/transcriptions": /"text":"I am the demo upstream.*"usage":\{"type":"duration","seconds":1\}/,
  "/v1/audio/translations": /"text":"I am the demo upstream.*"usage":\{"type":"duration","seconds":1\}/,
  "/v1/moderations": /"flagged": false.*"flagged": true/s,
  "/v1/videos": /"object":"video".*"status":"(?:queued|in_progress)"/,
  "/v1/realtime/client_secrets": /"value":"ek_relay_[\w-]+","expires_at":\d+,"session":\{.*"model":"demo-realtime"/,
  "/v1/models": /demo-chat.*demo-transcription/,
};

const convertedAnswer = /^x-relay-dropped: logit_bias\r$.*"content":"Hello! You said/ms;

test("there is an example for every endpoint, and none for anything else", () => {
  const paths = new Set(examples.map(({ path }) => path));
  const served = httpDialects.map(({ path }) => path);
  assert.deepEqual(paths, new Set([...served, "/v1/realtime/client_secrets", "/v1/models", "/v1/videos"]));
});

describe("the README's curl examples run as pasted against what npm start starts", async () => {
  await run("curl", ["--version"]).catch(() => assert.fail("curl is missing: install the package curl of the system"));
  const folder = await mkdtemp(join(tmpdir(), "relay-curl-"));
  const stack = await startStack({
    folder,
    environment: { PATH: process.env["PATH"], HOME: process.env["HOME"] },
    isDurable: false,
    onLine: () => undefined,
  });
  after(async () => {
    await stack[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const env = { PATH: process.env["PATH"], BASE_URL: stack.addresses.relayUrl, API_KEY: stack.key.secret };

  for (const { script, path } of examples) {
    test(`${path}: ${script.split("\n").at(-2)?.trim()}`, async () => {
      // One after the other, because the sound that one example writes is read by another.
      const { stdout, stderr } = await run("sh", ["-c", script], { cwd: folder, env, timeout: 30_000 });
      const isConverted = script.includes("demo-converted");
      assert.match(stdout, isConverted ? convertedAnswer : (answers[path] ?? /none/));
      assert.equal(stderr, "");
    });
  }

  test("the example of speech wrote a sound", async () => {
    const sound = await readFile(join(folder, "hello.wav"));
    assert.match(sound.toString("latin1", 0, 12), /^RIFF.{4}WAVE$/s);
  });
});
