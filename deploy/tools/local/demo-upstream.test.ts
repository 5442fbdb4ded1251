import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { startProcess } from "#shared/testing/child-process.ts";
import { readTruthFile } from "#fake-provider/truth.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";

const entry = fileURLToPath(import.meta.resolve("./demo-upstream.ts"));

test("the demo upstream streams an answer word by word that echoes the prompt, and counts words as tokens; it makes videos", async () => {
  const folder = await mkdtemp(join(tmpdir(), "demo-upstream-"));
  const truthFile = join(folder, "truth.jsonl");
  const [port, videosPort] = [await freePort(), await freePort()];
  const ports = { PORT: String(port), VIDEOS_PORT: String(videosPort) };
  const environment = { ...process.env, ...ports, TRUTH_FILE: truthFile };
  const demo = await startProcess({ command: process.execPath, args: [entry], environment, orphanSignal: "SIGKILL" });
  try {
    await until("the demo upstream answers", () => fetch(`http://127.0.0.1:${port}/readyz`));
    const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "demo", maxRetries: 0 });
    const stream = client.chat.completions.stream({
      model: "demo-chat",
      stream_options: { include_usage: true },
      messages: [{ role: "user", content: "Say hello to all of us, and to nobody else" }],
    });
    let pieces = 0;
    stream.on("content", () => (pieces += 1));
    const whole = await stream.finalChatCompletion();
    const text = whole.choices[0]?.message.content ?? "";
    assert.match(text, /"Say hello to all of us, and to …"/);
    const words = text.split(" ").length;
    assert.deepEqual([whole.usage?.prompt_tokens, whole.usage?.completion_tokens, pieces], [10, words, words]);
    await until("the call was noted", () => readTruthFile(truthFile)[0]?.ended !== "open");
    assert.deepEqual(
      readTruthFile(truthFile).map(({ ended, tokensEmitted }) => [ended, tokensEmitted]),
      [["whole", words]],
    );
    const videos = new OpenAI({ baseURL: `http://127.0.0.1:${videosPort}/v1`, apiKey: "demo", maxRetries: 0 });
    const { status } = await videos.videos.create({ model: "demo-video", prompt: "A tide pool at dawn" });
    assert.equal(status, "queued");
    assert.equal(demo.lastLines().length, 1, "it logs its start and nothing else");
  } finally {
    await demo.end("SIGTERM");
    await rm(folder, { recursive: true });
  }
});
