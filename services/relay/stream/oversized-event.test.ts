import assert from "node:assert/strict";
import { test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { until } from "#shared/testing/until.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { startStream } from "../testing/pumped.ts";

// A provider bills what it has made, also where no caller can be given it.

const maxEventBytes = 300_000;
const event = (json: object): string => `data: ${JSON.stringify(json)}\n\n`;
const chunk = (choices: object[], more: object = {}): string =>
  event({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices, ...more });
const say = (content: string): string => chunk([{ index: 0, delta: { content }, finish_reason: null }]);
const large = "x".repeat(2 * maxEventBytes);

const drawn = {
  type: "image_generation.completed",
  b64_json: "A".repeat(2 * maxEventBytes),
  created_at: 1,
  usage: { input_tokens: 5, output_tokens: 4_000, total_tokens: 4_005, input_tokens_details: { text_tokens: 5 } },
};
const made = (text: string): object => ({
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }],
});
const answered = {
  type: "response.completed",
  response: {
    id: "resp_1",
    object: "response",
    status: "completed",
    instructions: large,
    output: Array.from({ length: 1_000 }, () => made("y".repeat(500))),
    usage: { input_tokens: 9, output_tokens: 70, total_tokens: 79, output_tokens_details: { reasoning_tokens: 60 } },
  },
};
const delta = { type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta: "Hi" };
const counts = { prompt_tokens: 3, completion_tokens: 44, total_tokens: 47 };

type Row = [what: string, dialect: DialectName, before: string, rest: string, told: (bigint | undefined)[]];
const rows: Row[] = [
  ["a picture", "openai-images", "", event(drawn), [5n, 4_000n]],
  ["the end of a response", "openai-responses", event(delta), `event: x\r\n${event(answered)}`, [9n, 10n]],
  ["words, with counts behind", "openai-chat", say("a"), `${say(large)}${chunk([], { usage: counts })}`, [3n, 44n]],
  ["words twice", "openai-chat", say("a"), `${say(large)}${say(large)}${chunk([], { usage: counts })}`, [3n, 44n]],
];

for (const [what, dialect, before, rest, told] of rows) {
  for (const pieceBytes of [1_000, 65_536, 250_000]) {
    test(`${what}, too large to be given, in pieces of ${pieceBytes}: the caller gets what was before, the bill all`, async () => {
      await using pumped = await startStream({ dialect, request: { input: "x", prompt: "x" }, maxEventBytes });
      if (before !== "") pumped.give(before);
      for (let at = 0; at < rest.length; at += pieceBytes) pumped.give(rest.slice(at, at + pieceBytes));
      assert.ok(!pumped.steps.includes("abort"));
      pumped.end();
      const received = await pumped.received();
      assert.ok(received.startsWith(before) && received.length < before.length + 1_000, received.slice(0, 200));
      assert.equal(pumped.endCause(), EndCause.UPSTREAM_ERROR);
      const { usage = {}, hasContent } = pumped.tally;
      const output = usage.imageOutputTokens === undefined ? usage.outputTokens : usage.imageOutputTokens;
      assert.deepEqual([usage.inputTokens, output, hasContent], [...told, true]);
    });
  }
}

test("a large event that can be no JSON, and a stream without an end behind one, are left", async () => {
  for (const rest of [`data: ${large}`, `data: {"a":"${large}`]) {
    await using pumped = await startStream({ maxEventBytes });
    pumped.give(say("a"));
    for (let times = 0; times < 20 && !pumped.steps.includes("abort"); times += 1) {
      pumped.give(times === 0 ? rest : large);
    }
    await until("the upstream is left", () => pumped.steps.includes("abort"));
    assert.equal(pumped.endCause(), EndCause.UPSTREAM_ERROR);
  }
});
