import assert from "node:assert/strict";
import { test } from "node:test";
import type { Quirk } from "../dialects/conversation.ts";
import { clients, providers } from "../dialects/conversions.ts";
import { emptyTally, type DialectName } from "../dialects/dialect.ts";
import { readStreamEvent } from "../dialects/sse.ts";
import { eventsOf } from "../testing/answer-scripts.ts";
import { envelopeOf } from "../testing/fakes.ts";
import { convertReply, createTranslator } from "./convert.ts";

// Deltas as OpenRouter gave them: Claude's signature behind its thoughts, Gemini's before the call that it is for,
// xAI's encrypted reasoning behind its summary; and one of Vercel's gateway, behind Gemini's text.
const call = { index: 0, id: "call_1", type: "function", function: { name: "add", arguments: '{"a":2}' } };
const gemini = { type: "reasoning.encrypted", data: "Ejq", id: "call_1", format: "google-gemini-v1", index: 0 };
const answers = {
  claude: [
    {
      reasoning: "Let me ",
      reasoning_details: [{ type: "reasoning.text", text: "Let me ", format: "anthropic-claude-v1", index: 0 }],
    },
    {
      reasoning: "add.",
      reasoning_details: [{ type: "reasoning.text", text: "add.", format: "anthropic-claude-v1", index: 0 }],
    },
    { reasoning_details: [{ type: "reasoning.text", signature: "Eq0", format: "anthropic-claude-v1", index: 0 }] },
    { tool_calls: [call] },
  ],
  gemini: [{ reasoning_details: [gemini] }, { tool_calls: [call] }],
  xai: [
    {
      reasoning: "Adding.",
      reasoning_details: [{ type: "reasoning.summary", summary: "Adding.", format: "xai-responses-v1", index: 0 }],
    },
    {
      reasoning_details: [
        { type: "reasoning.encrypted", data: "gAA", id: "rs_1", format: "xai-responses-v1", index: 1 },
      ],
    },
    { content: "Two." },
  ],
  vercel: [{ content: "Hi." }, { reasoning_details: [{ ...gemini, id: undefined }] }],
};
const expected: Record<keyof typeof answers, unknown> = {
  claude: [{ type: "reasoning.text", text: "Let me add.", signature: "Eq0", format: "anthropic-claude-v1", index: 0 }],
  gemini: [gemini],
  xai: [
    { type: "reasoning.summary", summary: "Adding.", format: "xai-responses-v1", index: 0 },
    { type: "reasoning.encrypted", data: "gAA", id: "rs_1", format: "xai-responses-v1", index: 1 },
  ],
  vercel: [{ type: "reasoning.encrypted", data: "Ejq", format: "google-gemini-v1", index: 0 }],
};

const asked = { model: "m", wantsStreamUsage: true, inputTokens: 1 };
const envelope = envelopeOf({ stream: true });
const limits = { contextTokens: 1_000, maxOutputTokens: 1_000 };
const provider = providers["openai-chat"];
const finish = { index: 0, delta: {}, finish_reason: "stop" };
const chunk = (choice: object): string => `data: ${JSON.stringify({ id: "c", model: "m", choices: [choice] })}\n\n`;

/** The answer as a caller of the format has it at the end of its stream. */
function streamed(to: DialectName, deltas: readonly object[]): unknown {
  const client = clients[to];
  assert.ok(client && provider);
  const tap = createTranslator({ conversion: { client, provider }, asked, envelope, clean: (error) => error, limits });
  const tally = emptyTally();
  let text = "";
  for (const event of [...deltas.map((delta) => chunk({ index: 0, delta })), chunk(finish), "data: [DONE]\n\n"]) {
    const verdict = tap.read(readStreamEvent(Buffer.from(event)), tally);
    if (typeof verdict !== "string") text += verdict.toString();
  }
  text += tap.end(tally);
  const events = eventsOf(text);
  if (to === "openai-responses") return events.find(({ type }) => type === "response.completed")?.["response"];
  const blocks: Record<string, unknown>[] = [];
  for (const { type, index, content_block: block, delta } of events) {
    if (type === "content_block_start") blocks[Number(index)] = { ...(block as object), json: "" };
    const open = blocks[Number(index)];
    if (type !== "content_block_delta" || !open) continue;
    for (const [name, piece] of Object.entries(delta as Record<string, string>)) {
      if (name === "partial_json") open["json"] += piece;
      else if (name !== "type") open[name] = ((open[name] as string | undefined) ?? "") + piece;
    }
  }
  const content = blocks.map(({ json, ...block }) =>
    block["type"] === "tool_use" ? { ...block, input: JSON.parse(String(json)) as unknown } : block,
  );
  return { content };
}

