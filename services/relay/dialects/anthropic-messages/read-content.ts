import {
  UnsupportedError,
  type CacheMark,
  type FilePart,
  type ImagePart,
  type MediaSource,
  type Part,
  type ResultPart,
  type TextPart,
} from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";
import { readSource as readAddress } from "../data-url.ts";
import { readCitation } from "./citations.ts";
import { readRedactedData, readSignature } from "./thinking-state.ts";

/** Fields of each kind of block that are carried; others are named as dropped. `caller` says how a call came about. */
const carriedFields = new Map([
  ["text", ["text", "citations"]],
  ["image", ["source"]],
  ["document", ["source", "title"]],
  ["search_result", ["source", "title", "content"]],
  ["tool_use", ["id", "name", "input", "caller"]],
  ["tool_result", ["tool_use_id", "content", "is_error"]],
  ["thinking", ["thinking", "signature"]],
  ["redacted_thinking", ["data"]],
]);

/** Names fields of `value` that are set and not among `carried`. */
export function nameOthers(value: unknown, carried: readonly string[], prefix: string, dropped: Set<string>): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, field] of Object.entries(value)) {
    if (field !== null && field !== undefined && !carried.includes(name)) dropped.add(prefix + name);
  }
}

export function readCache(block: unknown): { cache?: CacheMark } {
  const control = member(block, "cache_control");
  if (typeof control !== "object" || control === null) return {};
  return { cache: { ttl: member(control, "ttl") === "1h" ? "1h" : "5m" } };
}

function unsupportedBlock(block: unknown): UnsupportedError {
  const type = stringOf(member(block, "type")) ?? "";
  return new UnsupportedError(`messages: content of type "${type.slice(0, 64)}" cannot be sent to this model`);
}

function readText(block: unknown): TextPart {
  const citations = member(block, "citations");
  return {
    kind: "text",
    text: stringOf(member(block, "text")) ?? "",
    ...(Array.isArray(citations) && citations.length > 0 && { citations: citations.map(readCitation) }),
    ...readCache(block),
  };
}

function readSource(source: unknown): MediaSource {
  const data = stringOf(member(source, "data"));
  const url = stringOf(member(source, "url"));
  const type = member(source, "type");
  if (type === "base64" && data !== undefined) {
    return { kind: "base64", mediaType: stringOf(member(source, "media_type")) ?? "", data };
  }
  if (type === "text" && data !== undefined) return textSource(data);
  if (type === "url" && url !== undefined) return readAddress(url);
  // A file's id means nothing to another provider.
  if (type === "file") throw new UnsupportedError("messages: a file by its file_id cannot be sent to this model");
  throw new UnsupportedError("messages: the source of an image or document is not one that can be read");
}

function textSource(text: string): MediaSource {
  return { kind: "base64", mediaType: "text/plain", data: Buffer.from(text).toString("base64") };
}

/** A document that consists of content blocks becomes those, behind its title. */
function readDocument(block: unknown, dropped: Set<string>): (TextPart | ImagePart | FilePart)[] {
  const source = member(block, "source");
  const title = stringOf(member(block, "title"));
  const content = member(source, "type") === "content" ? member(source, "content") : undefined;
  if (!Array.isArray(content)) {
    const file = typeof content === "string" ? textSource(content) : readSource(source);
    return [{ kind: "file", source: file, ...(title && { name: title }), ...readCache(block) }];
  }
  const parts = content.flatMap((inner) => {
    if (member(inner, "type") === "document") throw unsupportedBlock(inner);
    return readResultContent(inner, dropped);
  });
  const last = parts.pop();
  if (!last) return [];
  return [...(title ? [{ kind: "text", text: title } as const] : []), ...parts, { ...last, ...readCache(block) }];
}

/** Search results have no like elsewhere: title, source and texts become one text. */
function readSearchResult(block: unknown, dropped: Set<string>): TextPart {
  const content = member(block, "content");
  if (Array.isArray(content)) {
    for (const inner of content) nameOthers(inner, ["type", "text"], "search_result.content.", dropped);
  }
  const texts = Array.isArray(content) ? content.map((inner) => stringOf(member(inner, "text")) ?? "") : [];
  const heading = [member(block, "title"), member(block, "source")].map((text) => stringOf(text) ?? "");
  return { kind: "text", text: [...heading, ...texts].filter(Boolean).join("\n"), ...readCache(block) };
}

