import {
  UnsupportedError,
  type AudioPart,
  type FilePart,
  type ImagePart,
  type MediaSource,
  type RefusalPart,
  type TextPart,
} from "../conversation.ts";
import { dataUrl, readSource } from "../data-url.ts";
import { isGiven, member, stringOf } from "../dialect.ts";
import { readAudio, readBreakpoint, readParts, textAt } from "../openai-shared/parts.ts";
import { readCitations } from "./citations.ts";

/** Names the fields of `value` that say something and are not known, each behind `prefix`. */
export function dropUnknown(value: unknown, known: ReadonlySet<string>, prefix: string, dropped: Set<string>): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, field] of Object.entries(value)) {
    if (!known.has(name) && isGiven(field)) dropped.add(`${prefix}${name}`);
  }
}

function readText(part: unknown, path: string, dropped: Set<string>): TextPart {
  const annotations = member(part, "annotations");
  const citations = readCitations(annotations);
  if (Array.isArray(annotations) && annotations.length > citations.length) dropped.add("input.content.annotations");
  const text = textAt(part, "text", path);
  return { kind: "text", text, ...(citations.length > 0 && { citations }), ...readBreakpoint(part) };
}

function refuseId(part: unknown, path: string): void {
  // Files are stored at one provider; this service stores none.
  if (isGiven(member(part, "file_id"))) {
    throw new UnsupportedError(`field ${path}.file_id cannot be used with this model: send the content itself`);
  }
}

function readImage(part: unknown, path: string): ImagePart {
  refuseId(part, path);
  const detail = stringOf(member(part, "detail"));
  const source = readSource(textAt(part, "image_url", path));
  return { kind: "image", source, ...(detail !== undefined && { detail }), ...readBreakpoint(part) };
}

function readFileSource(part: unknown, name: string, path: string): MediaSource {
  const data = stringOf(member(part, "file_data"));
  if (data === undefined) return { kind: "url", url: textAt(part, "file_url", path) };
  // Without a type of its own it is what its name says, and mostly a PDF.
  const mediaType = /\.(txt|md|csv|json|xml|html)$/i.test(name) ? "text/plain" : "application/pdf";
  return readSource(data.startsWith("data:") ? data : dataUrl(mediaType, data));
}

function readFile(part: unknown, path: string): FilePart {
  refuseId(part, path);
  const name = stringOf(member(part, "filename")) ?? "";
  const source = readFileSource(part, name, path);
  return { kind: "file", source, ...(name !== "" && { name }), ...readBreakpoint(part) };
}

const knownFields = new Set(["type", "text", "annotations", "logprobs", "refusal", "prompt_cache_breakpoint"]);
const knownImageFields = new Set(["type", "image_url", "detail", "prompt_cache_breakpoint"]);
const knownFileFields = new Set(["type", "file_data", "file_url", "filename", "prompt_cache_breakpoint"]);
const knownAudioFields = new Set(["type", "input_audio"]);

export type ContentPart = TextPart | ImagePart | FilePart | AudioPart | RefusalPart;

/** Reads one part of a message or of a tool's result. Throws UnsupportedError for what no other format knows. */
function readPart(part: unknown, path: string, dropped: Set<string>): ContentPart {
  const drop = (known: ReadonlySet<string>): void => dropUnknown(part, known, "input.content.", dropped);
  switch (member(part, "type")) {
    case "input_text":
    case "output_text":
    case "text":
      drop(knownFields);
      return readText(part, path, dropped);
    case "refusal":
      drop(knownFields);
      return { kind: "refusal", text: textAt(part, "refusal", path) };
    case "input_image":
      drop(knownImageFields);
      return readImage(part, path);
    case "input_file":
      drop(knownFileFields);
      return readFile(part, path);
    case "input_audio":
      drop(knownAudioFields);
      return readAudio(part, path);
    default:
      throw new UnsupportedError(`field ${path}.type has a value that cannot be converted for this model`);
  }
}

/** Reads the content of a message or of a tool's result. */
export function readContent(content: unknown, path: string, dropped: Set<string>): ContentPart[] {
  return readParts(content, path, (part, place) => readPart(part, place, dropped));
}
