import assert from "node:assert/strict";
import { test } from "node:test";
import { clients, providers } from "./conversions.ts";
import type { CallerRequest } from "./conversion.ts";
import { member, type UpstreamDialectName } from "./dialect.ts";
import { unfoldReply } from "./reply.ts";
import { createShownReader, replyReaderOf } from "./testing/reading.ts";

const url = "data:image/png;base64,QUJD";
const chatImages = [{ type: "image_url", image_url: { url } }];
const drawing = {
  type: "image_generation_call",
  id: "ig_1",
  status: "completed",
  result: "QUJD",
  output_format: "png",
};
const geminiParts = [{ text: "Look:" }, { inlineData: { mimeType: "image/png", data: "QUJD" } }];

/** An answer with a text and a picture behind it, as each provider gives it, whole and in a stream. */
const answers: Partial<Record<UpstreamDialectName, { whole: object; events: (object | string)[] }>> = {
  "gemini-generate": {
    whole: { candidates: [{ content: { parts: geminiParts }, finishReason: "STOP" }] },
    events: geminiParts.map((part, at) => ({
      candidates: [{ content: { parts: [part] }, ...(at === 1 && { finishReason: "STOP" }) }],
    })),
  },
  "openai-chat": {
    whole: { choices: [{ message: { content: "Look:", images: chatImages }, finish_reason: "stop" }] },
    events: [
      { choices: [{ index: 0, delta: { content: "Look:" } }] },
      { choices: [{ index: 0, delta: { images: chatImages } }] },
      { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
      "[DONE]",
    ],
  },
  "openai-responses": {
    whole: { output: [{ type: "message", content: [{ type: "output_text", text: "Look:" }] }, drawing] },
    events: [
      { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "m", content: [] } },
      { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "Look:" },
      {
        type: "response.output_item.done",
        output_index: 0,
        item: { type: "message", id: "m", content: [{ type: "output_text", text: "Look:" }] },
      },
      { type: "response.output_item.added", output_index: 1, item: { ...drawing, result: null } },
      { type: "response.output_item.done", output_index: 1, item: drawing },
      { type: "response.completed", response: { output: [], status: "completed" } },
    ],
  },
};

const picture = { kind: "image", mediaType: "image/png", data: "QUJD" };
const asked: CallerRequest = { model: "m", wantsStreamUsage: false };

for (const [name, { whole, events }] of Object.entries(answers)) {
  const dialect = name as UpstreamDialectName;
  test(`a picture in an answer of ${name} is shown, whole and streamed`, () => {
    const blocks = [{ kind: "text", text: "Look:" }, picture];
    assert.deepEqual(replyReaderOf(dialect)(whole)?.choices[0]?.blocks, blocks);
    const reader = createShownReader(dialect);
    const shown = [...events.flatMap((event) => reader.read(event)), ...reader.end()];
    const starts = shown.flatMap((event) => (event.kind === "block-start" ? [event.block] : []));
    assert.deepEqual(starts, [{ kind: "text" }, picture]);
  });
}

const reply = replyReaderOf("gemini-generate")(answers["gemini-generate"]?.whole);

const written = (dialect: "openai-chat" | "openai-responses" | "anthropic-messages"): [object, object[]] => {
  const client = clients[dialect];
  assert.ok(client && reply);
  const writer = client.createStreamWriter(asked);
  const text = unfoldReply(reply)
    .map((event) => writer.write(event))
    .join("");
  const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json = ""]) => JSON.parse(json) as object);
  return [client.writeReply(reply, asked), events];
};

test("a picture reaches callers of chat beside the content", () => {
  const [whole, events] = written("openai-chat");
  const images = chatImages.map((image, index) => ({ index, ...image }));
  assert.partialDeepStrictEqual(whole, { choices: [{ message: { content: "Look:", images } }] });
  assert.ok(events.some((event) => JSON.stringify(event).includes(JSON.stringify({ images }).slice(1, -1))));
});

test("a picture reaches callers of responses as an item of its own", () => {
  const [whole, events] = written("openai-responses");
  const { id: _, ...item } = drawing;
  assert.partialDeepStrictEqual((whole as { output: object[] }).output[1] ?? {}, item);
  const types = events.map((event) => (event as { type: string }).type).filter((type) => type.includes("image"));
  assert.deepEqual(
    types,
    ["in_progress", "generating", "completed"].map((step) => `response.image_generation_call.${step}`),
  );
  const done = events.findLast((event) => (event as { type: string }).type === "response.output_item.done");
  assert.partialDeepStrictEqual(done ?? {}, { output_index: 1, item });
});

test("a picture reaches callers of messages as a block", () => {
  const [whole, events] = written("anthropic-messages");
  const block = { type: "image", source: { type: "base64", media_type: "image/png", data: "QUJD" } };
  assert.partialDeepStrictEqual(whole, { content: [{ type: "text", text: "Look:" }, block] });
  const starts = events.filter((event) => (event as { type: string }).type === "content_block_start");
  assert.partialDeepStrictEqual(starts[1] ?? {}, { index: 1, content_block: block });
});

test("a picture in the history goes back to a model that draws", () => {
  const requests = {
    "openai-chat": { messages: [{ role: "assistant", content: "Look:", images: chatImages }] },
    "openai-responses": { input: [{ role: "assistant", content: "Look:" }, drawing] },
    "anthropic-messages": {
      messages: [{ role: "assistant", content: member(written("anthropic-messages")[0], "content") }],
    },
  };
  const target = { model: "gemini-3-pro-image", maxOutputTokens: 1_000, quirks: new Set<never>() };
  for (const [dialect, request] of Object.entries(requests)) {
    const read = clients[dialect as keyof typeof requests]?.readRequest(request);
    const body = read && providers["gemini-generate"]?.writeRequest(read.conversation, target).body;
    assert.partialDeepStrictEqual(body ?? {}, { contents: [{ role: "user" }, { role: "model", parts: geminiParts }] });
    assert.deepEqual([...(read?.dropped ?? [])], [], dialect);
  }
});
