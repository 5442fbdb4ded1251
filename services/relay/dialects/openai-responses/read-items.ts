import type { Opaque } from "../conversation.ts";
import { estimateTokens, member, stringOf } from "../dialect.ts";
import { readLogprobs } from "../openai-shared/logprobs.ts";
import { callInput } from "../openai-shared/parts.ts";
import type { Block } from "../reply.ts";
import { readCitations } from "./citations.ts";
import { readPicture } from "./picture.ts";
import { thinkingText } from "./read-input.ts";

function readPart(part: unknown): Block | undefined {
  const type = member(part, "type");
  if (type === "refusal") return { kind: "refusal", text: stringOf(member(part, "refusal")) ?? "" };
  if (type !== "output_text") return undefined;
  const citations = readCitations(member(part, "annotations"));
  const logprobs = readLogprobs(member(part, "logprobs"));
  return {
    kind: "text",
    text: stringOf(member(part, "text")) ?? "",
    ...(logprobs && { logprobs }),
    ...(citations.length > 0 && { citations }),
  };
}

/** The state of a reasoning item, as its issuer gave it. */
function readOpaque(item: unknown): Opaque | undefined {
  const value = stringOf(member(item, "encrypted_content"));
  return value ? { issuer: "openai-responses", value } : undefined;
}

function readCall(item: unknown, isFreeText: boolean): Block {
  // Servers that know one id only have it in `id`.
  const id = stringOf(member(item, "call_id")) ?? stringOf(member(item, "id")) ?? "";
  const name = stringOf(member(item, "name")) ?? "";
  const input = callInput(member(item, isFreeText ? "input" : "arguments"));
  return { kind: "call", id, name, input, ...(isFreeText && { isFreeText }) };
}

/**
 * The blocks of an item, one for each part of a message; undefined stands for a part that is of no kind known. Items
 * of the provider's own tools have none: they say how an answer was found, not what it is.
 */
export function readItem(item: unknown): (Block | undefined)[] {
  switch (member(item, "type")) {
    case "message": {
      const content = member(item, "content");
      return Array.isArray(content) ? content.map(readPart) : [];
    }
    case "reasoning": {
      const text = thinkingText(item);
      const opaque = readOpaque(item);
      // Thinking that neither shows nor can be given back is no block.
      return text === "" && !opaque ? [] : [{ kind: "thinking", text, ...(opaque && { opaque }) }];
    }
    case "function_call":
      return [readCall(item, false)];
    case "custom_tool_call":
      return [readCall(item, true)];
    case "image_generation_call": {
      const picture = readPicture(item);
      return picture ? [picture] : [];
    }
    default:
      return [];
  }
}

// Without encrypted_content: in recorded answers it is 9 to 27 characters to a token of reasoning, so that its length
// would charge two to seven times what was thought.
const textFields = ["text", "refusal", "arguments", "input", "name", "code"];

function textTokens(value: unknown): number {
  return textFields.reduce((sum, name) => sum + estimateTokens(callInput(member(value, name))), 0);
}

/** Tokens of all text of an item, also of those that have no blocks. */
export function itemTokens(item: unknown): number {
  let tokens = textTokens(item);
  for (const list of [member(item, "content"), member(item, "summary")]) {
    if (Array.isArray(list)) for (const part of list) tokens += textTokens(part);
  }
  return tokens;
}
