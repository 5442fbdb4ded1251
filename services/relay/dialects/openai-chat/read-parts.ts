import {
  UnsayableError,
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

/**
 * A mark of what to cache: chat's own `prompt_cache_breakpoint`, or `cache_control`, which chat clients send to reach
 * Anthropic's models. A breakpoint's shorter life (30m) is told as 5m, the cheaper of the two that can be said.
 */
export function readCache(value: unknown): { cache?: CacheMark } {
  const breakpoint = member(value, "prompt_cache_breakpoint");
  if (isGiven(breakpoint)) return { cache: { ttl: member(breakpoint, "ttl") === "12h" ? "1h" : "5m" } };
  const control = member(value, "cache_control");
  if (!isGiven(control)) return {};
  return { cache: { ttl: member(control, "ttl") === "1h" ? "1h" : "5m" } };
}

function stringAt(value: unknown, key: string, path: string): string {
  const text = stringOf(member(value, key));
  if (text === undefined) throw new UnsayableError(`field ${path}.${key} must be a string`);
  return text;
}

function readImage(part: unknown, path: string): ImagePart {
  const image = member(part, "image_url");
  // Some clients give the address without the object around it.
  const url = stringOf(image) ?? stringAt(image, "url", `${path}.image_url`);
  const detail = stringOf(member(image, "detail"));
  return { kind: "image", source: readSource(url), ...(detail !== undefined && { detail }), ...readCache(part) };
}

function readFileSource(file: unknown, path: string): MediaSource {
  const id = stringOf(member(file, "file_id"));
  const data = stringOf(member(file, "file_data"));
  if (data === undefined && id !== undefined) return { kind: "id", id };
  if (data === undefined || !/^(data:|https?:\/\/)/.test(data)) {
    throw new UnsayableError(`field ${path}.file_data must be a data URL`);
  }
  return readSource(data);
}

function readFile(part: unknown, path: string): FilePart {
  const file = member(part, "file");
  const name = stringOf(member(file, "filename"));
  const source = readFileSource(file, `${path}.file`);
  return { kind: "file", source, ...(name !== undefined && { name }), ...readCache(part) };
}

function readAudio(part: unknown, path: string, dropped: Set<string>): AudioPart {
  const audio = member(part, "input_audio");
  const format = stringAt(audio, "format", `${path}.input_audio`);
  if (readCache(part).cache) dropped.add("messages.content.prompt_cache_breakpoint");
  return { kind: "audio", mediaType: `audio/${format}`, data: stringAt(audio, "data", `${path}.input_audio`) };
}

export type ContentPart = TextPart | ImagePart | FilePart | AudioPart | RefusalPart;

function readPart(part: unknown, path: string, dropped: Set<string>): ContentPart {
  switch (member(part, "type")) {
    case "text":
      return { kind: "text", text: stringAt(part, "text", path), ...readCache(part) };
    case "image_url":
      return readImage(part, path);
    case "file":
      return readFile(part, path);
    case "input_audio":
      return readAudio(part, path, dropped);
    case "refusal":
      return { kind: "refusal", text: stringAt(part, "refusal", path) };
    default:
      throw new UnsayableError(`field ${path}.type has a value that cannot be used with this model`);
  }
}

/**
 * Reads a message's content, a string or a list of parts; empty text says nothing and many providers refuse it
 * (trap 25). Throws UnsayableError for a part that no other format knows.
 */
export function readContent(content: unknown, path: string, dropped: Set<string>): ContentPart[] {
  if (typeof content === "string") return content === "" ? [] : [{ kind: "text", text: content }];
  if (content === undefined || content === null) return [];
  if (!Array.isArray(content)) throw new UnsayableError(`field ${path} must be a string or an array`);
  const parts = content.map((part, at) => readPart(part, `${path}[${at}]`, dropped));
  return parts.filter((part) => !("text" in part) || part.text !== "");
}
