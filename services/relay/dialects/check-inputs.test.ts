import assert from "node:assert/strict";
import { test } from "node:test";
import { checkInputs } from "./check-inputs.ts";
import { UnsupportedError, type CallPart, type Conversation } from "./conversation.ts";

const callsOf = (inputs: string[], isFreeText = false): Conversation => {
  const parts = inputs.map((input): CallPart => ({ kind: "call", id: "c", name: "t", input, isFreeText }));
  return {
    turns: [{ role: "assistant", parts }],
    tools: [],
    stopSequences: [],
    isStream: false,
    wantsStreamUsage: true,
  };
};

test("inputs of calls may have as many values together as a body, counted outside of their strings", () => {
  const half = `[${"1,".repeat(260_000)}1]`;
  checkInputs(callsOf([half, JSON.stringify({ text: "a,[{".repeat(500_000), more: '\\",[' })]));
  assert.throws(() => checkInputs(callsOf([half, half])), UnsupportedError);
  const many = Array.from({ length: 3_000 }, () => `[${"[],".repeat(200)}[]]`);
  assert.throws(() => checkInputs(callsOf(many)), UnsupportedError);
  checkInputs(callsOf([half, half], true));
});

test("tools and the names that a choice allows are bounded, for one is looked up among the other", () => {
  const names = Array.from({ length: 1_025 }, (_, at) => `t${at}`);
  const tools = names.map((name) => ({ name }));
  const conversation = callsOf([]);
  checkInputs({ ...conversation, tools: tools.slice(1), toolChoice: { kind: "auto", names: names.slice(1) } });
  assert.throws(() => checkInputs({ ...conversation, tools }), /field tools must have at most 1024 items/);
  const toolChoice = { kind: "auto", names } as const;
  assert.throws(() => checkInputs({ ...conversation, toolChoice }), /field tool_choice must have at most 1024 items/);
});
