import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { LLMock } from "@copilotkit/aimock";
import OpenAI from "openai";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { modelOn, upstreamAt } from "./catalog.ts";
import { costOf } from "./charge.ts";
import { sharedWorldWith } from "./shared-world.ts";

// An upstream that nobody here wrote, so that the relay and its fake cannot agree on a mistake.
const mock = new LLMock({ port: 0, host: "127.0.0.1", auth: { apiKeys: ["demo"] } });
const call = { name: "get_weather", arguments: { city: "New York City", days: 2 } };
mock.onMessage("talk", { content: "Hello from somebody else.", usage: { prompt_tokens: 21, completion_tokens: 34 } });
mock.onMessage("reason", {
  content: "It is 4.",
  reasoning: "Two and two.",
  usage: { input_tokens: 5, output_tokens: 8 },
});
mock.onMessage("tool", { toolCalls: [call], usage: { prompt_tokens: 13, completion_tokens: 55 } });
mock.onMessage("silent about use", { content: "No counts here." });
mock.onMessage("fail", { error: { message: "The mock is sorry.", type: "server_error" }, status: 500 });
await mock.start();
after(() => mock.stop());

const world = await sharedWorldWith(() => ({
  upstreams: { mock: upstreamAt(mock.url) },
  models: { "gpt-4o": modelOn("mock") },
}));
const { relayUrl } = world;
const customer = await world.createCustomer();
const openai = new OpenAI({ baseURL: `${relayUrl}/v1`, apiKey: customer.secret, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: relayUrl, apiKey: customer.secret, maxRetries: 0 });

const ask = (prompt: string) => ({ model: "gpt-4o", messages: [{ role: "user" as const, content: prompt }] });
const askMessages = (prompt: string) => ({ ...ask(prompt), max_tokens: 100 });

let booked = 0;

/** Checks the newest ledger line against what the mock said it used. */
async function checkBooked(inputTokens: bigint, outputTokens: bigint): Promise<void> {
  booked += 1;
  const line = (await world.untilSettled(customer.accountId, booked)).at(-1);
  assert.equal(line?.usage?.usageSource, UsageSource.PROVIDER);
  assert.deepEqual([line?.usage?.usage?.inputTokens, line?.usage?.usage?.outputTokens], [inputTokens, outputTokens]);
  assert.equal(line?.amountNanos, -costOf({ inputTokens, outputTokens }));
}

describe("@copilotkit/aimock upstream, the official openai client", () => {
  test("a whole chat answer", async () => {
    const { choices } = await openai.chat.completions.create(ask("talk"));
    assert.equal(choices[0]?.message.content, "Hello from somebody else.");
    await checkBooked(21n, 34n);
  });

  test("a streamed chat answer, its counts asked for by the relay alone", async () => {
    const { choices, usage } = await openai.chat.completions.stream(ask("talk")).finalChatCompletion();
    assert.equal(choices[0]?.message.content, "Hello from somebody else.");
    assert.equal(usage ?? undefined, undefined);
    await checkBooked(21n, 34n);
  });

  test("a streamed chat answer, its counts asked for by the caller", async () => {
    const asked = { ...ask("talk"), stream_options: { include_usage: true } };
    const { usage } = await openai.chat.completions.stream(asked).finalChatCompletion();
    assert.deepEqual([usage?.prompt_tokens, usage?.completion_tokens], [21, 34]);
    await checkBooked(21n, 34n);
  });

  test("tool calls, whole and streamed", async () => {
    const tools = [{ type: "function" as const, function: { name: call.name, parameters: {} } }];
    const whole = await openai.chat.completions.create({ ...ask("tool"), tools });
    await checkBooked(13n, 55n);
    const streamed = await openai.chat.completions.stream({ ...ask("tool"), tools }).finalChatCompletion();
    await checkBooked(13n, 55n);
    for (const { choices } of [whole, streamed]) {
      const [made] = choices[0]?.message.tool_calls ?? [];
      assert.ok(made?.type === "function");
      assert.deepEqual([made.function.name, JSON.parse(made.function.arguments)], [call.name, call.arguments]);
    }
  });

  test("an error keeps its wording", async () => {
    await assert.rejects(openai.chat.completions.create(ask("fail")), (error) => {
      assert.ok(error instanceof OpenAI.InternalServerError);
      assert.match(error.message, /The mock is sorry\./);
      return true;
    });
    booked += 1;
    const line = (await world.untilSettled(customer.accountId, booked)).at(-1);
    assert.equal(line?.amountNanos, 0n);
  });
});

describe("@copilotkit/aimock upstream, the official anthropic client", () => {
  const textOf = ({ content }: Anthropic.Message): string =>
    content.map((block) => (block.type === "text" ? block.text : "")).join("");

  test("a whole message", async () => {
    const whole = await anthropic.messages.create(askMessages("talk"));
    assert.deepEqual([textOf(whole), whole.stop_reason], ["Hello from somebody else.", "end_turn"]);
    await checkBooked(21n, 34n);
  });

  test("a streamed message", async () => {
    const whole = await anthropic.messages.stream(askMessages("talk")).finalMessage();
    assert.deepEqual([textOf(whole), whole.stop_reason], ["Hello from somebody else.", "end_turn"]);
    await checkBooked(21n, 34n);
  });

  test("thinking, whole and streamed", async () => {
    const whole = await anthropic.messages.create(askMessages("reason"));
    await checkBooked(5n, 8n);
    const streamed = await anthropic.messages.stream(askMessages("reason")).finalMessage();
    await checkBooked(5n, 8n);
    for (const { content } of [whole, streamed]) {
      const [thinking, text] = content;
      assert.deepEqual(thinking?.type === "thinking" && thinking.thinking, "Two and two.");
      assert.deepEqual(text?.type === "text" && text.text, "It is 4.");
    }
  });

  test("tools, whole and streamed", async () => {
    const tools = [{ name: call.name, input_schema: { type: "object" as const } }];
    const whole = await anthropic.messages.create({ ...askMessages("tool"), tools });
    await checkBooked(13n, 55n);
    const streamed = await anthropic.messages.stream({ ...askMessages("tool"), tools }).finalMessage();
    await checkBooked(13n, 55n);
    for (const { content, stop_reason: reason } of [whole, streamed]) {
      const made = content.find((block) => block.type === "tool_use");
      assert.deepEqual([made?.name, made?.input, reason], [call.name, call.arguments, "tool_use"]);
    }
  });

  test("counts of 0 for an answer that has content are charged as told", async () => {
    const whole = await anthropic.messages.create(askMessages("silent about use"));
    assert.deepEqual([textOf(whole), whole.usage.output_tokens], ["No counts here.", 0]);
    booked += 1;
    const line = (await world.untilSettled(customer.accountId, booked)).at(-1);
    assert.deepEqual([line?.usage?.usageSource, line?.amountNanos], [UsageSource.PROVIDER, 0n]);
  });
});
