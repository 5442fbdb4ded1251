import type { AnswerSink, EventKind, ReadingContext, StreamReader } from "../answer.ts";
import { member, stringOf, type UpstreamError } from "../dialect.ts";
import { unfoldBlock, type BlockStart } from "../reply.ts";
import {
  createBlockTurns,
  hasEnded,
  keepStep,
  noteCurrent,
  passTurn,
  startsLater,
  type BlockTurns,
} from "./block-turns.ts";
import { readCitation } from "./citations.ts";
import { readError } from "./error.ts";
import { readStopReason } from "./finish-reasons.ts";
import { decodeFreeText, endFreeText, type FreeTextDecoder } from "../free-text.ts";
import { countBlock, countPart, inputText, readBlock, readCallStart } from "./read-blocks.ts";
import { redactedState, signedState } from "./thinking-state.ts";
import { addTold, readTold, withoutFree } from "./usage.ts";

const brokenOff: UpstreamError = { message: "the answer ended partway", type: "api_error", code: undefined };

/** `ignored`: a block of a server tool, which no other format can say. */
type OpenBlock = {
  kind: "text" | "thinking" | "redacted" | "call" | "ignored";
  signature: string;
  input: string;
  decoder?: FreeTextDecoder | undefined;
  /** The number that it was started with. */
  index?: unknown;
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

/** Shows what a block holds as it starts: text of compatible servers, citations, and redacted thinking whole. */
function showFirstContent(block: unknown, kind: OpenBlock["kind"], sink: AnswerSink): void {
  if (kind === "redacted") {
    const opaque = redactedState(stringOf(member(block, "data")) ?? "");
    return sink.show({ kind: "block-opaque", choice, opaque });
  }
  const text = kind === "text" || kind === "thinking" ? stringOf(member(block, kind)) : undefined;
  if (text) sink.show({ kind: "block-delta", choice, text });
  const citations = kind === "text" ? member(block, "citations") : undefined;
  if (Array.isArray(citations)) for (const citation of citations) showCitation(citation, sink);
}

function showCitation(found: unknown, sink: AnswerSink): void {
  sink.show({ kind: "block-citation", choice, citation: readCitation(found) });
}

const deltaTexts = new Map([
  ["text_delta", "text"],
  ["thinking_delta", "thinking"],
  ["input_json_delta", "partial_json"],
]);

/** What is known of a stream so far. */
type Reading = {
  sink: AnswerSink;
  counts: Record<string, unknown>;
  /** Tools that the provider has begun to run, for the case that its own counts never come. */
  tools: { webSearches: bigint; webFetches: bigint };
  isStarted: boolean;
  hasFailed: boolean;
  isOver: boolean;
  /** Whether the model that runs now has written any block, shown or not. */
  hasBlocks: boolean;
  /** Of each model that has handed over to another: whether its turn is free. */
  freeTurns: boolean[];
  open: OpenBlock | undefined;
  turns: BlockTurns;
  /** Of the event that is read. */
  characters: number;
  /** Blocks that were opened. */
  openings: number;
  stopReason: string | undefined;
  stopSequence: string | undefined;
  /** Why the provider refused, where it says so. */
  refusalCategory: string | undefined;
  explanation: string | undefined;
};

const toolBuckets = new Map<unknown, keyof Reading["tools"]>([
  ["web_search", "webSearches"],
  ["web_fetch", "webFetches"],
]);

function countTool(block: unknown, { tools, sink }: Reading): void {
  const bucket = toolBuckets.get(member(block, "name"));
  if (member(block, "type") !== "server_tool_use" || !bucket) return;
  tools[bucket] += 1n;
  sink.counted(bucket, tools[bucket]);
}

// A refusal before any output is free, unless it is of a category that is billed all the same, as any may become
// (platform.claude.com/docs/en/build-with-claude/refusals-and-fallback, in September 2026).
const freeCategories = new Set<unknown>([undefined, null, "", "cyber", "general_harms"]);

const isLastFree = ({ stopReason, hasBlocks, refusalCategory }: Reading): boolean =>
  stopReason === "refusal" && !hasBlocks && freeCategories.has(refusalCategory);

/** Notes a block, which is output but for the mark at which a model that declined hands over to the next one. */
function noteBlock(reading: Reading, block: unknown): boolean {
  const isOutput = member(block, "type") !== "fallback";
  if (!isOutput) {
    const isFree = !reading.hasBlocks && freeCategories.has(member(member(block, "trigger"), "category"));
    reading.freeTurns.push(isFree);
  }
  reading.hasBlocks = isOutput;
  return isOutput;
}

/** Takes counts; `hasOutput`: those of the output are no placeholder. */
function takeUsage(reading: Reading, usage: unknown, hasOutput: boolean): void {
  const { counts, sink } = reading;
  if (typeof usage !== "object" || usage === null) return;
  addTold(counts, usage, hasOutput);
  sink.served(undefined, stringOf(counts["service_tier"]));
  const billed = withoutFree(counts, reading.freeTurns, isLastFree(reading));
  const told = billed && readTold(billed);
  if (told) sink.usage(told);
}

function start(reading: Reading, message: unknown): void {
  if (reading.isStarted) return;
  reading.isStarted = true;
  const id = stringOf(member(message, "id")) ?? "";
  reading.sink.show({ kind: "start", id, model: stringOf(member(message, "model")) ?? "" });
}

/** What message_start holds of the answer: all of it, when the provider's own code called the model. */
function readWhole(reading: Reading, message: unknown): void {
  const content = member(message, "content");
  if (!Array.isArray(content)) return;
  const { sink } = reading;
  for (const value of content as unknown[]) {
    if (!noteBlock(reading, value)) continue;
    countBlock(value, sink);
    countTool(value, reading);
    const block = sink.isShown ? readBlock(value) : undefined;
    if (block) for (const part of unfoldBlock(block, choice)) sink.show(part);
  }
}

/**
 * Providers were seen to repeat message_start; only its counts are news then. Its output count is a placeholder
 * (trap 6), unless it says why the answer ended.
 */
function readMessageStart(reading: Reading, message: unknown): void {
  const { sink, isStarted } = reading;
  sink.served(stringOf(member(message, "model")));
  if (!isStarted) {
    start(reading, message);
    readWhole(reading, message);
  }
  const isEnded = readEnding(reading, message);
  takeUsage(reading, member(message, "usage"), isEnded);
}

/** Whether the answer is said to have ended here. */
function readEnding(reading: Reading, value: unknown): boolean {
  const stopReason = stringOf(member(value, "stop_reason"));
  reading.stopReason = stopReason || reading.stopReason;
  reading.stopSequence = stringOf(member(value, "stop_sequence")) ?? reading.stopSequence;
  const details = member(value, "stop_details");
  reading.refusalCategory = stringOf(member(details, "category")) ?? reading.refusalCategory;
  reading.explanation = stringOf(member(details, "explanation")) || reading.explanation;
  if (reading.stopReason !== undefined) reading.sink.ended(true, true);
  return Boolean(stopReason);
}

function closeBlock(reading: Reading): void {
  const { open, sink } = reading;
  reading.open = undefined;
  if (!open || open.kind === "ignored") return;
  const { decoder } = open;
  const last = decoder ? decodeFreeText(decoder, open.input) + endFreeText(decoder) : open.input;
  if (last !== "") sink.show({ kind: "block-delta", choice, text: last });
  const opaque = open.kind === "thinking" ? signedState(open.signature) : undefined;
  if (opaque) sink.show({ kind: "block-opaque", choice, opaque });
  sink.show({ kind: "block-end", choice });
}

function openBlock(reading: Reading, content: unknown, index?: unknown): void {
  const { sink } = reading;
  const { start: block, ...open } = readStart(content);
  start(reading, undefined);
  closeBlock(reading);
  reading.open = { ...open, index };
  reading.openings += 1;
  if (!block) return;
  sink.show({ kind: "block-start", choice, block });
  showFirstContent(content, open.kind, sink);
}

/** Keeps what has come of a block until it is the turn of that block. */
function wait(reading: Reading, index: unknown, step: () => void): void {
  const { turns, sink, characters } = reading;
  if (!keepStep(turns, index, step, characters)) sink.unreadable("the provider mixes too much of its blocks");
  else if (hasEnded(turns)) endBlock(reading, false);
}

function readBlockStart(reading: Reading, content: unknown, index: unknown): void {
  const { turns, sink } = reading;
  if (noteBlock(reading, content)) {
    countPart(content, sink);
    countTool(content, reading);
  }
  if (!sink.isShown) reading.isStarted = true;
  else if (startsLater(turns, index)) wait(reading, index, () => openBlock(reading, content, index));
  else {
    turns.current = index;
    openBlock(reading, content, index);
  }
}

/** Ends the block that is open, and gives those that wait their turn. */
function endBlock(reading: Reading, isLast: boolean): void {
  closeBlock(reading);
  passTurn(reading.turns, () => closeBlock(reading), isLast);
}

function readBlockStop(reading: Reading, index: unknown): void {
  const waiting = reading.turns.waiting.get(index);
  if (waiting) waiting.isOver = true;
  else endBlock(reading, false);
}

/** Whether a delta is for a block before the last one, as part of which another format would show it. */
function isLate({ open, openings }: Reading, index: unknown): boolean {
  return typeof index === "number" && index < openings - 1 && index !== open?.index;
}

function readDelta(reading: Reading, delta: unknown, index: unknown): void {
  const { sink } = reading;
  reading.hasBlocks = true;
  countPart(delta, sink);
  if (!sink.isShown) return;
  if (reading.turns.waiting.has(index)) return wait(reading, index, () => showDelta(reading, delta, index));
  noteCurrent(reading.turns);
  showDelta(reading, delta, index);
}

function showDelta(reading: Reading, delta: unknown, index: unknown): void {
  const { sink } = reading;
  const type = stringOf(member(delta, "type")) ?? "";
  if (isLate(reading, index)) {
    // A signature, or a citation, may be missed.
    if (deltaTexts.has(type)) sink.unreadable("the provider went on with a block that had ended");
    return;
  }
  // Compatible servers were seen to leave out the start of a text.
  if (!reading.open && type === "text_delta") openBlock(reading, { type: "text" });
  const { open } = reading;
  if (!open || open.kind === "ignored") return;
  const given = stringOf(member(delta, deltaTexts.get(type) ?? ""));
  if (given) {
    open.input = "";
    const text = open.decoder ? decodeFreeText(open.decoder, given) : given;
    if (text !== "") sink.show({ kind: "block-delta", choice, text });
  } else if (type === "signature_delta") open.signature = stringOf(member(delta, "signature")) ?? "";
  else if (type === "citations_delta" && open.kind === "text") showCitation(member(delta, "citation"), sink);
}

function finish(reading: Reading): void {
  const { sink, stopReason, stopSequence, explanation } = reading;
  sink.markEnd();
  if (stopReason === undefined) return sink.unreadable(brokenOff.message);
  reading.isOver = !reading.hasFailed;
  if (!sink.isShown) return;
  start(reading, undefined);
  endBlock(reading, true);
  const reason = readStopReason(stopReason);
  sink.show({
    kind: "choice-finish",
    choice,
    reason,
    ...(stopSequence !== undefined && { stopSequence }),
    ...(reason === "refusal" && explanation !== undefined && { explanation }),
  });
  sink.finish();
}

function readEvent(reading: Reading, data: unknown): EventKind {
  // Gateways were seen to leave the type of an error out.
  const type = member(data, "type") ?? (member(data, "error") ? "error" : undefined);
  if (reading.isOver && type !== "error") return undefined;
  switch (type) {
    case "content_block_delta":
      readDelta(reading, member(data, "delta"), member(data, "index"));
      return undefined;
    case "message_start":
      readMessageStart(reading, member(data, "message"));
      return undefined;
    case "content_block_start":
      readBlockStart(reading, member(data, "content_block"), member(data, "index"));
      return undefined;
    case "content_block_stop":
      readBlockStop(reading, member(data, "index"));
      return undefined;
    case "message_delta":
      readEnding(reading, member(data, "delta"));
      takeUsage(reading, member(data, "usage"), true);
      return undefined;
    case "message_stop":
      finish(reading);
      return undefined;
    case "error":
      reading.hasFailed = true;
      reading.sink.error(readError(data) ?? brokenOff);
      return "error";
    default:
      return undefined;
  }
}

/**
 * Reads a Messages stream. It is whole when message_stop comes after a stop_reason, behind which nothing is read;
 * counts of message_delta are cumulative.
 */
export function createStreamReader(sink: AnswerSink, _context: ReadingContext): StreamReader {
  const reading: Reading = {
    sink,
    counts: {},
    tools: { webSearches: 0n, webFetches: 0n },
    isStarted: false,
    hasFailed: false,
    isOver: false,
    hasBlocks: false,
    freeTurns: [],
    open: undefined,
    turns: createBlockTurns(),
    characters: 0,
    openings: 0,
    stopReason: undefined,
    stopSequence: undefined,
    refusalCategory: undefined,
    explanation: undefined,
  };
  return {
    read: ({ json, data }) => {
      reading.characters = data?.length ?? 0;
      return readEvent(reading, json);
    },
    end: () => {
      if (!reading.isOver) sink.unreadable(brokenOff.message);
    },
  };
}
