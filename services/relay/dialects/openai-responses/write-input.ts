import { callIdFor } from "../call-id.ts";
import {
  UnsupportedError,
  type CallPart,
  type Loss,
  type Part,
  type ResultPart,
  type Target,
  type ThinkingPart,
  type Turn,
} from "../conversation.ts";
import type { InputItem, InputPart } from "./wire.ts";
import { writeInputPart, writeOutputText } from "./write-parts.ts";

/**
 * Thinking goes back only with state of this provider's: it takes no other, and refuses thoughts without their state
 * where nothing is stored (trap 19).
 */
function writeThinking({ text, opaque }: ThinkingPart, losses: Set<Loss>): InputItem | undefined {
  if (opaque?.issuer === "openai-responses") {
    const summary = text === "" ? [] : [{ type: "summary_text", text } as const];
    return { type: "reasoning", summary, encrypted_content: opaque.value };
  }
  if (opaque) losses.add("opaqueState");
  if (text !== "") losses.add("thinking");
  return undefined;
}

function writeCall({ id, name, input, isFreeText, opaque, cache }: CallPart, losses: Set<Loss>): InputItem {
  if (opaque) losses.add("opaqueState");
  if (cache) losses.add("cache");
  const call_id = callIdFor(id);
  if (isFreeText) return { type: "custom_tool_call", call_id, name, input };
  return { type: "function_call", call_id, name, arguments: input || "{}" };
}

function writeResult(result: ResultPart, losses: Set<Loss>): InputItem {
  const { callId, parts, isError, isFreeText, cache } = result;
  if (isError) losses.add("resultError");
  if (cache) losses.add("cache");
  const type = isFreeText ? "custom_tool_call_output" : "function_call_output";
  const [first] = parts;
  const isPlain = first === undefined || (parts.length === 1 && first.kind === "text" && !first.cache);
  const plain = first?.kind === "text" ? first.text : "";
  const output = isPlain ? plain : parts.map((part) => writeInputPart(part, losses));
  return { type, call_id: callIdFor(callId), output };
}

function writeSpoken(part: Part, role: string, losses: Set<Loss>): InputPart {
  if (part.kind === "refusal" && role === "assistant") return { type: "refusal", refusal: part.text };
  if (part.kind === "text") return role === "assistant" ? writeOutputText(part, losses) : writeInputPart(part, losses);
  const isMedia = part.kind === "image" || part.kind === "file" || part.kind === "audio";
  if (isMedia && role === "user") return writeInputPart(part, losses);
  throw new UnsupportedError(`content of kind ${part.kind} in a turn of the ${role} cannot be used with this model`);
}

function writePart(part: Part, losses: Set<Loss>): InputItem | undefined {
  if (part.kind === "thinking") return writeThinking(part, losses);
  if (part.kind === "call") return writeCall(part, losses);
  return part.kind === "result" ? writeResult(part, losses) : undefined;
}

const isItemPart = ({ kind }: Part): boolean => kind === "thinking" || kind === "call" || kind === "result";

function writeTurn(turn: Turn, role: string, losses: Set<Loss>): InputItem[] {
  const items: InputItem[] = [];
  let content: InputPart[] | undefined;
  for (const part of turn.parts) {
    if (isItemPart(part)) {
      const item = writePart(part, losses);
      if (item) items.push(item);
      // What follows is said after the item, even if that was left out.
      content = undefined;
    } else if (part.kind !== "text" || part.text !== "") {
      if (!content) items.push({ type: "message", role, content: (content = []) });
      content.push(writeSpoken(part, turn.role, losses));
    }
  }
  return dropUnfollowed(items, losses);
}

/** A reasoning item without the item it led to is refused ("without its required following item"). */
function dropUnfollowed(items: InputItem[], losses: Set<Loss>): InputItem[] {
  const end = items.findLastIndex(({ type }) => type !== "reasoning") + 1;
  if (end < items.length) losses.add("thinking");
  return items.slice(0, end);
}

/** Turns as input items, whose order is the order of what was said. */
export function writeInput(turns: Turn[], { quirks }: Target, losses: Set<Loss>): InputItem[] {
  const systemRole = quirks.has("no-developer-role") ? "system" : "developer";
  return turns.flatMap((turn) => writeTurn(turn, turn.role === "system" ? systemRole : turn.role, losses));
}
