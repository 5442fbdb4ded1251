import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, test } from "node:test";
import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { dialectNames } from "../../../services/relay/dialects/dialect.ts";
import { ask } from "./ask.ts";
import { testCatalog, modelOn, upstreamAt } from "./catalog.ts";
import { unitsOf } from "./charge.ts";
import { startFixedUpstream } from "./fixed-upstream.ts";
import { startWorld } from "./world.ts";

const maxReplyBytes = 400_000;
const embedding = Array.from({ length: 3_072 }, (_, at) => Math.sin(at));
const embeddings = {
  object: "list",
  data: Array.from({ length: 40 }, (_, index) => ({ object: "embedding", index, embedding })),
  model: "served",
  usage: { prompt_tokens: 4_000, total_tokens: 4_000 },
};
const likely = {
  token: "x",
  logprob: -0.5,
  bytes: [120],
  top_logprobs: Array.from({ length: 20 }, () => ({ token: "x" })),
};
const completion = {
  id: "c1",
  object: "chat.completion",
  created: 1_767_225_600,
  model: "served",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "x".repeat(3_000), refusal: null },
      logprobs: { content: Array.from({ length: 3_000 }, () => likely), refusal: null },
      finish_reason: "stop",
    },
  ],
  usage: { prompt_tokens: 10, completion_tokens: 3_000, total_tokens: 3_010 },
};
const response = {
  id: "resp_1",
  object: "response",
  status: "completed",
  model: "served",
  output: [
    {
      type: "message",
      id: "msg_1",
      role: "assistant",
      status: "completed",
      content: [
        { type: "output_text", text: "x", annotations: [], logprobs: Array.from({ length: 3_000 }, () => likely) },
      ],
    },
  ],
  usage: { input_tokens: 10, output_tokens: 3_000, total_tokens: 3_010 },
};
const answerOf = (whole: object | string) => ({
  whole: Buffer.from(typeof whole === "string" ? whole : JSON.stringify(whole)),
  stream: Buffer.alloc(0),
});
const answers = {
  embeddings: answerOf(embeddings),
  completion: answerOf(completion),
  response: answerOf(response),
  page: answerOf("<html>".repeat(100_000)),
  endless: answerOf(`{"data":[${"1,".repeat(17 * maxReplyBytes)}`),
};
const upstream = await startFixedUpstream(answers);
after(() => upstream.close());
const names = Object.keys(answers);
const world = await startWorld({
  catalog: (url) => {
    const at = (name: string) =>
      upstreamAt(`${upstream.url}/${name}`, { dialects: ["openai-chat", "openai-embeddings", "openai-responses"] });
    return testCatalog(url, {
      upstreams: Object.fromEntries(names.map((name) => [name, at(name)])),
      models: Object.fromEntries(names.map((name) => [name, modelOn(name, { dialects: [...dialectNames] })])),
    });
  },
  serviceEnvironment: { relay: { MAX_REPLY_BYTES: `${maxReplyBytes}` } },
});
after(() => world[Symbol.asyncDispose]());

const bodies = {
  "/v1/embeddings": { input: "x" },
  "/v1/chat/completions": { messages: [{ role: "user", content: "x" }], logprobs: true, top_logprobs: 20 },
  "/v1/responses": { input: "x", top_logprobs: 20 },
};
async function call(path: keyof typeof bodies, model: string) {
  const customer = await world.createCustomer();
  const headers = { authorization: `Bearer ${customer.secret}`, "content-type": "application/json" };
  const reply = await ask(`${world.relayUrl}${path}`, { headers, body: JSON.stringify({ model, ...bodies[path] }) });
  return { customer, reply };
}
const hashOf = (text: string | Buffer): string => createHash("sha256").update(text).digest("hex");

const passing = [
  ["/v1/embeddings", "embeddings", { inputTokens: 4_000n }],
  ["/v1/chat/completions", "completion", { inputTokens: 10n, outputTokens: 3_000n }],
] as const;
for (const [path, name, units] of passing) {
  test(`an answer that is larger than any that is kept passes, and is charged: ${path}`, async () => {
    const { customer, reply } = await call(path, name);
    assert.equal(reply.status, 200);
    assert.equal(hashOf(reply.text), hashOf(answers[name].whole));
    const line = await world.untilBooked(customer.accountId, reply.rid);
    assert.deepEqual(unitsOf(line), units);
    assert.deepEqual([line.usage.usageSource, line.usage.endCause], [UsageSource.PROVIDER, EndCause.COMPLETE]);
  });
}

test("one that would have to be changed for the caller is charged, and nobody asks for it again", async () => {
  const { customer, reply } = await call("/v1/responses", "response");
  assert.equal(reply.status, 400);
  assert.match(reply.text, /the answer is too large/);
  assert.equal(reply.headers.get("x-should-retry"), "false");
  const line = await world.untilBooked(customer.accountId, reply.rid);
  assert.deepEqual(unitsOf(line), { inputTokens: 10n, outputTokens: 3_000n });
});

test("one that is no JSON is 502 and free", async () => {
  const { customer, reply } = await call("/v1/embeddings", "page");
  assert.equal(reply.status, 502);
  const [line] = await world.untilSettled(customer.accountId, 1);
  assert.equal(line?.amountNanos, 0n);
});

test("one without an end is broken off", async () => {
  await assert.rejects(call("/v1/embeddings", "endless"));
});
