import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { type FakeUpstream, startFakeUpstream } from "./upstream.ts";

// The provider's own client is the judge of the shapes: what it reads as right is right.

const clientFor = (upstream: FakeUpstream): OpenAI =>
  new OpenAI({ baseURL: `${upstream.url}/v1`, apiKey: "sk-test", maxRetries: 0 });

const ask = { model: "gpt-fake", input: "one two three" };
const weather = { name: "get_weather", arguments: { city: "New York City", days: 2 } };

const claimed = { inputTokens: 100, cacheReadTokens: 40, outputTokens: 12, reasoningTokens: 7 };

/** The names of all events of a stream, those of many in a row told once. */
async function namesOf(stream: AsyncIterable<{ type: string }>): Promise<string[]> {
  const names: string[] = [];
  for await (const { type } of stream) if (names.at(-1) !== type) names.push(type);
  return names;
}

test("a whole response with its text, its usage with details, and what was asked for", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { text: "Hello there, you.", usage: claimed } });
  const asked = { ...ask, instructions: "Be kind.", max_output_tokens: 50, metadata: { a: "b" } };
  const whole = await clientFor(upstream).responses.create(asked);
  assert.deepEqual([whole.output_text, whole.status, whole.object], ["Hello there, you.", "completed", "response"]);
  assert.deepEqual(whole.usage, {
    input_tokens: 140,
    input_tokens_details: { cached_tokens: 40 },
    output_tokens: 19,
    output_tokens_details: { reasoning_tokens: 7 },
    total_tokens: 159,
  });
  assert.deepEqual([whole.instructions, whole.max_output_tokens, whole.metadata], ["Be kind.", 50, { a: "b" }]);
  assert.equal(upstream.truth[0]?.promptTokens, 5);
});

test("a streamed text climbs the ladder of events, numbered, and the client gathers it", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { text: "a b c" } });
  const events: { type: string; sequence_number: number }[] = [];
  const stream = clientFor(upstream).responses.stream(ask);
  stream.on("event", (event) => events.push(event));
  const whole = await stream.finalResponse();
  assert.deepEqual(
    events.map(({ type }) => type),
    [
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      ...Array.from({ length: 3 }, () => "response.output_text.delta"),
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ],
  );
  assert.deepEqual(
    events.map(({ sequence_number: number }) => number),
    [...events.keys()],
  );
  assert.deepEqual([whole.output_text, whole.usage?.output_tokens, whole.usage?.input_tokens], ["a b c", 3, 3]);
  assert.deepEqual([upstream.truth[0]?.tokensEmitted, upstream.truth[0]?.isClaimEmitted], [3, true]);
});

test("reasoning and function calls stream as items of their own, with pieces of arguments", async () => {
  const behaviour = { thinking: "Let me think.", text: "I will look.", tools: [weather] };
  await using upstream = await startFakeUpstream({ behaviour });
  const client = clientFor(upstream);
  const names = await namesOf(await client.responses.create({ ...ask, stream: true }));
  assert.deepEqual(
    names.filter((name) => /reasoning|arguments/.test(name)),
    [
      "response.reasoning_summary_part.added",
      "response.reasoning_summary_text.delta",
      "response.reasoning_summary_text.done",
      "response.reasoning_summary_part.done",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
    ],
  );
  const streamed = await client.responses.stream(ask).finalResponse();
  const whole = await client.responses.create(ask);
  for (const { output, usage } of [streamed, whole]) {
    assert.deepEqual(
      output.map(({ type }) => type),
      ["reasoning", "message", "function_call"],
    );
    const [reasoning, , call] = output;
    assert.equal(reasoning?.type === "reasoning" && reasoning.summary[0]?.text, "Let me think.");
    assert.ok(call?.type === "function_call");
    assert.deepEqual([call.name, JSON.parse(call.arguments)], [weather.name, weather.arguments]);
    assert.equal(usage?.output_tokens, 3 + 3 + 1 + 3);
  }
  assert.ok(upstream.truth.every(({ tokensEmitted }) => tokensEmitted === 10));
});

