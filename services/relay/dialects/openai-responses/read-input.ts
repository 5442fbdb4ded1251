import {
  UnsupportedError,
  type CallPart,
  type Part,
  type ResultPart,
  type ThinkingPart,
  type Turn,
} from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";
import { readPicture } from "./picture.ts";
import { dropUnknown, readContent, type ContentPart } from "./read-parts.ts";
import { readState } from "./state.ts";
import { flatNameOf, type ToolNames } from "./tool-names.ts";

// Ids and states of items are the provider's bookkeeping; who says the same without them loses nothing.
const knownFields = new Set([
  "type",
  "id",
  "status",
  "role",
  "content",
  "call_id",
  "name",
  "namespace",
  "arguments",
  "input",
  "output",
  "summary",
  "encrypted_content",
]);

const roles = new Map<unknown, Turn["role"]>([
  ["user", "user"],
  ["assistant", "assistant"],
  ["system", "system"],
  ["developer", "system"],
]);

function textAt(item: unknown, key: string, path: string): string {
  const text = stringOf(member(item, key));
  if (text === undefined) throw new UnsupportedError(`field ${path}.${key} must be a string`);
  return text;
}

const textsOf = (list: unknown): string[] =>
  Array.isArray(list) ? list.map((part) => stringOf(member(part, "text")) ?? "").filter((text) => text !== "") : [];

/** The text of a reasoning item: its summary, or the thoughts themselves where a model shows them. */
export function thinkingText(item: unknown): string {
  const summary = textsOf(member(item, "summary"));
  return (summary.length > 0 ? summary : textsOf(member(item, "content"))).join("\n\n");
}

function readCall(item: unknown, path: string, names: ToolNames): CallPart {
  const isFreeText = member(item, "type") === "custom_tool_call";
  const id = textAt(item, "call_id", path);
  const namespace = stringOf(member(item, "namespace"));
  const own = { ...(namespace !== undefined && { namespace }), name: textAt(item, "name", path) };
  const name = flatNameOf(names, own);
  const input = textAt(item, isFreeText ? "input" : "arguments", path);
  return { kind: "call", id, name, input, ...(isFreeText && { isFreeText }) };
}

const isResultContent = (part: ContentPart): part is ResultPart["parts"][number] =>
  part.kind === "text" || part.kind === "image" || part.kind === "file";

function readResult(item: unknown, path: string, isFreeText: boolean, dropped: Set<string>): ResultPart {
  const callId = textAt(item, "call_id", path);
  const parts = readContent(member(item, "output"), `${path}.output`, dropped);
  if (!parts.every(isResultContent)) throw new UnsupportedError(`field ${path}.output must hold text, images or files`);
  return { kind: "result", callId, parts, isError: false, ...(isFreeText && { isFreeText }) };
}

/** Puts items into turns, each side's together; a message's role or an item's kind tells the side. */
type Turns = { turns: Turn[]; names: ToolNames; add: (role: Turn["role"], parts: Part[]) => void };

const isResult = ({ kind }: Part): boolean => kind === "result";

/** Results stand before anything else that the user says, as every provider wants them (trap 24). */
function resultsFirst(turn: Turn): Turn {
  if (!turn.parts.some(isResult)) return turn;
  return { ...turn, parts: [...turn.parts.filter(isResult), ...turn.parts.filter((part) => !isResult(part))] };
}

function createTurns(names: ToolNames): Turns {
  const turns: Turn[] = [];
  const add = (role: Turn["role"], parts: Part[]): void => {
    if (parts.length === 0) return;
    let turn = turns.at(-1);
    if (turn?.role !== role) turns.push((turn = { role, parts: [] }));
    for (const part of parts) turn.parts.push(part);
  };
  return { turns, names, add };
}

/** Adds thinking, or gives the state of a reasoning item to the text or call before it (see state.ts). */
function addReasoning(item: unknown, { turns, add }: Turns): void {
  const text = thinkingText(item);
  const encrypted = stringOf(member(item, "encrypted_content"));
  const state = encrypted ? readState(encrypted) : undefined;
  const before = turns.at(-1)?.parts.at(-1);
  if (state?.isOfItem) {
    if (before?.kind === "text" || before?.kind === "call") before.opaque = state.opaque;
    return;
  }
  const thinking: ThinkingPart = { kind: "thinking", text, ...(state && { opaque: state.opaque }) };
  // Without either it is the name of what the provider had stored.
  if (text !== "" || state) add("assistant", [thinking]);
}

function addMessage(item: unknown, path: string, turns: Turns, dropped: Set<string>): void {
  const role = roles.get(member(item, "role"));
  if (role === undefined) throw new UnsupportedError(`field ${path}.role has a value that cannot be converted`);
  turns.add(role, readContent(member(item, "content"), `${path}.content`, dropped));
}

/** A picture that the model made; of one that failed there is nothing to send. */
function addPicture(item: unknown, turns: Turns, dropped: Set<string>): void {
  const picture = readPicture(item);
  if (!picture) return void dropped.add("input.image_generation_call");
  const { mediaType, data } = picture;
  turns.add("assistant", [{ kind: "image", source: { kind: "base64", mediaType, data } }]);
}

function addItem(item: unknown, path: string, turns: Turns, dropped: Set<string>): void {
  const type = member(item, "type") ?? (member(item, "role") === undefined ? undefined : "message");
  if (type === "image_generation_call") return addPicture(item, turns, dropped);
  dropUnknown(item, knownFields, "input.", dropped);
  switch (type) {
    case "message":
      return addMessage(item, path, turns, dropped);
    case "reasoning":
      return addReasoning(item, turns);
    case "function_call":
    case "custom_tool_call":
      return turns.add("assistant", [readCall(item, path, turns.names)]);
    case "function_call_output":
    case "custom_tool_call_output":
      return turns.add("user", [readResult(item, path, type === "custom_tool_call_output", dropped)]);
    case "web_search_call":
      // Says what was searched for, not what was found: the answer behind it does.
      dropped.add("input.web_search_call");
      return;
    case "item_reference":
      throw new UnsupportedError(`field ${path} of type item_reference needs a stored item: send the item itself`);
    default:
      throw new UnsupportedError(`field ${path} of type ${stringOf(type) ?? "unknown"} cannot be used with this model`);
  }
}

/**
 * Reads `instructions` and `input` as turns. Throws UnsupportedError for items that only one provider understands, such
 * as calls of its own tools.
 */
export function readTurns(body: Record<string, unknown>, names: ToolNames, dropped: Set<string>): Turn[] {
  const turns = createTurns(names);
  const { instructions, input } = body;
  turns.add("system", readContent(instructions, "instructions", dropped));
  if (Array.isArray(input)) input.forEach((item, at) => addItem(item, `input[${at}]`, turns, dropped));
  else turns.add("user", readContent(input, "input", dropped));
  return turns.turns.map(resultsFirst);
}