function whole(to: DialectName, deltas: readonly Record<string, unknown>[]): unknown {
  const client = clients[to];
  assert.ok(client && provider);
  const join = (name: string): string => deltas.map((delta) => (delta[name] as string | undefined) ?? "").join("");
  const message = {
    role: "assistant",
    content: join("content"),
    reasoning: join("reasoning"),
    reasoning_details: deltas.flatMap((delta) => (delta["reasoning_details"] as unknown[] | undefined) ?? []),
    tool_calls: deltas.flatMap((delta) => (delta["tool_calls"] as unknown[] | undefined) ?? []),
  };
  const body = { id: "c", model: "m", choices: [{ index: 0, message, finish_reason: "stop" }] };
  const read = convertReply(body, { conversion: { client, provider }, asked, envelope, limits });
  return JSON.parse(read?.body?.toString() ?? "null");
}

/** What a provider of chat is sent when the caller goes on with the answer, and what is lost. */
function continued(to: DialectName, answer: unknown, quirks: Quirk[]): { details: unknown; losses: string[] } {
  const client = clients[to];
  assert.ok(client && provider);
  const { content = [], output = [] } = answer as { content?: unknown[]; output?: unknown[] };
  const result = { type: "tool_result", tool_use_id: "call_1", content: "2" };
  const hasCall = JSON.stringify(content).includes("tool_use");
  const user = { role: "user", content: hasCall ? [result] : "Go on." };
  const isCalled = JSON.stringify(output).includes("call_1");
  const next = isCalled
    ? { type: "function_call_output", call_id: "call_1", output: "2" }
    : { role: "user", content: "Go on." };
  const { conversation } = client.readRequest(
    to === "anthropic-messages"
      ? { max_tokens: 9, messages: [{ role: "user", content: "Add." }, { role: "assistant", content }, user] }
      : { input: [{ role: "user", content: "Add." }, ...output, next] },
  );
  const target = { model: "m", maxOutputTokens: 9, quirks: new Set(quirks), takesOutputFormat: false };
  const { body, losses } = provider.writeRequest(conversation, target);
  const message = (body["messages"] as Record<string, unknown>[]).find(({ role }) => role === "assistant");
  return { details: message?.["reasoning_details"], losses: [...losses] };
}

for (const [name, deltas] of Object.entries(answers) as [keyof typeof answers, Record<string, unknown>[]][]) {
  for (const to of ["anthropic-messages", "openai-responses"] as const) {
    // State of a last text is kept from callers of Format B, whose clients take the last block for the answer.
    if (name === "vercel" && to === "anthropic-messages") continue;
    test(`reasoning_details of ${name} come back through ${to} as they were given, streamed and whole`, () => {
      for (const answer of [streamed(to, deltas), whole(to, deltas)]) {
        assert.deepEqual(continued(to, answer, ["reasoning-details"]), { details: expected[name], losses: [] });
        const { details, losses } = continued(to, answer, []);
        assert.equal(details, undefined);
        assert.ok(losses.includes("opaqueState"), "a provider that takes none");
      }
    });
  }
}

test("thoughts that only the details tell are shown; what a caller has changed is left out", () => {
  const details = [{ type: "reasoning.text", text: "Hm.", format: "unknown", index: 0 }];
  const answer = streamed("anthropic-messages", [{ reasoning_details: details }, { content: "Two." }]) as {
    content: Record<string, unknown>[];
  };
  assert.deepEqual(answer.content[0]?.["thinking"], "Hm.");
  assert.deepEqual(continued("anthropic-messages", answer, ["reasoning-details"]).details, details);
  for (const value of ["%%", Buffer.from("7").toString("base64url"), Buffer.from("[7,null]").toString("base64url")]) {
    const [thinking, ...rest]: Record<string, unknown>[] = answer.content;
    const changed: unknown = { content: [{ ...thinking, signature: `relay.1.openai-chat.${value}` }, ...rest] };
    assert.equal(continued("anthropic-messages", changed, ["reasoning-details"]).details, undefined);
  }
});
