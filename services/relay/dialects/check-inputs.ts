import { UnsupportedError, type Conversation } from "./conversation.ts";
import { maxValues } from "./json/scan.ts";

// So few characters cannot hold more values than a body may have.
const uncountedLength = 1_000_000;

// Tools are looked up by name, one for each that a choice allows. OpenAI and Gemini take 128 of them.
const maxTools = 1_024;

/** Refuses more tools than are read. Throws UnsupportedError. */
export function checkToolCount(field: string, count: number): void {
  if (count > maxTools) throw new UnsupportedError(`field ${field} must have at most ${maxTools} items`);
}

/** Marks of JSON values in a text, outside of its strings: as many as there are values, or one or two more. */
function countValues(text: string): number {
  let count = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === "\\" && isInString) at += 1;
    else if (character === '"') isInString = !isInString;
    else if (!isInString && (character === "," || character === "[" || character === "{")) count += 1;
  }
  return count;
}

/**
 * Refuses more tools than are read, and inputs of calls that together would take memory out of proportion once they
 * are parsed: they are JSON within a text, whose values nobody has counted. Throws UnsupportedError.
 */
export function checkInputs({ turns, tools, toolChoice }: Conversation): void {
  checkToolCount("tools", tools.length);
  checkToolCount("tool_choice", toolChoice?.names?.length ?? 0);
  const inputs = turns.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.kind === "call" && !part.isFreeText ? [part.input] : [])),
  );
  const length = inputs.reduce((sum, input) => sum + input.length, 0);
  if (length <= uncountedLength) return;
  const values = inputs.reduce((sum, input) => sum + countValues(input), 0);
  if (values > maxValues) {
    throw new UnsupportedError(`the inputs of tool calls must have at most ${maxValues} JSON values`);
  }
}
