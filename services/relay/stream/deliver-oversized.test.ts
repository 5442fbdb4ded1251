import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { Agent } from "undici";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure } from "../failures.ts";
import { createReplyRoom } from "../http/reply-room.ts";
import { createMetrics } from "../metrics.ts";
import { envelopeOf, liveCallOf, settlingOf } from "../testing/fakes.ts";
import { countThreads, createThreads } from "../threads/threads.ts";
import type { UpstreamAnswer } from "../upstream/reach.ts";
import { createSendSignal, send } from "../upstream/send.ts";
import { deliver, type Deliverable } from "./deliver.ts";

const metrics = createMetrics(createRegistry("relay"));
const settling = settlingOf();
const threads = createThreads(countThreads(metrics, settling.log));
const agent = new Agent();
const closing: (() => void)[] = [];
after(async () => {
  for (const close of closing) close();
  await agent.close();
  await threads[Symbol.asyncDispose]();
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const maxReplyBytes = 400_000;

/** Gives an upstream's answer to a caller on a real socket. */
async function pass(name: DialectName, body: string | string[]) {
  const dialect = dialects[name];
  const upstream = await serve((_, answer) => {
    answer.writeHead(200, { "content-type": "application/json" });
    for (const piece of [body].flat()) answer.write(piece);
    answer.end();
  });
  const call = liveCallOf({ upstream: "u" });
  const ended: EndCause[] = [];
  const thrown: unknown[] = [];
  const relayUrl = await serve((_, response) => {
    void (async () => {
      const signal = createSendSignal();
      const request = {
        origin: upstream,
        path: "/",
        headers: [],
        signal,
        totalTimeoutMs: 9_000,
        onOver: () => undefined,
      };
      const answer = await send(agent, request);
      const prepared = { dialect, dropped: [], conversion: undefined, single: undefined };
      const envelope = envelopeOf({ input: "x" }, name);
      const deliverable = { call, envelope, dialect, response, signal } as unknown as Deliverable;
      const route = { upstream: { name: "u", credential: "secret", headers: [] } };
      const limits = { maxReplyBytes, maxEventBytes: 1_000 };
      const relay = { settling, metrics, limits, threads, replies: createReplyRoom(maxReplyBytes) };
      const answered = { answer, route, prepared } as unknown as UpstreamAnswer;
      await deliver(deliverable, answered, relay, (endCause) => ended.push(endCause));
    })().catch((error) => {
      thrown.push(error);
      if (!response.headersSent) response.writeHead(500).end();
    });
  });
  const reply = await fetch(relayUrl);
  const text = await reply.text();
  return { call, ended, thrown, text, status: reply.status };
}

const embedding = Array.from({ length: 3_072 }, (_, at) => Math.sin(at));
const list = JSON.stringify({
  object: "list",
  data: Array.from({ length: 60 }, (_, index) => ({ object: "embedding", index, embedding })),
  usage: { prompt_tokens: 4_000, total_tokens: 4_000 },
});

test("an answer that is larger than any that is kept passes as it comes, and is charged", async () => {
  const { call, ended, text } = await pass("openai-embeddings", list);
  assert.ok(list.length > 8 * maxReplyBytes);
  assert.equal(text === list, true);
  assert.deepEqual([ended, call.tally.usage], [[EndCause.COMPLETE], { inputTokens: 4_000n }]);
});

test("one that is no JSON is invalid, and nobody pays", async () => {
  const { ended, thrown } = await pass("openai-embeddings", "<html>".repeat(100_000));
  assert.ok(thrown[0] instanceof CallFailure && thrown[0].failure.name === "upstream_invalid");
  assert.deepEqual(ended, []);
});

test("one without an end is broken off", async () => {
  const piece = "1,".repeat(maxReplyBytes);
  await assert.rejects(pass("openai-embeddings", ['{"data":[', ...Array.from({ length: 20 }, () => piece)]));
});
