import type { AnswerSink, EventKind, ReadingContext, StreamReader } from "../answer.ts";
import { estimateTokens, member, stringOf } from "../dialect.ts";
import { breakOff, createBlocks, showEvent, type Blocks } from "./read-blocks.ts";
import { readStreamError } from "./error.ts";
import { itemTokens } from "./read-items.ts";
import { countTool, createToolCount, type ToolCount } from "./tools.ts";
import { readFinal } from "./usage.ts";

const wholeEvents = new Set(["response.completed", "response.incomplete"]);
const errorEvents = new Set(["error", "response.failed", "response.cancelled"]);
// Sound and pictures come as base64: no text to count.
const mediaEvents = new Set(["response.audio.delta"]);

type Reading = {
  sink: AnswerSink;
  blocks: Blocks;
  tools: ToolCount;
  /** Tokens that were counted of each item, in an object of its own, which a piece changes without making another. */
  counted: Map<number, { tokens: number }>;
  /** Items that were counted as a whole, by their places and by their ids, of which either may change. */
  done: Set<unknown>;
  hasFailed: boolean;
  isOver: boolean;
};

/** The type of an event, "" for none. OpenRouter names the last one otherwise, and leaves its kind to the status. */
export function typeOfEvent(event: unknown): string {
  const type = stringOf(member(event, "type")) ?? (member(event, "error") ? "error" : "");
  if (type !== "response.done") return type;
  return `response.${stringOf(member(member(event, "response"), "status")) ?? "completed"}`;
}

const indexOf = (event: unknown): number => {
  const index = member(event, "output_index");
  return typeof index === "number" ? index : 0;
};

function countPiece({ sink, counted }: Reading, index: number, tokens: number): void {
  const known = counted.get(index);
  if (known) known.tokens += tokens;
  else counted.set(index, { tokens });
  sink.content(tokens);
}

/** Counts what was not counted yet of an item that is whole now. Also what has no text is content. */
function countItem({ sink, counted, done, tools }: Reading, index: number, item: unknown): void {
  const id = stringOf(member(item, "id"));
  if (id !== undefined && done.has(id)) return;
  done.add(id).add(index);
  sink.content(Math.max(itemTokens(item) - (counted.get(index)?.tokens ?? 0), 0));
  countTool(item, tools, sink);
}

function readContent(reading: Reading, event: unknown, type: string): void {
  const delta = type.endsWith(".delta") ? stringOf(member(event, "delta")) : undefined;
  if (delta) countPiece(reading, indexOf(event), mediaEvents.has(type) ? 0 : estimateTokens(delta));
  const item = member(event, "item");
  if (type === "response.output_item.added") {
    const name = stringOf(member(item, "name"));
    if (name !== undefined) countPiece(reading, indexOf(event), estimateTokens(name));
  } else if (type === "response.output_item.done" && item !== undefined) countItem(reading, indexOf(event), item);
}

/** Reads what a finished response tells of itself: its counts and its tier. */
function readEnd({ sink, tools }: Reading, response: unknown): void {
  const told = readFinal(response, tools.drawings);
  if (told) sink.usage(told);
  sink.served(undefined, stringOf(member(response, "service_tier")));
}

function fail(reading: Reading, event: unknown): EventKind {
  const { sink, blocks } = reading;
  reading.hasFailed = true;
  if (!reading.isOver) readEnd(reading, member(event, "response"));
  if (sink.isShown) breakOff(blocks, event);
  sink.error(readStreamError(event));
  return "error";
}

function readWhole(reading: Reading, response: unknown): void {
  const { sink } = reading;
  const output = member(response, "output");
  if (Array.isArray(output)) {
    output.forEach((item, index) => {
      if (!reading.done.has(index)) countItem(reading, index, item);
    });
  }
  sink.ended(true, true);
  readEnd(reading, response);
  reading.isOver = !reading.hasFailed;
  sink.markEnd();
}

/**
 * Reads the stream of a response. It is whole at response.completed, and at response.incomplete, which a limit ended;
 * behind that nothing is read.
 */
export function createStreamReader(sink: AnswerSink, _context: ReadingContext): StreamReader {
  const reading: Reading = {
    sink,
    blocks: createBlocks(sink),
    tools: createToolCount(),
    counted: new Map(),
    done: new Set(),
    hasFailed: false,
    isOver: false,
  };
  const read = (event: unknown): EventKind => {
    const type = typeOfEvent(event);
    const isError = errorEvents.has(type);
    if (type === "" || (reading.isOver && !isError)) return undefined;
    const response = member(event, "response");
    sink.served(stringOf(member(response, "model")));
    if (isError) return fail(reading, event);
    readContent(reading, event, type);
    if (wholeEvents.has(type)) readWhole(reading, response);
    if (sink.isShown) showEvent(reading.blocks, event, type);
    return undefined;
  };
  const end = (): void => {
    if (reading.isOver) return;
    if (sink.isShown) breakOff(reading.blocks, undefined);
    sink.unreadable("the answer ended before it was whole");
  };
  return { read: ({ json }) => read(json), end };
}
