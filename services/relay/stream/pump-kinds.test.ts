import assert from "node:assert/strict";
import { test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { content, done, eventOf, finish, startStream } from "../testing/pumped.ts";

const speech = { dialect: "openai-speech", isOfEvents: false, request: { input: "hello", voice: "v" } } as const;

test("bytes pass as they come, whatever they look like, and are whole when the upstream ends them", async () => {
  await using pumped = await startStream(speech);
  pumped.give("data: half an ev");
  assert.deepEqual(pumped.steps, ["write data: half an ev"]);
  pumped.give("\u0000\n\nent");
  pumped.end();
  assert.equal(await pumped.received(), "data: half an ev\u0000\n\nent");
  assert.equal(pumped.endCause(), EndCause.COMPLETE);
});

test("bytes that the upstream cut end in a broken connection, because nothing else tells that some are missing", async () => {
  await using pumped = await startStream(speech);
  pumped.give("half");
  pumped.fail(new Error("cut"));
  await pumped.received();
  assert.equal(pumped.endCause(), EndCause.UPSTREAM_CUT);
  assert.ok(!pumped.steps.some((step) => step.startsWith("end")), "no clean end");
});

test("API spec, Streaming that stops partway: Responses. An upstream error partway ends in response.failed", async () => {
  await using pumped = await startStream({ dialect: "openai-responses", request: { input: "x" } });
  const created = eventOf("response.created", {
    sequence_number: 0,
    response: { id: "resp_1", status: "in_progress" },
  });
  const error = eventOf("error", { sequence_number: 1, code: "server_error", message: "broken" });
  pumped.give(created + eventOf("response.output_text.delta", { delta: "half" }) + error);
  pumped.end();
  const received = await pumped.received();
  assert.ok(received.startsWith(created));
  assert.match(received, /event: response\.failed\n[^]*"broken"/);
  assert.equal(pumped.endCause(), EndCause.UPSTREAM_ERROR);
});

test("API spec, Streaming that stops partway: Responses. A cut stream ends without response.completed", async () => {
  await using pumped = await startStream({ dialect: "openai-responses", request: { input: "x" } });
  const delta = eventOf("response.output_text.delta", { delta: "half" });
  pumped.give(delta);
  pumped.fail(new Error("cut"));
  assert.equal(await pumped.received(), delta);
  assert.equal(pumped.endCause(), EndCause.UPSTREAM_CUT);
});

test("heartbeats are comments between whole events, only after a silence, and none behind the end", async () => {
  await using pumped = await startStream();
  pumped.give(`${content("a")}data: {"half`);
  pumped.pumping.beat(60_000);
  pumped.pumping.beat(0);
  pumped.give(`":1}\n\n${finish}${done}`);
  pumped.end();
  pumped.pumping.beat(0);
  assert.equal(await pumped.received(), `${content("a")}: keep-alive\n\ndata: {"half":1}\n\n${finish}${done}`);
});
