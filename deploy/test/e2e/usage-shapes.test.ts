import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { chat, bodyOf, ridOf } from "./ask.ts";
import { modelOn, prices, upstreamAt } from "./catalog.ts";
import { checkCharge, costOf, unitsOf } from "./charge.ts";
import { callers, clientNames } from "./conversion.ts";
import { startShapedUpstream, type Shape } from "./shaped-upstream.ts";
import { sharedWorldWith } from "./shared-world.ts";

const text = "Hi there";

/** A message in the format of Anthropic. */
function messageOf(usage: object, content: object[] = [{ type: "text", text }]): Shape {
  const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-served", content };
  const ending = { stop_reason: "end_turn", stop_sequence: null };
  const first = { input_tokens: 9, output_tokens: 1 };
  return {
    whole: { ...message, ...ending, usage },
    events: [
      { type: "message_start", message: { ...message, content: [], stop_reason: null, usage: first } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: ending, usage },
      { type: "message_stop" },
    ],
  };
}

const run = (type: string, input_tokens: number, output_tokens: number, model?: string): object => ({
  type,
  input_tokens,
  output_tokens,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
  ...(model !== undefined && { model }),
});

const atOnce = (): Shape => {
  const { whole } = messageOf({ input_tokens: 70, output_tokens: 12 });
  return { whole, events: [{ type: "message_start", message: whole }, { type: "message_stop" }] };
};

/** A response in the format of OpenAI. */
function responseOf(usage: object, items: object[], more: object = {}): Shape {
  const said = {
    type: "message",
    id: "item_1",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text, annotations: [] }],
  };
  const output = [...items, said];
  const head = { id: "resp_1", object: "response", created_at: 1_767_225_600, model: "gpt-served" };
  const response = { ...head, status: "completed", output, usage, ...more };
  const done = output.map((item, output_index) => ({ type: "response.output_item.done", output_index, item }));
  const created = { type: "response.created", response: { ...head, status: "in_progress", output: [] } };
  return { whole: response, events: [created, ...done, { type: "response.completed", response }] };
}

/** A chat completion of which the usage comes behind the text. */
function chatOf(usage: object): Shape {
  const head = { id: "c1", created: 1_767_225_600, model: "served" };
  const chunk = (choices: object[], more: object = {}): object => ({
    ...head,
    object: "chat.completion.chunk",
    choices,
    ...more,
  });
  const message = { role: "assistant", content: text };
  return {
    whole: { ...head, object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop" }], usage },
    events: [
      chunk([{ index: 0, delta: message, finish_reason: null }]),
      chunk([{ index: 0, delta: {}, finish_reason: "stop" }]),
      chunk([], { usage }),
    ],
    isDoneTold: true,
  };
}

/** A piece of text 200 times behind a usage of 1 and 1, and then nothing. */
function cutChat(): Shape {
  const chunk = (content: string, more: object = {}): object => ({
    id: "c1",
    choices: [{ index: 0, delta: { content }, finish_reason: null }],
    ...more,
  });
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const pieces = Array.from({ length: 199 }, () => chunk("word"));
  return { whole: {}, events: [chunk("word", { usage }), ...pieces], isCut: true };
}

type Case = { dialect: string; shape: Shape; charged: Units; settings?: object; price?: Record<string, string> };

const tools = { web_searches: "10000", web_fetches: "1000" };
const toolPrices = { webSearches: 10_000_000_000_000n, webFetches: 1_000_000_000_000n };

const cases: Record<string, Case> = {
  "runs of a compaction": {
    dialect: "anthropic-messages",
    shape: messageOf({
      input_tokens: 2_000,
      output_tokens: 40,
      iterations: [run("compaction", 50_000, 900), run("message", 2_000, 40)],
    }),
    charged: { inputTokens: 52_000n, outputTokens: 940n },
  },
  "an adviser with prices of its own": {
    dialect: "anthropic-messages",
    shape: messageOf({
      input_tokens: 2_000,
      output_tokens: 40,
      iterations: [run("message", 2_000, 40), run("advisor_message", 1_000, 100, "adviser-model")],
    }),
    // 1,000 at 20 USD and 100 at 100 USD a million.
    charged: { inputTokens: 2_000n, outputTokens: 40n, otherModelsNanos: 30_000_000n },
  },
  "web searches and fetches": {
    dialect: "anthropic-messages",
    shape: messageOf({
      input_tokens: 30,
      output_tokens: 4,
      server_tool_use: { web_search_requests: 2, web_fetch_requests: 1 },
    }),
    price: tools,
    charged: { inputTokens: 30n, outputTokens: 4n, webSearches: 2n, webFetches: 1n },
  },
  "an answer that message_start holds whole": {
    dialect: "anthropic-messages",
    shape: atOnce(),
    charged: { inputTokens: 70n, outputTokens: 12n },
  },
  "searches among pages that were opened": {
    dialect: "openai-responses",
    shape: responseOf({ input_tokens: 30, output_tokens: 4, total_tokens: 34 }, [
      { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "x" } },
      {
        type: "web_search_call",
        id: "ws_2",
        status: "completed",
        action: { type: "open_page", url: "https://a.example" },
      },
      { type: "web_search_call", id: "ws_3", status: "completed", action: { type: "find_in_page", pattern: "x" } },
    ]),
    price: tools,
    charged: { inputTokens: 30n, outputTokens: 4n, webSearches: 1n },
  },
  "cache writes by how long they are kept": {
    dialect: "openai-responses",
    shape: responseOf(
      {
        input_tokens: 200,
        input_tokens_details: {
          cached_tokens: 50,
          cache_write_tokens: 100,
          cache_write_tokens_details: { ttl_30m_tokens: 70, ttl_12h_tokens: 30 },
        },
        output_tokens: 4,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 204,
      },
      [],
    ),
    charged: {
      inputTokens: 50n,
      cacheReadTokens: 50n,
      cacheWrite5mTokens: 70n,
      cacheWrite1hTokens: 30n,
      outputTokens: 4n,
    },
  },
  "reasoning that only the total tells": {
    dialect: "openai-chat",
    shape: chatOf({ prompt_tokens: 40, completion_tokens: 7, total_tokens: 109 }),
    settings: { quirks: ["reasoning-in-total"] },
    charged: { inputTokens: 40n, outputTokens: 7n, reasoningTokens: 62n },
  },
};

