import assert from "node:assert/strict";
import { test } from "node:test";
import type { Part } from "../conversation.ts";
import { readAssistant } from "./read-assistant.ts";

const read = (message: object): { parts: Part[]; dropped: string[] } => {
  const dropped = new Set<string>();
  const parts = readAssistant(message, 0, dropped);
  return { parts, dropped: [...dropped] };
};
const partsOf = (message: object): Part[] => read(message).parts;
const called = (id: string): object => ({ id, type: "function", function: { name: "look", arguments: "{}" } });

test("thinking and its state go back to where they stood: before, between and behind text and calls", () => {
  const state = (value: string): string => `relay.1.anthropic-messages.${value}`;
  const thinking = [
    { index: 0, start: 0, length: 3, content: 0, calls: 0, state: state("A") },
    { index: 1, start: 3, length: 0, content: 2, calls: 0, state: state("B") },
    { index: 2, start: 3, length: 3, content: 4, calls: 1, state: state("C") },
  ];
  const message = {
    role: "assistant",
    content: "abcdef",
    reasoning_content: "onetwoend",
    tool_calls: [called("x"), called("y")],
    extra_content: { relay: { thinking } },
  };
  const opaque = (value: string): object => ({ issuer: "anthropic-messages", value });
  assert.deepEqual(partsOf(message), [
    { kind: "thinking", text: "one", opaque: opaque("A") },
    { kind: "text", text: "ab" },
    { kind: "thinking", text: "", opaque: opaque("B") },
    { kind: "text", text: "cd" },
    { kind: "call", id: "x", name: "look", input: "{}" },
    { kind: "thinking", text: "two", opaque: opaque("C") },
    { kind: "thinking", text: "end" },
    { kind: "text", text: "ef" },
    { kind: "call", id: "y", name: "look", input: "{}" },
  ]);
});

test("thinking that a client shortened has no state any more: an issuer would refuse the state beside other text", () => {
  const thinking = [{ index: 0, start: 0, length: 9, content: 0, calls: 0, state: "relay.1.anthropic-messages.A" }];
  const message = {
    role: "assistant",
    content: "a",
    reasoning_content: "short",
    extra_content: { relay: { thinking } },
  };
  assert.deepEqual(partsOf(message), [
    { kind: "thinking", text: "short" },
    { kind: "text", text: "a" },
  ]);
});

test("trap 13 (thought signatures): on the call, on the text, and on the message of a call, as Google's endpoint does", () => {
  const extra = { extra_content: { google: { thought_signature: "sig" } } };
  const opaque = { issuer: "gemini-generate", value: "sig" };
  const call = { kind: "call", id: "a", name: "look", input: "{}", opaque };
  assert.deepEqual(partsOf({ role: "assistant", tool_calls: [{ ...called("a"), ...extra }] }), [call]);
  assert.deepEqual(partsOf({ role: "assistant", tool_calls: [called("a")], ...extra }), [call]);
  assert.deepEqual(partsOf({ role: "assistant", content: "x", ...extra }), [{ kind: "text", text: "x", opaque }]);
});

test("annotations are citations of the only text; of several texts they are named as dropped", () => {
  const url_citation = { url: "https://a.example", title: "A", start_index: 0, end_index: 2 };
  const annotations = [{ type: "url_citation", url_citation }];
  assert.deepEqual(partsOf({ role: "assistant", content: "ab", annotations }), [
    { kind: "text", text: "ab", citations: [{ url: "https://a.example", title: "A", start: 0, end: 2 }] },
  ]);
  const content = [
    { type: "text", text: "a" },
    { type: "text", text: "b" },
  ];
  assert.deepEqual(read({ role: "assistant", content, annotations }).dropped, ["messages.annotations"]);
  assert.deepEqual(read({ role: "assistant", content: "a", annotations: [], refusal: null }).dropped, []);
});
