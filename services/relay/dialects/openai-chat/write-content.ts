import {
  UnsupportedError,
  type AudioPart,
  type CacheMark,
  type FilePart,
  type ImagePart,
  type Loss,
  type Quirk,
  type TextPart,
} from "../conversation.ts";
import { dataUrl } from "../data-url.ts";
import type { ChatPart } from "./wire.ts";

/** What is written for, and what could not be said. */
export type Writing = { quirks: ReadonlySet<Quirk>; losses: Set<Loss> };

type Breakpoint = Pick<ChatPart, "prompt_cache_breakpoint">;

/** A mark of what to cache. A breakpoint lives 30 minutes, which covers 5, or 12 hours, which covers one. */
function writeCache(cache: CacheMark | undefined, { quirks, losses }: Writing): Breakpoint {
  if (!cache) return {};
  if (quirks.has("cache-breakpoints")) {
    return { prompt_cache_breakpoint: { mode: "explicit", ...(cache.ttl === "1h" && { ttl: "12h" }) } };
  }
  losses.add("cache");
  return {};
}

const details = new Set(["auto", "low", "high", "original"]);

function writeImage({ source, detail, cache }: ImagePart, writing: Writing): ChatPart {
  if (source.kind === "id") throw new UnsupportedError("an image by its ID cannot be sent to this model");
  const url = source.kind === "url" ? source.url : dataUrl(source.mediaType, source.data);
  const isKnown = detail !== undefined && details.has(detail);
  if (detail !== undefined && !isKnown) writing.losses.add("imageDetail");
  return { type: "image_url", image_url: { url, ...(isKnown && { detail }) }, ...writeCache(cache, writing) };
}

/** Chat takes files whole, with a name; text files go as text, because only PDF is understood. */
function writeFile({ source, name, cache }: FilePart, writing: Writing): ChatPart {
  if (source.kind === "id") throw new UnsupportedError("a file by its ID cannot be sent to this model");
  if (source.kind === "url") throw new UnsupportedError("a file by its address cannot be sent to this model");
  const breakpoint = writeCache(cache, writing);
  if (source.mediaType.startsWith("text/")) {
    const text = Buffer.from(source.data, "base64").toString("utf8");
    return { type: "text", text: name === undefined ? text : `${name}:\n${text}`, ...breakpoint };
  }
  const filename = name ?? (source.mediaType === "application/pdf" ? "document.pdf" : "document");
  return { type: "file", file: { file_data: dataUrl(source.mediaType, source.data), filename }, ...breakpoint };
}

const audioFormats: Record<string, "wav" | "mp3"> = {
  "audio/wav": "wav",
  "audio/wave": "wav",
  "audio/x-wav": "wav",
  "audio/mp3": "mp3",
  "audio/mpeg": "mp3",
};

function writeAudio({ mediaType, data }: AudioPart): ChatPart {
  const format = audioFormats[mediaType];
  if (!format) throw new UnsupportedError(`audio of type ${mediaType.slice(0, 64)} cannot be sent to this model`);
  return { type: "input_audio", input_audio: { data, format } };
}

/** What a user may say in chat. */
export type SaidPart = TextPart | ImagePart | FilePart | AudioPart;

/** Writes a part of a user's message. Throws UnsupportedError for media that chat cannot carry. */
export function writePart(part: SaidPart, writing: Writing): ChatPart {
  switch (part.kind) {
    case "text":
      if (part.citations?.length) writing.losses.add("citations");
      return { type: "text", text: part.text, ...writeCache(part.cache, writing) };
    case "image":
      return writeImage(part, writing);
    case "file":
      return writeFile(part, writing);
    case "audio":
      return writeAudio(part);
  }
}

/**
 * Texts as one string, which every server takes, unless one of them carries a mark; empty texts say nothing.
 */
export function writeTexts(texts: TextPart[], separator: string, writing: Writing): string | ChatPart[] {
  const parts = texts.filter(({ text }) => text !== "").map((text) => writePart(text, writing));
  if (parts.some((part) => part.prompt_cache_breakpoint)) return parts;
  return parts.map((part) => (part.type === "text" ? part.text : "")).join(separator);
}