const modelName = (name: string): string => name.replaceAll(/[^a-z]+/gi, "-");
const cutName = "cut-behind-its-first-counts";
const shapes = Object.fromEntries(Object.entries(cases).map(([name, { shape }]) => [modelName(name), shape]));
const upstream = await startShapedUpstream({ ...shapes, [cutName]: cutChat() });
after(() => upstream.close());

const row = (more: Record<string, string> = {}): Record<string, string> => ({
  version: "shapes-1",
  input_tokens: "3.000000007",
  cache_read_tokens: "0.300000011",
  cache_write_5m_tokens: "3.750000013",
  cache_write_1h_tokens: "6.000000017",
  output_tokens: "15.000000019",
  reasoning_tokens: "17.000000023",
  ...more,
});

const dialects = ["anthropic-messages", "openai-responses", "openai-chat"] as const;
const world = await sharedWorldWith(() => ({
  upstreams: Object.fromEntries(dialects.map((name) => [name, upstreamAt(upstream.url, { dialects: [name] })])),
  models: {
    ...Object.fromEntries(
      Object.entries(cases).map(([name, { dialect, settings, price }]) => [
        modelName(name),
        modelOn(dialect, { ...settings, price: row(price) }),
      ]),
    ),
    [cutName]: modelOn("openai-chat"),
    "adviser-model": modelOn("anthropic-messages", {
      price: { version: "adviser-1", input_tokens: "20", output_tokens: "100" },
    }),
  },
}));

describe("usage in every shape that providers have is charged, whole and streamed, and shown in every format", () => {
  for (const [name, { charged }] of Object.entries(cases)) {
    for (const client of clientNames) {
      for (const isStream of [false, true]) {
        test(`${name}: ${client}, ${isStream ? "streamed" : "whole"}`, async () => {
          const customer = await world.createCustomer();
          const caller = callers[client];
          const asking = { model: modelName(name), history: [caller.question("Say something.")], isStream };
          const heard = await caller.ask(world.relayUrl, customer.secret, asking);
          assert.equal(heard.text, text);
          const line = await world.untilBooked(customer.accountId, heard.rid);
          assert.deepEqual(unitsOf(line), charged);
          assert.equal(line.usage.usageSource, UsageSource.PROVIDER);
          assert.equal(line.usage.endCause, EndCause.COMPLETE);
          const cost = costOf(charged, { ...prices, ...toolPrices, otherModelsNanos: 1_000_000n });
          assert.equal(line.amountNanos, -cost);
        });
      }
    }
  }
});

test("counts of the first chunk are none for 200 chunks behind it: what was sent is charged when the stream is cut", async () => {
  const customer = await world.createCustomer();
  const body = bodyOf({ side: chat, model: cutName, isStream: true });
  const response = await fetch(`${world.relayUrl}${chat.path}`, {
    method: "POST",
    headers: chat.headers(customer.secret),
    body,
  });
  const told = await response.text();
  const sentText = "word".repeat(told.split('"word"').length - 1);
  assert.ok(sentText.length > 0);
  const charge = { sentBody: body, sentText };
  await checkCharge(world, customer, { rid: ridOf(response), endCause: EndCause.UPSTREAM_CUT, charge });
});
