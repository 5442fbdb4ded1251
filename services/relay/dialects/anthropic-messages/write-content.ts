import { callIdFor } from "../call-id.ts";
import {
  UnsupportedError,
  type CacheMark,
  type CallPart,
  type FilePart,
  type ImagePart,
  type Loss,
  type MediaSource,
  type Part,
  type ResultPart,
  type TextPart,
  type ThinkingPart,
} from "../conversation.ts";
import { readSource } from "../data-url.ts";
import { freeTextInput, writeToolName } from "../free-text.ts";
import { writeOwnThinking } from "./thinking-state.ts";
import { inputObject } from "./tool-call.ts";
import type { CacheControl, MediaBlock, MediaBlockSource, RequestBlock, TextBlock } from "./wire.ts";

/** What a writer of parts gathers: what it left out, and whether the model takes thinking back. */
export type PartWriting = { losses: Set<Loss>; takesThinking: boolean };

const imageTypes = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

/** Five minutes are the default and are not said. */
export function writeCache(cache: CacheMark | undefined): { cache_control?: CacheControl } {
  if (!cache) return {};
  return { cache_control: { type: "ephemeral", ...(cache.ttl === "1h" && { ttl: "1h" }) } };
}

/** An address that holds the content itself (`data:`) is taken apart: providers fetch real addresses only. */
function embedded(source: MediaSource): MediaSource {
  return source.kind === "url" ? readSource(source.url) : source;
}

function writeImageSource(given: MediaSource): MediaBlockSource {
  const source = embedded(given);
  if (source.kind === "url") return { type: "url", url: source.url };
  if (source.kind === "id") throw new UnsupportedError("an image by its ID cannot be sent to this model");
  const type = source.mediaType.toLowerCase();
  const mediaType = type === "image/jpg" ? "image/jpeg" : type;
  if (imageTypes.has(mediaType)) return { type: "base64", media_type: mediaType, data: source.data };
  throw new UnsupportedError(`an image of type ${type.slice(0, 64)} cannot be sent to this model`);
}

function writeFileSource(given: MediaSource): MediaBlockSource {
  const source = embedded(given);
  if (source.kind === "url") return { type: "url", url: source.url };
  if (source.kind === "id") throw new UnsupportedError("a file by its ID cannot be sent to this model");
  const type = source.mediaType.toLowerCase();
  if (type === "application/pdf") return { type: "base64", media_type: type, data: source.data };
  if (type.startsWith("text/") || type === "application/json") {
    return { type: "text", media_type: "text/plain", data: Buffer.from(source.data, "base64").toString("utf8") };
  }
  throw new UnsupportedError(`a file of type ${type.slice(0, 64)} cannot be sent to this model`);
}

function writeImage({ source, detail, cache }: ImagePart, losses: Set<Loss>): MediaBlock {
  if (detail !== undefined && detail !== "auto") losses.add("imageDetail");
  return { type: "image", source: writeImageSource(source), ...writeCache(cache) };
}

function writeFile({ source, name, cache }: FilePart): MediaBlock {
  return { type: "document", source: writeFileSource(source), ...(name && { title: name }), ...writeCache(cache) };
}

/** Blank texts are refused by the provider and say nothing (trap 25). */
function writeText({ text, citations, cache, opaque }: TextPart, losses: Set<Loss>): TextBlock[] {
  // Citations point into documents that this request does not have.
  if (citations?.length) losses.add("citations");
  if (opaque) losses.add("opaqueState");
  if (text.trim() !== "") return [{ type: "text", text, ...writeCache(cache) }];
  if (cache) losses.add("cache");
  return [];
}

function writeCall({ id, name, input, isFreeText, opaque, cache }: CallPart, losses: Set<Loss>): RequestBlock {
  if (opaque) losses.add("opaqueState");
  const object = isFreeText ? freeTextInput(input) : inputObject(input);
  const ownName = writeToolName(name, isFreeText);
  return { type: "tool_use", id: callIdFor(id), name: ownName, input: object, ...writeCache(cache) };
}

function writeResult({ callId, parts, isError, cache }: ResultPart, losses: Set<Loss>): RequestBlock {
  const content = parts.flatMap((part) => writeShown(part, losses));
  return {
    type: "tool_result",
    tool_use_id: callIdFor(callId),
    ...(content.length > 0 && { content }),
    ...(isError && { is_error: true }),
    ...writeCache(cache),
  };
}

function writeShown(part: TextPart | ImagePart | FilePart, losses: Set<Loss>): (TextBlock | MediaBlock)[] {
  if (part.kind === "text") return writeText(part, losses);
  return [part.kind === "image" ? writeImage(part, losses) : writeFile(part)];
}

/** Only what the provider itself has signed may come back to it. */
function writeThinking({ text, opaque }: ThinkingPart, { losses, takesThinking }: PartWriting): RequestBlock[] {
  const block = takesThinking ? writeOwnThinking(text, opaque) : undefined;
  if (!block) losses.add("thinking");
  return block ? [block] : [];
}

/** Writes a part of a turn; nothing for what says nothing. Throws UnsupportedError for what no provider reads. */
export function writePart(part: Part, writing: PartWriting): RequestBlock[] {
  switch (part.kind) {
    case "text":
    case "image":
    case "file":
      return writeShown(part, writing.losses);
    case "refusal":
      return writeText({ kind: "text", text: part.text }, writing.losses);
    case "thinking":
      return writeThinking(part, writing);
    case "call":
      return [writeCall(part, writing.losses)];
    case "result":
      return [writeResult(part, writing.losses)];
    case "audio":
      throw new UnsupportedError("audio cannot be sent to this model");
  }
}

/** Writes instructions, which are text only. */
export function writeSystem(parts: Part[], losses: Set<Loss>): TextBlock[] {
  return parts.flatMap((part) => {
    if (part.kind === "text") return writeText(part, losses);
    throw new UnsupportedError(`${part.kind} in system instructions cannot be sent to this model`);
  });
}
