import { UnsupportedError, type AudioPart, type CacheMark } from "../conversation.ts";
import { isGiven, member, stringOf } from "../dialect.ts";

/**
 * The mark `prompt_cache_breakpoint`. Its shorter life (30m) is told as 5m, the cheaper of the two that can be said.
 */
export function readBreakpoint(part: unknown): { cache?: CacheMark } {
  const breakpoint = member(part, "prompt_cache_breakpoint");
  return isGiven(breakpoint) ? { cache: { ttl: member(breakpoint, "ttl") === "12h" ? "1h" : "5m" } } : {};
}

/** A field that must be a string. Throws UnsupportedError when it is none. */
export function textAt(value: unknown, key: string, path: string): string {
  const text = stringOf(member(value, key));
  if (text === undefined) throw new UnsupportedError(`field ${path}.${key} must be a string`);
  return text;
}

/** A part of type `input_audio`. */
export function readAudio(part: unknown, path: string): AudioPart {
  const audio = member(part, "input_audio");
  const format = textAt(audio, "format", `${path}.input_audio`);
  return { kind: "audio", mediaType: `audio/${format}`, data: textAt(audio, "data", `${path}.input_audio`) };
}

/** A call's input, or a piece of it: text, or an object from servers that parse it. */
export function callInput(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "object" && value !== null ? JSON.stringify(value) : "";
}

type Text = { kind: "text"; text: string };

/**
 * Reads content, a string or a list of parts; empty text says nothing and many providers refuse it (trap 25). Throws
 * UnsupportedError for content that is neither, and what `readPart` throws.
 */
export function readParts<P extends object>(
  content: unknown,
  path: string,
  readPart: (part: unknown, path: string) => P,
): (P | Text)[] {
  if (typeof content === "string") return content === "" ? [] : [{ kind: "text", text: content }];
  if (content === undefined || content === null) return [];
  if (!Array.isArray(content)) throw new UnsupportedError(`field ${path} must be a string or an array`);
  const parts = content.map((part, at) => readPart(part, `${path}[${at}]`));
  return parts.filter((part) => !("text" in part) || part.text !== "");
}