test("an output limit makes the response incomplete, whole and streamed", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { outputTokens: 50 } });
  const asked = { ...ask, max_output_tokens: 4 };
  const whole = await clientFor(upstream).responses.create(asked);
  assert.deepEqual([whole.status, whole.incomplete_details], ["incomplete", { reason: "max_output_tokens" }]);
  assert.equal(whole.usage?.output_tokens, 4);
  const names = await namesOf(await clientFor(upstream).responses.create({ ...asked, stream: true }));
  assert.equal(names.at(-1), "response.incomplete");
});

test("a failure in the middle: the event error and response.failed, or either alone, or a cut", async () => {
  await using upstream = await startFakeUpstream();
  const read = async (kind: "error-event" | "failed-event" | "lone-error-event" | "cut"): Promise<string> => {
    upstream.scriptNext({ text: "a b c", fault: { kind, afterChunks: 2 } });
    const stream = await fetch(`${upstream.url}/v1/responses`, {
      method: "POST",
      headers: { authorization: "Bearer sk-test" },
      body: JSON.stringify({ ...ask, stream: true }),
    });
    let text = "";
    const reading = async (): Promise<void> => {
      const decoder = new TextDecoder();
      for await (const chunk of stream.body ?? []) text += decoder.decode(chunk as Uint8Array, { stream: true });
    };
    await reading().catch(() => undefined);
    const numbers = [...text.matchAll(/"sequence_number":(\d+)\}\n/g)].map(([, number]) => Number(number));
    assert.deepEqual(numbers, [...numbers.keys()]);
    return [...text.matchAll(/^event: (.*)$/gm)].map(([, name]) => name).join(" ");
  };
  const before =
    "response.created response.in_progress response.output_item.added response.content_part.added" +
    " response.output_text.delta response.output_text.delta";
  assert.equal(await read("error-event"), `${before} error response.failed`);
  assert.equal(await read("failed-event"), `${before} response.failed`);
  assert.equal(await read("lone-error-event"), `${before} error`);
  assert.equal(await read("cut"), before);
  assert.ok(upstream.truth.every(({ tokensEmitted, isClaimEmitted }) => tokensEmitted === 2 && !isClaimEmitted));
});

test("the client throws at the event error", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { fault: { kind: "error-event", afterChunks: 1 } } });
  await assert.rejects(clientFor(upstream).responses.stream(ask).finalResponse(), OpenAI.APIError);
});

test("errors come in the client's own types", async () => {
  await using upstream = await startFakeUpstream({ behaviour: { status: 429 } });
  await assert.rejects(clientFor(upstream).responses.create(ask), OpenAI.RateLimitError);
});

test("a conversation of items is read whole: its words count, its last user turn scripts", async () => {
  await using upstream = await startFakeUpstream();
  const input = [
    { role: "developer" as const, content: "two words" },
    { role: "user" as const, content: [{ type: "input_text" as const, text: '{"fake":{"text":"scripted"}}' }] },
    { type: "function_call" as const, call_id: "call_1", name: "f", arguments: "{}" },
    { type: "function_call_output" as const, call_id: "call_1", output: "it is warm" },
  ];
  const whole = await clientFor(upstream).responses.create({ model: "gpt-fake", input });
  assert.deepEqual([whole.output_text, whole.usage?.input_tokens], ["scripted", 2 + 1 + 3]);
});

test("a compaction keeps the user's turns and seals the rest, with its usage", async () => {
  await using upstream = await startFakeUpstream();
  const input = [
    { role: "user" as const, content: "one two three four five six" },
    { role: "assistant" as const, content: "seven eight nine ten eleven" },
  ];
  const whole = await clientFor(upstream).responses.compact({ model: "gpt-fake", input });
  assert.equal(whole.object, "response.compaction");
  assert.deepEqual(
    whole.output.map(({ type }) => type),
    ["message", "compaction"],
  );
  assert.deepEqual([whole.usage.input_tokens, whole.usage.output_tokens], [11, 2]);
  assert.equal(upstream.truth[0]?.claim?.outputTokens, 2);
});
