import { member } from "../dialects/dialect.ts";

/** A list longer than this is told without what its items say: of tools, their names. */
const mostItems = 128;
const leftOut = new Set(["input", "messages"]);

function nameOnly(tool: unknown): unknown {
  const tools = member(tool, "tools");
  const inner = Array.isArray(tools) && { tools: tools.map(nameOnly) };
  return { type: member(tool, "type"), name: member(tool, "name"), ...inner };
}

/**
 * The settings of a large request, by which its answer is written: without the conversation, and of long lists only
 * the names, because all of it is built again in the thread that everybody waits for.
 */
export function settingsOf(request: Record<string, unknown>): Record<string, unknown> {
  const kept = Object.entries(request).filter(([name]) => !leftOut.has(name));
  const slim = (value: unknown): unknown =>
    Array.isArray(value) && value.length > mostItems ? value.map(nameOnly) : value;
  return Object.fromEntries(kept.map(([name, value]) => [name, slim(value)]));
}
