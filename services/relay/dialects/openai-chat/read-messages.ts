import { UnsupportedError, type CallPart, type Part, type ResultPart, type Turn } from "../conversation.ts";
import { isGiven, member, stringOf } from "../dialect.ts";
import { readAssistant } from "./read-assistant.ts";
import { readCache, readContent } from "./read-parts.ts";

const roles = new Set(["system", "developer", "user", "assistant", "tool", "function"]);

// What is read of a message of any role; anything else that a message holds is named as dropped.
const commonFields = new Set(["role", "content", "prompt_cache_breakpoint", "cache_control"]);
const roleFields: Record<string, ReadonlySet<string>> = {
  assistant: new Set([
    "refusal",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "extra_content",
    "annotations",
    "images",
  ]),
  tool: new Set(["tool_call_id"]),
  function: new Set(["name"]),
};

function nameDropped(message: unknown, role: string, dropped: Set<string>): void {
  if (typeof message !== "object" || message === null) return;
  for (const [field, value] of Object.entries(message)) {
    if (commonFields.has(field) || roleFields[role]?.has(field) || !isGiven(value)) continue;
    dropped.add(`messages.${field}`);
  }
}

/** A mark on the message itself means the end of the message: its last part that can have one. */
function markLast(parts: Part[], message: unknown, dropped: Set<string>): void {
  const { cache } = readCache(message);
  if (!cache) return;
  const last = parts.at(-1);
  if (!last || last.kind === "audio" || last.kind === "refusal" || last.kind === "thinking") {
    dropped.add("messages.prompt_cache_breakpoint");
  } else last.cache ??= cache;
}

/** The calls that were made so far, to find what a result belongs to: by id, and the last one of each name. */
type Calls = { byId: Map<string, CallPart>; byName: Map<string, CallPart> };

function readResult(message: unknown, path: string, calls: Calls, dropped: Set<string>): ResultPart {
  const isOld = member(message, "role") === "function";
  const name = stringOf(member(message, "name"));
  const callId = isOld ? calls.byName.get(name ?? "")?.id : stringOf(member(message, "tool_call_id"));
  if (callId === undefined) {
    throw new UnsupportedError(`field ${path}.${isOld ? "name" : "tool_call_id"} must name a call before it`);
  }
  const parts: ResultPart["parts"] = [];
  for (const part of readContent(member(message, "content"), `${path}.content`, dropped)) {
    if (part.kind === "audio" || part.kind === "refusal") {
      throw new UnsupportedError(`field ${path}.content holds what no tool can give back`);
    }
    parts.push(part);
  }
  return {
    kind: "result",
    callId,
    parts,
    isError: false,
    ...(calls.byId.get(callId)?.isFreeText && { isFreeText: true }),
  };
}

function readOther(message: unknown, role: string, path: string, dropped: Set<string>): Turn {
  const parts: Part[] = readContent(member(message, "content"), `${path}.content`, dropped);
  return { role: role === "user" ? "user" : "system", parts };
}

/**
 * Reads `messages` into turns. A run of tool messages becomes one user turn (trap 24); messages that say nothing are
 * left out. Throws UnsupportedError for what cannot be carried, by its place.
 */
export function readMessages(messages: unknown, dropped: Set<string>): Turn[] {
  const turns: Turn[] = [];
  const calls: Calls = { byId: new Map(), byName: new Map() };
  let results: Part[] | undefined;
  for (const [at, message] of (Array.isArray(messages) ? messages : []).entries()) {
    const role = stringOf(member(message, "role")) ?? "";
    const path = `messages[${at}]`;
    if (!roles.has(role)) throw new UnsupportedError(`field ${path}.role must be one of ${[...roles].join(", ")}`);
    nameDropped(message, role, dropped);
    if (role === "tool" || role === "function") {
      const result = readResult(message, path, calls, dropped);
      if (!results) turns.push({ role: "user", parts: (results = []) });
      results.push(result);
      markLast([result], message, dropped);
      continue;
    }
    results = undefined;
    const turn: Turn =
      role === "assistant"
        ? { role, parts: readAssistant(message, at, dropped) }
        : readOther(message, role, path, dropped);
    for (const part of turn.parts) {
      if (part.kind !== "call") continue;
      calls.byId.set(part.id, part);
      calls.byName.set(part.name, part);
    }
    markLast(turn.parts, message, dropped);
    if (turn.parts.length > 0) turns.push(turn);
  }
  return turns;
}
