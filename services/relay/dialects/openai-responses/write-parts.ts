import {
  UnsupportedError,
  type AudioPart,
  type CacheMark,
  type FilePart,
  type ImagePart,
  type Loss,
  type TextPart,
} from "../conversation.ts";
import { dataUrl } from "../data-url.ts";
import { writeCitations } from "./citations.ts";
import type { CacheBreakpoint, InputPart } from "./wire.ts";

const details = new Set(["auto", "low", "high", "original"]);
const audioFormats = new Map([
  ["audio/wav", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/mp3", "mp3"],
  ["audio/mpeg", "mp3"],
]);

/** The provider keeps what it read for 30 minutes unless told otherwise, which is enough for 5. */
function writeCache(cache: CacheMark | undefined): CacheBreakpoint {
  if (!cache) return {};
  return { prompt_cache_breakpoint: { mode: "explicit", ...(cache.ttl === "1h" && { ttl: "12h" }) } };
}

function refuseId(): never {
  throw new UnsupportedError("files by id cannot be used with this model: send the content itself");
}

function writeImage({ source, detail, cache }: ImagePart, losses: Set<Loss>): InputPart {
  if (source.kind === "id") return refuseId();
  const image_url = source.kind === "url" ? source.url : dataUrl(source.mediaType, source.data);
  const isKnown = detail !== undefined && details.has(detail);
  if (detail !== undefined && !isKnown) losses.add("imageDetail");
  return { type: "input_image", image_url, ...(isKnown && { detail }), ...writeCache(cache) };
}

/** A file that is sent whole needs a name, from whose ending its kind is told; a title of other formats has none. */
function nameFor(mediaType: string, name = "document"): string {
  if (/\.\w{1,5}$/.test(name)) return name;
  return mediaType === "application/pdf" ? `${name}.pdf` : `${name}.txt`;
}

function writeFile({ source, name, cache }: FilePart, losses: Set<Loss>): InputPart {
  if (source.kind === "id") return refuseId();
  if (source.kind === "base64") {
    const filename = nameFor(source.mediaType, name);
    const file_data = dataUrl(source.mediaType, source.data);
    return { type: "input_file", filename, file_data, ...writeCache(cache) };
  }
  // The name of a file by address is the address's own.
  if (name !== undefined) losses.add("fileName");
  return { type: "input_file", file_url: source.url, ...writeCache(cache) };
}

function writeAudio({ mediaType, data }: AudioPart): InputPart {
  const format = audioFormats.get(mediaType);
  if (format === undefined) throw new UnsupportedError(`audio of type ${mediaType} cannot be used with this model`);
  return { type: "input_audio", input_audio: { data, format } };
}

/** A part of what the user, the system or a tool says. Throws UnsupportedError for what the format has no place for. */
export function writeInputPart(part: TextPart | ImagePart | FilePart | AudioPart, losses: Set<Loss>): InputPart {
  switch (part.kind) {
    case "text":
      if (part.citations) losses.add("citations");
      return { type: "input_text", text: part.text, ...writeCache(part.cache) };
    case "image":
      return writeImage(part, losses);
    case "file":
      return writeFile(part, losses);
    case "audio":
      return writeAudio(part);
  }
}

/** A text that the model said before. */
export function writeOutputText({ text, citations = [], cache, opaque }: TextPart, losses: Set<Loss>): InputPart {
  const annotations = writeCitations(citations, text);
  if (annotations.length < citations.length) losses.add("citations");
  if (cache) losses.add("cache");
  if (opaque) losses.add("opaqueState");
  return { type: "output_text", text, annotations };
}
