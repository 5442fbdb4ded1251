import { member } from "../dialects/dialect.ts";

const leftOut = new Set(["input", "messages"]);

/** A list longer than this is told without what its items say: of tools, their names. */
const mostItems = 128;
/** No other setting has more in it, however deep. */
const mostValues = 1_000;

function nameOnly(tool: unknown): unknown {
  const tools = member(tool, "tools");
  const inner = Array.isArray(tools) && { tools: tools.map(nameOnly) };
  return { type: member(tool, "type"), name: member(tool, "name"), ...inner };
}

/** Whether there are few values in it; counted until there are too many. */
function isSmall(value: unknown): boolean {
  const open = [value];
  for (let count = 0; open.length > 0; count += 1) {
    const next = open.pop();
    if (typeof next === "object" && next !== null) for (const inner of Object.values(next)) open.push(inner);
    if (count + open.length > mostValues) return false;
  }
  return true;
}

/**
 * The settings of a large request, by which its answer is written: without the conversation, of many tools only the
 * names, and nothing else that is large, because all of it is built again in the thread that everybody waits for.
 */
export function settingsOf(request: Record<string, unknown>): Record<string, unknown> {
  const { tools, ...others } = request;
  const kept = Object.entries(others).filter(([name, value]) => !leftOut.has(name) && isSmall(value));
  const isLong = Array.isArray(tools) && (tools.length > mostItems || !isSmall(tools));
  return { ...Object.fromEntries(kept), ...(tools !== undefined && { tools: isLong ? tools.map(nameOnly) : tools }) };
}