function nameBlockFields(block: unknown, dropped: Set<string>): void {
  const type = stringOf(member(block, "type")) ?? "";
  const carried = ["type", "cache_control", ...(carriedFields.get(type) ?? [])];
  // Citations that are switched off lose nothing.
  if (member(member(block, "citations"), "enabled") === false) carried.push("citations");
  nameOthers(block, carried, `${type}.`, dropped);
}

function readResultContent(block: unknown, dropped: Set<string>): (TextPart | ImagePart | FilePart)[] {
  nameBlockFields(block, dropped);
  switch (member(block, "type")) {
    case "text":
      return [readText(block)];
    case "image":
      return [{ kind: "image", source: readSource(member(block, "source")), ...readCache(block) }];
    case "document":
      return readDocument(block, dropped);
    case "search_result":
      return [readSearchResult(block, dropped)];
    default:
      throw unsupportedBlock(block);
  }
}

/** No other format has citations in what a tool gives back. */
function withoutCitations(part: ResultPart["parts"][number], dropped: Set<string>): ResultPart["parts"][number] {
  if (part.kind !== "text" || !part.citations) return part;
  dropped.add("text.citations");
  const { citations: _, ...plain } = part;
  return plain;
}

function readResult(block: unknown, dropped: Set<string>): ResultPart {
  const content = member(block, "content") ?? [];
  const blocks: unknown[] = Array.isArray(content) ? content : [{ type: "text", text: content }];
  return {
    kind: "result",
    callId: stringOf(member(block, "tool_use_id")) ?? "",
    parts: blocks.flatMap((inner) => readResultContent(inner, dropped)).map((part) => withoutCitations(part, dropped)),
    isError: member(block, "is_error") === true,
    ...readCache(block),
  };
}

function readCall(block: unknown): Part {
  const input = member(block, "input");
  return {
    kind: "call",
    id: stringOf(member(block, "id")) ?? "",
    name: stringOf(member(block, "name")) ?? "",
    input: input === undefined || input === null ? "" : JSON.stringify(input),
    ...readCache(block),
  };
}

/** Reads redacted thinking into `parts`: state of the text or call before it goes there, where we once took it from. */
function addRedactedThinking(block: unknown, parts: Part[]): void {
  const { opaque, isAttached } = readRedactedData(stringOf(member(block, "data")) ?? "");
  const last = parts.at(-1);
  if (!isAttached) parts.push({ kind: "thinking", text: "", opaque });
  else if (last?.kind === "text" || last?.kind === "call") last.opaque = opaque;
  else parts.push({ kind: "text", text: "", opaque });
}

function addAssistantBlock(block: unknown, parts: Part[], dropped: Set<string>): void {
  const type = member(block, "type");
  if (type !== "tool_use" && type !== "thinking" && type !== "redacted_thinking") {
    parts.push(...readResultContent(block, dropped));
    return;
  }
  nameBlockFields(block, dropped);
  if (type === "tool_use") parts.push(readCall(block));
  else if (type === "redacted_thinking") addRedactedThinking(block, parts);
  else {
    const opaque = readSignature(stringOf(member(block, "signature")));
    const text = stringOf(member(block, "thinking")) ?? "";
    if (text !== "" || opaque) parts.push({ kind: "thinking", text, ...(opaque && { opaque }) });
  }
}

/** Reads what an assistant said. Throws UnsupportedError for server tools. */
export function readAssistantContent(blocks: unknown[], dropped: Set<string>): Part[] {
  const parts: Part[] = [];
  for (const block of blocks) addAssistantBlock(block, parts, dropped);
  return parts;
}

/** Reads what a user said, results of tools first. Throws UnsupportedError for files by id and for server tools. */
export function readUserContent(blocks: unknown[], dropped: Set<string>): Part[] {
  const results: Part[] = [];
  const others: Part[] = [];
  for (const block of blocks) {
    if (member(block, "type") !== "tool_result") others.push(...readResultContent(block, dropped));
    else {
      nameBlockFields(block, dropped);
      results.push(readResult(block, dropped));
    }
  }
  return [...results, ...others];
}

/** Reads instructions, which are text only. */
export function readSystemContent(blocks: unknown[], dropped: Set<string>): Part[] {
  return blocks.map((block) => {
    nameBlockFields(block, dropped);
    if (member(block, "type") !== "text") throw unsupportedBlock(block);
    return readText(block);
  });
}
