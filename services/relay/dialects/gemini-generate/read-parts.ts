import { callIdFor } from "../call-id.ts";
import type { Citation, Opaque } from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";
import type { BlockStart, ReplyEvent } from "../reply.ts";
import { readName } from "./names.ts";

/** One answer under way. */
export type Reading = {
  choice: number;
  events: ReplyEvent[];
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
  const { choice, open, citations, events } = reading;
  if (open === undefined) return;
  if (open === "text") {
    for (const citation of citations) events.push({ kind: "block-citation", choice, citation });
    reading.citations = [];
  }
  events.push({ kind: "block-end", choice });
  reading.open = undefined;
}

function readText(text: string, kind: "text" | "thinking", signature: string | undefined, reading: Reading): void {
  const { choice, events } = reading;
  if (text === "" && signature === undefined) return;
  if (reading.open !== kind || reading.isSigned) {
    closeBlock(reading);
    events.push({ kind: "block-start", choice, block: { kind } });
    reading.open = kind;
    reading.isSigned = false;
  }
  if (text !== "") events.push({ kind: "block-delta", choice, text });
  if (kind === "text" && reading.isAscii) reading.isAscii = isAsciiText(text);
  if (signature === undefined) return;
  events.push({ kind: "block-opaque", choice, opaque: opaqueOf(signature) });
  reading.isSigned = true;
}

/** The input as one text: the call's JSON, or what a free-text tool was given. */
function inputOf(args: unknown, isFreeText: boolean): string {
  const text = isFreeText ? stringOf(member(args, "input")) : undefined;
  return text ?? JSON.stringify(typeof args === "object" && args !== null ? args : {});
}

/** Calls come whole. Their ids may be missing, or be none that other formats allow. */
function readCall(call: unknown, signature: string | undefined, reading: Reading, makeId: IdMaker): void {
  const { choice, events } = reading;
  closeBlock(reading);
  reading.hasCalls = true;
  const { name, isFreeText } = readName(stringOf(member(call, "name")) ?? "");
  const text = inputOf(member(call, "args"), isFreeText);
  const given = stringOf(member(call, "id"));
  const id = given ? callIdFor(given) : makeId(name, text);
  const block: BlockStart = { kind: "call", id, name, ...(isFreeText && { isFreeText }) };
  events.push({ kind: "block-start", choice, block });
  if (text !== "") events.push({ kind: "block-delta", choice, text });
  if (signature !== undefined) events.push({ kind: "block-opaque", choice, opaque: opaqueOf(signature) });
  events.push({ kind: "block-end", choice });
}

/** Adds the events of one part; kinds of parts that no other format has are passed over. */
export function readPart(part: unknown, reading: Reading, makeId: IdMaker): void {
  const signature = stringOf(member(part, "thoughtSignature")) || undefined;
  const call = member(part, "functionCall");
  if (typeof call === "object" && call !== null) return readCall(call, signature, reading, makeId);
  const text = stringOf(member(part, "text"));
  if (text === undefined && signature === undefined) return;
  readText(text ?? "", member(part, "thought") === true ? "thinking" : "text", signature, reading);
}
