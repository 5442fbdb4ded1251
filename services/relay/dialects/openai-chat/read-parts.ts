import {
  UnsupportedError,
  type AudioPart,
  type CacheMark,
  type FilePart,
  type ImagePart,
  type MediaSource,
  type RefusalPart,
  type TextPart,
} from "../conversation.ts";
import { isGiven, member, stringOf } from "../dialect.ts";
import { readSource } from "../data-url.ts";
import { readAudio, readBreakpoint, readParts, textAt } from "../openai-shared/parts.ts";

/**
 * A mark of what to cache: chat's own `prompt_cache_breakpoint`, or `cache_control`, which chat clients send to reach
 * Anthropic's models.
 */
export function readCache(value: unknown): { cache?: CacheMark } {
  const own = readBreakpoint(value);
  const control = member(value, "cache_control");
  if (own.cache || !isGiven(control)) return own;
  return { cache: { ttl: member(control, "ttl") === "1h" ? "1h" : "5m" } };
}

function readImage(part: unknown, path: string): ImagePart {
  const image = member(part, "image_url");
  // Some clients give the address without the object around it.
  const url = stringOf(image) ?? textAt(image, "url", `${path}.image_url`);
  const detail = stringOf(member(image, "detail"));
  return { kind: "image", source: readSource(url), ...(detail !== undefined && { detail }), ...readCache(part) };
}

function readFileSource(file: unknown, path: string): MediaSource {
  const id = stringOf(member(file, "file_id"));
  const data = stringOf(member(file, "file_data"));
  if (data === undefined && id !== undefined) return { kind: "id", id };
  if (data === undefined || !/^(data:|https?:\/\/)/.test(data)) {
    throw new UnsupportedError(`field ${path}.file_data must be a data URL`);
  }
  return readSource(data);
}

function readFile(part: unknown, path: string): FilePart {
  const file = member(part, "file");
  const name = stringOf(member(file, "filename"));
  const source = readFileSource(file, `${path}.file`);
  return { kind: "file", source, ...(name !== undefined && { name }), ...readCache(part) };
}

export type ContentPart = TextPart | ImagePart | FilePart | AudioPart | RefusalPart;

function readPart(part: unknown, path: string, dropped: Set<string>): ContentPart {
  switch (member(part, "type")) {
    case "text":
      return { kind: "text", text: textAt(part, "text", path), ...readCache(part) };
    case "image_url":
      return readImage(part, path);
    case "file":
      return readFile(part, path);
    case "input_audio":
      if (readCache(part).cache) dropped.add("messages.content.prompt_cache_breakpoint");
      return readAudio(part, path);
    case "refusal":
      return { kind: "refusal", text: textAt(part, "refusal", path) };
    default:
      throw new UnsupportedError(`field ${path}.type has a value that cannot be used with this model`);
  }
}

/** Reads a message's content. Throws UnsupportedError for a part that no other format knows. */
export function readContent(content: unknown, path: string, dropped: Set<string>): ContentPart[] {
  return readParts(content, path, (part, place) => readPart(part, place, dropped));
}
