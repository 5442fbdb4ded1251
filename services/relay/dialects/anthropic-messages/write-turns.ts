import { notePlaces, type Turn } from "../conversation.ts";
import type { RequestBlock, RequestMessage, TextBlock } from "./wire.ts";
import { writePart, writeSystem, type PartWriting } from "./write-content.ts";

/** The provider wants a user to speak first, and not with nothing. */
const placeholder: RequestMessage = { role: "user", content: [{ type: "text", text: "." }] };

const isResult = ({ type }: RequestBlock): boolean => type === "tool_result";
const isThinking = ({ type }: RequestBlock): boolean => type === "thinking" || type === "redacted_thinking";

/** Results of tools come first in a user's turn, one behind the other (traps 23, 24). */
function resultsFirst(content: RequestBlock[]): RequestBlock[] {
  return [...content.filter(isResult), ...content.filter((block) => !isResult(block))];
}

/** Thinking comes before the tool calls that it led to (trap 15). */
function thinkingBeforeCalls(content: RequestBlock[]): RequestBlock[] {
  const firstCall = content.findIndex(({ type }) => type === "tool_use");
  if (firstCall === -1) return content;
  const behind = content.slice(firstCall);
  return [
    ...content.slice(0, firstCall),
    ...behind.filter(isThinking),
    ...behind.filter((block) => !isThinking(block)),
  ];
}

/** The provider refuses blanks at the end of words that it shall go on from. */
function trimEnd(content: RequestBlock[]): RequestBlock[] {
  const last = content.at(-1);
  return last?.type === "text" ? [...content.slice(0, -1), { ...last, text: last.text.trimEnd() }] : content;
}

/** Turns of one role in a row become one, turns that say nothing none. */
function mergeTurns(turns: Turn[], writing: PartWriting): RequestMessage[] {
  const messages: RequestMessage[] = [];
  for (const { role, parts } of turns) {
    const content = parts.flatMap((part) => writePart(part, writing));
    const last = messages.at(-1);
    const wireRole = role === "assistant" ? role : "user";
    if (content.length > 0 && last?.role === wireRole) last.content.push(...content);
    else if (content.length > 0) messages.push({ role: wireRole, content });
  }
  return messages;
}

/**
 * Turns as the provider takes them: instructions at the beginning become `system`, later ones words of the user, as
 * only some models take them in their place; users and the model alternate, a user begins.
 */
export function writeTurns(turns: Turn[], writing: PartWriting): { system: TextBlock[]; messages: RequestMessage[] } {
  const firstSpoken = turns.findIndex(({ role }) => role !== "system");
  const leading = firstSpoken === -1 ? turns.length : firstSpoken;
  const system = turns.slice(0, leading).flatMap(({ parts }) => writeSystem(parts, writing.losses));
  notePlaces(turns, writing.losses);
  const merged = mergeTurns(turns.slice(leading), writing);
  const messages = merged.map(({ role, content }, index): RequestMessage => {
    if (role === "user") return { role, content: resultsFirst(content) };
    const ordered = thinkingBeforeCalls(content);
    return { role, content: index === merged.length - 1 ? trimEnd(ordered) : ordered };
  });
  if (messages[0]?.role !== "user") messages.unshift(placeholder);
  return { system, messages };
}

/**
 * Whether the model's last turn, which results of tools continue, began without thinking. With thinking on, the
 * provider refuses that (trap 15): it was another's, or the caller did not give it back.
 */
export function continuesWithoutThinking(messages: RequestMessage[]): boolean {
  const isPrompt = ({ role, content }: RequestMessage): boolean => role === "user" && !content.some(isResult);
  const turn = messages.slice(messages.findLastIndex(isPrompt) + 1);
  const first = turn.find(({ role }) => role === "assistant")?.content[0];
  return first !== undefined && !isThinking(first);
}
