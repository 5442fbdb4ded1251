import type { AnswerSink } from "../answer.ts";
import type { Citation } from "../conversation.ts";
import { estimateTokens, member, stringOf } from "../dialect.ts";
import type { Block } from "../reply.ts";
import { readCitation } from "./citations.ts";
import { readFreeText, readToolName } from "../free-text.ts";
import { redactedState, signedState } from "./thinking-state.ts";

/** A call's input as JSON text; an empty object is "", as it is in a stream. */
export function inputText(input: unknown): string {
  if (typeof input !== "object" || input === null) return "";
  const text = JSON.stringify(input);
  return text === "{}" ? "" : text;
}

function readText(block: unknown): Block {
  const found = member(block, "citations");
  const citations: Citation[] = Array.isArray(found) ? found.map(readCitation) : [];
  const text = stringOf(member(block, "text")) ?? "";
  return { kind: "text", text, ...(citations.length > 0 && { citations }) };
}

function readThinking(block: unknown): Block {
  const opaque = signedState(stringOf(member(block, "signature")));
  return { kind: "thinking", text: stringOf(member(block, "thinking")) ?? "", ...(opaque && { opaque }) };
}

/** A call as it starts. */
export function readCallStart(block: unknown): { kind: "call"; id: string; name: string; isFreeText?: true } {
  const name = stringOf(member(block, "name")) ?? "";
  return { kind: "call", id: stringOf(member(block, "id")) ?? "", ...readToolName(name) };
}

function readCall(block: unknown): Block {
  const start = readCallStart(block);
  const input = member(block, "input");
  return { ...start, input: (start.isFreeText && readFreeText(input)) || inputText(input) };
}

/** Blocks of server tools are nothing that another format could say; the text between them stays. */
export function readBlock(block: unknown): Block | undefined {
  switch (member(block, "type")) {
    case "text":
      return readText(block);
    case "thinking":
      return readThinking(block);
    case "redacted_thinking":
      return { kind: "thinking", text: "", opaque: redactedState(stringOf(member(block, "data")) ?? "") };
    case "tool_use":
      return readCall(block);
    default:
      return undefined;
  }
}

const textFields = ["text", "partial_json", "thinking"];
const summaryFields = ["content"];

/** What a model has written when it compacts a conversation; elsewhere a field of this name holds a tool's result. */
const fieldsOf = (part: unknown): readonly string[] => {
  const type = member(part, "type");
  return type === "compaction" || type === "compaction_delta" ? summaryFields : textFields;
};

/** Counts a block as it starts, or a delta. Text that is still empty, as most blocks open, is no content yet. */
export function countPart(part: unknown, sink: AnswerSink): void {
  let [isText, isEmpty, tokens] = [false, true, 0];
  for (const name of fieldsOf(part)) {
    const text = member(part, name);
    if (typeof text !== "string") continue;
    isText = true;
    isEmpty &&= text === "";
    tokens += estimateTokens(text);
  }
  if (!isText || !isEmpty) sink.content(tokens);
}

/** Counts a block that comes whole. */
export function countBlock(block: unknown, sink: AnswerSink): void {
  const input = member(block, "input");
  const text = fieldsOf(block)
    .map((name) => stringOf(member(block, name)))
    .find((found) => found !== undefined);
  sink.content(estimateTokens(text ?? (input === undefined ? "" : JSON.stringify(input))));
}
