import type { AnswerSink } from "../answer.ts";
import { callIdFor } from "../call-id.ts";
import type { Citation, Opaque } from "../conversation.ts";
import { deliverPicture, deliverSound } from "../delivered-media.ts";
import { estimateTokens, member, stringOf } from "../dialect.ts";
import type { BlockStart, Picture } from "../reply.ts";
import { readName } from "./names.ts";

/** One answer under way. */
export type Reading = {
  choice: number;
  sink: AnswerSink;
  open: "text" | "thinking" | undefined;
  /** Whether the open block has its signature; what follows is not signed by it and gets its own block. */
  isSigned: boolean;
  /** Whether all text so far is ASCII. */
  isAscii: boolean;
  hasCalls: boolean;
  /** Citations that wait for the block of text to end. */
  citations: Citation[];
};

export type IdMaker = (name: string, input: string) => string;

const opaqueOf = (value: string): Opaque => ({ issuer: "gemini-generate", value });

export const isAsciiText = (text: string): boolean => Buffer.byteLength(text) === text.length;

export function closeBlock(reading: Reading): void {
  const { choice, open, citations, sink } = reading;
  if (open === undefined) return;
  if (open === "text") {
    for (const citation of citations) sink.show({ kind: "block-citation", choice, citation });
    reading.citations = [];
  }
  sink.show({ kind: "block-end", choice });
  reading.open = undefined;
}

function readText(text: string, kind: "text" | "thinking", signature: string | undefined, reading: Reading): void {
  const { choice, sink } = reading;
  if (text === "" && signature === undefined) return;
  if (reading.open !== kind || reading.isSigned) {
    closeBlock(reading);
    sink.show({ kind: "block-start", choice, block: { kind } });
    reading.open = kind;
    reading.isSigned = false;
  }
  if (text !== "") sink.show({ kind: "block-delta", choice, text });
  if (kind === "text" && reading.isAscii) reading.isAscii = isAsciiText(text);
  if (signature === undefined) return;
  sink.show({ kind: "block-opaque", choice, opaque: opaqueOf(signature) });
  reading.isSigned = true;
}

/** The input as one text: the call's JSON, or what a free-text tool was given. */
function inputOf(args: unknown, isFreeText: boolean): string {
  const text = isFreeText ? stringOf(member(args, "input")) : undefined;
  return text ?? JSON.stringify(typeof args === "object" && args !== null ? args : {});
}

/** Calls come whole. Their ids may be missing, or be none that other formats allow. */
function readCall(call: unknown, signature: string | undefined, reading: Reading, makeId: IdMaker): void {
  const { choice, sink } = reading;
  closeBlock(reading);
  reading.hasCalls = true;
  const { name, isFreeText } = readName(stringOf(member(call, "name")) ?? "");
  const text = inputOf(member(call, "args"), isFreeText);
  const given = stringOf(member(call, "id"));
  const id = given ? callIdFor(given) : makeId(name, text);
  const block: BlockStart = { kind: "call", id, name, ...(isFreeText && { isFreeText }) };
  sink.show({ kind: "block-start", choice, block });
  if (text !== "") sink.show({ kind: "block-delta", choice, text });
  if (signature !== undefined) sink.show({ kind: "block-opaque", choice, opaque: opaqueOf(signature) });
  sink.show({ kind: "block-end", choice });
}

const otherContent = ["inlineData", "executableCode", "codeExecutionResult"];

/** Gemini's sound is PCM as well. */
function countMedia(inline: unknown, sink: AnswerSink): void {
  const [mediaType = "", data] = [stringOf(member(inline, "mimeType")), stringOf(member(inline, "data"))];
  if (!data) return;
  if (mediaType.startsWith("audio/")) deliverSound(sink, data);
  else if (mediaType.startsWith("image/")) deliverPicture(sink);
}

/** Counts a part, also of kinds that no other format has. */
function countPart(part: unknown, sink: AnswerSink): void {
  countMedia(member(part, "inlineData"), sink);
  const text = stringOf(member(part, "text")) ?? "";
  const call = member(part, "functionCall");
  if (call) {
    const args = JSON.stringify(member(call, "args") ?? {});
    sink.content(estimateTokens(text) + estimateTokens(stringOf(member(call, "name")) ?? "") + estimateTokens(args));
  } else if (text !== "" || otherContent.some((name) => Boolean(member(part, name)))) {
    sink.content(estimateTokens(text));
  }
}

function readPicture(inline: unknown): Picture | undefined {
  const [mediaType, data] = [stringOf(member(inline, "mimeType")), stringOf(member(inline, "data"))];
  return mediaType?.startsWith("image/") && data ? { kind: "image", mediaType, data } : undefined;
}

function showPicture(picture: Picture, reading: Reading): void {
  const { choice, sink } = reading;
  closeBlock(reading);
  sink.show({ kind: "block-start", choice, block: picture });
  sink.show({ kind: "block-end", choice });
}

/** Reads one part; kinds of parts that no other format has are not shown. */
export function readPart(part: unknown, reading: Reading, makeId: IdMaker): void {
  countPart(part, reading.sink);
  if (!reading.sink.isShown) return;
  const signature = stringOf(member(part, "thoughtSignature")) || undefined;
  const call = member(part, "functionCall");
  if (typeof call === "object" && call !== null) return readCall(call, signature, reading, makeId);
  const picture = readPicture(member(part, "inlineData"));
  // What it tried while it thought is no part of the answer.
  if (picture && member(part, "thought") !== true) return showPicture(picture, reading);
  const text = stringOf(member(part, "text"));
  if (text === undefined && signature === undefined) return;
  readText(text ?? "", member(part, "thought") === true ? "thinking" : "text", signature, reading);
}
