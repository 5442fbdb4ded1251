import { UnsupportedError, type Tool } from "./conversation.ts";
import { member, stringOf } from "./dialect.ts";

/**
 * Tools that take free text instead of JSON, which Messages and many servers that speak chat do not have: they become
 * tools with one text, named so that an answer can be read without its request.
 */
const mark = "relay_text__";

/** The name under which the provider knows a tool. Throws UnsupportedError for a plain one that reads like a marked. */
export function writeToolName(name: string, isFreeText = false): string {
  if (isFreeText) return mark + name;
  if (name.startsWith(mark)) throw new UnsupportedError(`tools: the name "${name}" cannot be used with this model`);
  return name;
}

/** The caller's own name of a tool; the other way of writeToolName. */
export function readToolName(name: string): { name: string; isFreeText?: true } {
  return name.startsWith(mark) ? { name: name.slice(mark.length), isFreeText: true } : { name };
}

/** The provider does not enforce grammars, so that the model is told it in words. */
export function freeTextSchema({ schema }: Tool): Record<string, unknown> {
  const described = hasGrammar(schema) ? { description: `Text of this format: ${JSON.stringify(schema)}` } : {};
  return { type: "object", properties: { input: { type: "string", ...described } }, required: ["input"] };
}

export function hasGrammar(schema: unknown): boolean {
  return schema !== undefined && member(schema, "type") !== "text";
}

/** The input of such a tool's call. */
export function freeTextInput(text: string): Record<string, unknown> {
  return { input: text };
}

/** The text of such an input; undefined when the model gave something else. */
export function readFreeText(input: unknown): string | undefined {
  return stringOf(member(input, "input"));
}

/** Takes the text out of `{"input":"…"}` that comes in fragments. `other`: it is something else and passes as it is. */
export type FreeTextDecoder = { pending: string; state: "before" | "within" | "behind" | "other" };

const opening = /^\s*\{\s*"input"\s*:\s*"/;
const longestOpening = 64;

/** Length of what is whole: up to the closing quote, or to an escape that is cut and waits for the next fragment. */
function wholeLength(text: string): number {
  let at = 0;
  while (at < text.length && text[at] !== '"') {
    const size = text[at] !== "\\" ? 1 : text[at + 1] === "u" ? 6 : 2;
    if (at + size > text.length) return at;
    at += size;
  }
  return at;
}

/** Text that is there with this fragment. */
export function decodeFreeText(decoder: FreeTextDecoder, fragment: string): string {
  decoder.pending += fragment;
  if (decoder.state === "before") {
    const [found] = opening.exec(decoder.pending) ?? [];
    if (found !== undefined) Object.assign(decoder, { state: "within", pending: decoder.pending.slice(found.length) });
    else if (decoder.pending.length > longestOpening) decoder.state = "other";
  }
  if (decoder.state === "other") return flush(decoder);
  if (decoder.state === "behind") decoder.pending = "";
  if (decoder.state !== "within") return "";
  const length = wholeLength(decoder.pending);
  const text = decoder.pending.slice(0, length);
  decoder.pending = decoder.pending.slice(length);
  if (decoder.pending.startsWith('"')) Object.assign(decoder, { state: "behind", pending: "" });
  return unescapeText(text);
}

/** Line breaks that the provider did not escape make it no JSON; they stay as they are. */
function unescapeText(text: string): string {
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return text;
  }
}

/** What is left at the end of the block: an input that was something else. */
export function endFreeText(decoder: FreeTextDecoder): string {
  return decoder.state === "before" ? flush(decoder) : "";
}

function flush(decoder: FreeTextDecoder): string {
  const { pending } = decoder;
  decoder.pending = "";
  return pending;
}
