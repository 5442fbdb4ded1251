import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { promisify } from "node:util";
import { curlLine, videoCurlLine } from "./welcome.ts";

const run = promisify(execFile);

test("the printed curl lines work as pasted into a shell: method, key and body arrive whole", async () => {
  const seen: { url: string | undefined; headers: Record<string, unknown>; body: string }[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => (body += text));
    request.on("end", () => {
      seen.push({ url: request.url, headers: request.headers, body });
      response.end("ok");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    await run("sh", ["-c", curlLine(url, "sk-x", { model: "demo-chat", dialect: "openai-chat" })]);
    await run("sh", ["-c", curlLine(url, "sk-x", { model: "claude", dialect: "anthropic-messages" })]);
    await run("sh", ["-c", videoCurlLine(url, "sk-x", "demo-video")]);
  } finally {
    server.close();
  }
  const [chat, messages, video] = seen;
  assert.equal(chat?.url, "/v1/chat/completions");
  assert.equal(chat?.headers["authorization"], "Bearer sk-x");
  assert.deepEqual(JSON.parse(chat?.body ?? ""), {
    model: "demo-chat",
    stream: true,
    messages: [{ role: "user", content: "Say hello" }],
  });
  assert.equal(messages?.url, "/v1/messages");
  assert.equal(messages?.headers["x-api-key"], "sk-x");
  assert.match(String(messages?.headers["provider-version"]), /^\d{4}-\d\d-\d\d$/);
  assert.deepEqual([video?.url, video?.headers["authorization"]], ["/v1/videos", "Bearer sk-x"]);
  assert.deepEqual(JSON.parse(video?.body ?? ""), { model: "demo-video", prompt: "A tide pool at dawn" });
});
