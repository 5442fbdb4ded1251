import { member, stringOf, type UpstreamError } from "../dialect.ts";
import type { StreamReader } from "../conversion.ts";
import { unfoldBlock, type BlockStart, type ReplyEvent } from "../reply.ts";
import { readCitation } from "./citations.ts";
import { readError } from "./error.ts";
import { readStopReason } from "./finish-reasons.ts";
import { decodeFreeText, endFreeText, type FreeTextDecoder } from "../free-text.ts";
import { inputText, readBlock, readCallStart } from "./read-reply.ts";
import { redactedState, signedState } from "./thinking-state.ts";
import { readUsage } from "./usage.ts";

const brokenOff: UpstreamError = { message: "the answer ended partway", type: "api_error", code: undefined };

/** `ignored`: a block of a server tool, which no other format can say. */
type OpenBlock = {
  kind: "text" | "thinking" | "redacted" | "call" | "ignored";
  signature: string;
  input: string;
  decoder?: FreeTextDecoder | undefined;
};

const choice = 0;

function readStart(block: unknown): OpenBlock & { start?: BlockStart } {
  const signature = stringOf(member(block, "signature")) ?? "";
  switch (member(block, "type")) {
    case "text":
      return { kind: "text", signature, input: "", start: { kind: "text" } };
    case "thinking":
      return { kind: "thinking", signature, input: "", start: { kind: "thinking" } };
    case "redacted_thinking":
      return { kind: "redacted", signature, input: "", start: { kind: "thinking" } };
    case "tool_use": {
      const start = readCallStart(block);
      const decoder: FreeTextDecoder | undefined = start.isFreeText && { pending: "", state: "before" };
      // Some compatible servers send the whole input here and no fragments.
      return { kind: "call", signature, input: inputText(member(block, "input")), decoder, start };
    }
    default:
      return { kind: "ignored", signature, input: "" };
  }
}

/** What a block holds as it starts: text of compatible servers, citations, and redacted thinking whole. */
function readFirstContent(block: unknown, kind: OpenBlock["kind"]): ReplyEvent[] {
  if (kind === "redacted") {
    const opaque = redactedState(stringOf(member(block, "data")) ?? "");
    return [{ kind: "block-opaque", choice, opaque }];
  }
  const text = kind === "text" || kind === "thinking" ? stringOf(member(block, kind)) : undefined;
  const events: ReplyEvent[] = text ? [{ kind: "block-delta", choice, text }] : [];
  const citations = kind === "text" ? member(block, "citations") : undefined;
  if (!Array.isArray(citations)) return events;
  return [...events, ...citations.map((found) => citationEvent(found))];
}

function citationEvent(found: unknown): ReplyEvent {
  return { kind: "block-citation", choice, citation: readCitation(found) };
}

const deltaTexts = new Map([
  ["text_delta", "text"],
  ["thinking_delta", "thinking"],
  ["input_json_delta", "partial_json"],
]);

/** What is known of a stream so far. */
type Reading = {
  counts: Record<string, unknown>;
  isStarted: boolean;
  isOver: boolean;
  open: OpenBlock | undefined;
  stopReason: string | undefined;
  stopSequence: string | undefined;
};

function fail(reading: Reading, error: UpstreamError): ReplyEvent[] {
  reading.isOver = true;
  return [{ kind: "error", error }];
}

function mergeCounts(reading: Reading, usage: unknown): void {
  if (typeof usage !== "object" || usage === null) return;
  for (const [name, count] of Object.entries(usage)) if (count !== null) reading.counts[name] = count;
}

function start(reading: Reading, message: unknown): ReplyEvent[] {
  if (reading.isStarted) return [];
  reading.isStarted = true;
  const id = stringOf(member(message, "id")) ?? "";
  return [{ kind: "start", id, model: stringOf(member(message, "model")) ?? "" }];
}

/** What message_start holds of the answer: all of it, when the provider's own code called the model. */
function readWhole(message: unknown): ReplyEvent[] {
  const content = member(message, "content");
  const blocks = Array.isArray(content) ? content.map(readBlock) : [];
  return blocks.flatMap((block) => (block ? unfoldBlock(block, choice) : []));
}

/**
 * Providers were seen to repeat message_start; only its counts are news then. Its output count is a placeholder
 * (trap 6), unless it says why the answer ended.
 */
