import type { Citation } from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";
import type { Block, Reply } from "../reply.ts";
import { readCitation } from "./citations.ts";
import { readStopReason } from "./finish-reasons.ts";
import { readFreeText, readToolName } from "../free-text.ts";
import { redactedState, signedState } from "./thinking-state.ts";
import { readUsage } from "./usage.ts";

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

/** Reads a whole message; undefined when the body is none. */
export function readReply(body: unknown): Reply | undefined {
  const content = member(body, "content");
  if (!Array.isArray(content)) return undefined;
  const stopSequence = stringOf(member(body, "stop_sequence"));
  const reason = readStopReason(stringOf(member(body, "stop_reason")) ?? "");
  return {
    id: stringOf(member(body, "id")) ?? "",
    model: stringOf(member(body, "model")) ?? "",
    choices: [
      {
        blocks: content.map(readBlock).filter((block) => block !== undefined),
        reason,
        ...(stopSequence !== undefined && { stopSequence }),
      },
    ],
    usage: readUsage(member(body, "usage")),
  };
}