function readMessageStart(reading: Reading, message: unknown): ReplyEvent[] {
  const { output_tokens: output, output_tokens_details: details, ...input } = Object(member(message, "usage"));
  mergeCounts(reading, input);
  readEnding(reading, message);
  if (reading.stopReason !== undefined) mergeCounts(reading, { output_tokens: output, output_tokens_details: details });
  return reading.isStarted ? [] : [...start(reading, message), ...readWhole(message)];
}

function readEnding(reading: Reading, message: unknown): void {
  reading.stopReason = stringOf(member(message, "stop_reason")) || reading.stopReason;
  reading.stopSequence = stringOf(member(message, "stop_sequence")) ?? reading.stopSequence;
}

function readMessageDelta(reading: Reading, data: unknown): void {
  mergeCounts(reading, member(data, "usage"));
  readEnding(reading, member(data, "delta"));
}

function closeBlock(reading: Reading): ReplyEvent[] {
  const { open } = reading;
  reading.open = undefined;
  if (!open || open.kind === "ignored") return [];
  const { decoder } = open;
  const last = decoder ? decodeFreeText(decoder, open.input) + endFreeText(decoder) : open.input;
  const events: ReplyEvent[] = last === "" ? [] : [{ kind: "block-delta", choice, text: last }];
  const opaque = open.kind === "thinking" ? signedState(open.signature) : undefined;
  if (opaque) events.push({ kind: "block-opaque", choice, opaque });
  return [...events, { kind: "block-end", choice }];
}

function openBlock(reading: Reading, content: unknown): ReplyEvent[] {
  const { start: block, ...open } = readStart(content);
  const before = [...start(reading, undefined), ...closeBlock(reading)];
  reading.open = open;
  if (!block) return before;
  return [...before, { kind: "block-start", choice, block }, ...readFirstContent(content, open.kind)];
}

function readDelta(reading: Reading, delta: unknown): ReplyEvent[] {
  const type = stringOf(member(delta, "type")) ?? "";
  // Compatible servers were seen to leave out the start of a text.
  const before = !reading.open && type === "text_delta" ? openBlock(reading, { type: "text" }) : [];
  const { open } = reading;
  if (!open || open.kind === "ignored") return [];
  const given = stringOf(member(delta, deltaTexts.get(type) ?? ""));
  if (given) {
    open.input = "";
    const text = open.decoder ? decodeFreeText(open.decoder, given) : given;
    if (text !== "") before.push({ kind: "block-delta", choice, text });
  } else if (type === "signature_delta") open.signature = stringOf(member(delta, "signature")) ?? "";
  else if (type === "citations_delta" && open.kind === "text") before.push(citationEvent(member(delta, "citation")));
  return before;
}

function finish(reading: Reading): ReplyEvent[] {
  const { stopReason, stopSequence, counts } = reading;
  if (stopReason === undefined) return fail(reading, brokenOff);
  const before = [...start(reading, undefined), ...closeBlock(reading)];
  reading.isOver = true;
  const reason = readStopReason(stopReason);
  return [
    ...before,
    { kind: "choice-finish", choice, reason, ...(stopSequence !== undefined && { stopSequence }) },
    { kind: "finish", usage: counts["output_tokens"] === undefined ? undefined : readUsage(counts) },
  ];
}

function readEvent(reading: Reading, data: unknown): ReplyEvent[] {
  if (reading.isOver) return [];
  switch (member(data, "type")) {
    case "content_block_delta":
      return readDelta(reading, member(data, "delta"));
    case "message_start":
      return readMessageStart(reading, member(data, "message"));
    case "content_block_start":
      return openBlock(reading, member(data, "content_block"));
    case "content_block_stop":
      return closeBlock(reading);
    case "message_delta":
      readMessageDelta(reading, data);
      return [];
    case "message_stop":
      return finish(reading);
    case "error":
      return fail(reading, readError(data) ?? brokenOff);
    default:
      return [];
  }
}

/**
 * Reads a Messages stream. It is whole when message_stop comes after a stop_reason; counts of message_delta are
 * cumulative and replace those of message_start one by one.
 */
export function createStreamReader(): StreamReader {
  const reading: Reading = {
    counts: {},
    isStarted: false,
    isOver: false,
    open: undefined,
    stopReason: undefined,
    stopSequence: undefined,
  };
  return {
    read: (data) => readEvent(reading, data),
    end: () => (reading.isOver ? [] : fail(reading, brokenOff)),
    // Free text is cut out of the JSON around it, of which the decoder must see each piece.
    takeDelta: () => reading.open !== undefined && !reading.open.decoder,
  };
}
