import type { AnswerSink } from "../answer.ts";
import { member, stringOf } from "../dialect.ts";
import { readLogprobs } from "../openai-shared/logprobs.ts";
import { unfoldBlock, type Block, type BlockStart, type ReplyPart } from "../reply.ts";
import { readCitation } from "./citations.ts";
import { readReason } from "./finish-reasons.ts";
import { readItem } from "./read-items.ts";

/** The block that is open: which part of which item, and what of it was told. */
type OpenBlock = {
  item: number;
  part: number;
  kind: Block["kind"];
  hasText: boolean;
  hasLogprobs: boolean;
  hasCitations: boolean;
  /** Which of its texts a reasoning item tells, its summary or its thoughts, and which part of it came last. */
  source: string;
  section: unknown;
};

/** The blocks of an answer, while its events come. */
export type Blocks = {
  sink: AnswerSink;
  /** What the event that is read tells of the response. */
  response: unknown;
  hasStarted: boolean;
  hasCall: boolean;
  open: OpenBlock | undefined;
  /** Parts of each item that were begun; of a finished one all. */
  told: Map<number, number>;
  /** Ids of the items that were begun: some servers number them otherwise in the response at the end. */
  ids: Set<string>;
  /** Items that were finished while another one was open: they are shown whole behind it. */
  waiting: { index: number; item: unknown }[];
};

export const createBlocks = (sink: AnswerSink): Blocks => ({
  sink,
  response: undefined,
  hasStarted: false,
  hasCall: false,
  open: undefined,
  told: new Map(),
  ids: new Set(),
  waiting: [],
});

const choice = 0;

/** Shows the start in front of the first part; most streams tell the response before anything else. */
function start(blocks: Blocks): void {
  if (blocks.hasStarted) return;
  blocks.hasStarted = true;
  const { response, sink } = blocks;
  const createdAt = member(response, "created_at");
  sink.show({
    kind: "start",
    id: stringOf(member(response, "id")) ?? "",
    model: stringOf(member(response, "model")) ?? "",
    // Some servers tell parts of a second, which no other format has.
    ...(typeof createdAt === "number" && { createdAtSeconds: Math.floor(createdAt) }),
  });
}

function show(blocks: Blocks, part: ReplyPart): void {
  start(blocks);
  blocks.sink.show(part);
}

/** An event of a finished block as far as it was not told; the tokens may come with the finished text only. */
function untold(event: ReplyPart, { hasText, hasLogprobs, hasCitations }: OpenBlock): ReplyPart[] {
  if (event.kind === "block-citation" && hasCitations) return [];
  if (event.kind !== "block-delta" || !hasText) return [event];
  return event.logprobs && !hasLogprobs ? [{ ...event, text: "" }] : [];
}

/** Ends the open block with what was not told of it yet. */
function close(blocks: Blocks, whole: Block | undefined): void {
  const { open } = blocks;
  if (!open) return;
  blocks.open = undefined;
  if (whole?.kind === open.kind) {
    const [, ...rest] = unfoldBlock(whole, choice);
    for (const event of rest) for (const part of untold(event, open)) show(blocks, part);
  } else show(blocks, { kind: "block-end", choice });
}

/** Opens a block. False while another item is open, whose place it may not take: it is told when it is finished. */
function openBlock(blocks: Blocks, item: number, part: number, block: BlockStart): boolean {
  const { open, told } = blocks;
  if (open && open.item !== item) return false;
  if ((told.get(item) ?? 0) > part) return open?.part === part;
  close(blocks, undefined);
  told.set(item, part + 1);
  blocks.hasCall ||= block.kind === "call";
  blocks.open = {
    item,
    part,
    kind: block.kind,
    hasText: false,
    hasLogprobs: false,
    hasCitations: false,
    source: "",
    section: undefined,
  };
  show(blocks, { kind: "block-start", choice, block });
  return true;
}

const indexOf = (event: unknown, key: string): number => {
  const index = member(event, key);
  return typeof index === "number" ? index : 0;
};

function readText(blocks: Blocks, event: unknown, block: BlockStart): void {
  const text = stringOf(member(event, "delta"));
  const logprobs = block.kind === "text" ? readLogprobs(member(event, "logprobs")) : undefined;
  const { open } = blocks;
  const item = indexOf(event, "output_index");
  const part = block.kind === "thinking" ? 0 : indexOf(event, "content_index");
  // Tokens that are part of a character may come without any text.
  if (text === undefined || (text === "" && !logprobs)) return;
  const isOpen = open?.item === item && open.part === part;
  if (!isOpen && !openBlock(blocks, item, part, block)) return;
  if (blocks.open) {
    blocks.open.hasText = true;
    blocks.open.hasLogprobs ||= logprobs !== undefined;
  }
  show(blocks, logprobs ? { kind: "block-delta", choice, text, logprobs } : { kind: "block-delta", choice, text });
}

const thinkingStart = { kind: "thinking" } as const;

/** Summaries have several parts, which a blank line divides; where the thoughts come as well, the first kind stays. */
function readThought(blocks: Blocks, event: unknown, source: "summary_index" | "content_index"): void {
  const item = indexOf(event, "output_index");
  if (!stringOf(member(event, "delta")) || !openBlock(blocks, item, 0, thinkingStart)) return;
  const { open } = blocks;
  if (!open || (open.source !== "" && open.source !== source)) return;
  const section = member(event, source);
  if (open.source === source && open.section !== section) show(blocks, { kind: "block-delta", choice, text: "\n\n" });
  open.source = source;
  open.section = section;
  readText(blocks, event, thinkingStart);
}

function readInput(blocks: Blocks, event: unknown): void {
  const text = stringOf(member(event, "delta"));
  // The call itself was opened by its item.
  if (!text || blocks.open?.item !== indexOf(event, "output_index") || blocks.open.kind !== "call") return;
  blocks.open.hasText = true;
  show(blocks, { kind: "block-delta", choice, text });
}

function addItem(blocks: Blocks, event: unknown): void {
  noteId(blocks, member(event, "item"));
  const [block] = readItem(member(event, "item"));
  // A message opens with its parts, and reasoning with its text: it may have none.
  if (block?.kind !== "call") return;
  const { id, name, isFreeText } = block;
  const call = { kind: "call", id, name, ...(isFreeText && { isFreeText }) } as const;
  openBlock(blocks, indexOf(event, "output_index"), 0, call);
}

function noteId(blocks: Blocks, item: unknown): void {
  const id = stringOf(member(item, "id"));
  if (id) blocks.ids.add(id);
}

function addPart(blocks: Blocks, event: unknown): void {
  const type = member(member(event, "part"), "type");
  if (type !== "output_text" && type !== "refusal") return;
  const kind = type === "refusal" ? type : "text";
  openBlock(blocks, indexOf(event, "output_index"), indexOf(event, "content_index"), { kind });
}

function finishPart(blocks: Blocks, event: unknown): void {
  const { open } = blocks;
  if (open?.item !== indexOf(event, "output_index") || open.kind === "thinking") return;
  if (open.part !== indexOf(event, "content_index")) return;
  const [whole] = readItem({ type: "message", content: [member(event, "part")] });
  close(blocks, whole);
}

function readAnnotation(blocks: Blocks, event: unknown): void {
  const { open } = blocks;
  if (open?.item !== indexOf(event, "output_index") || open.part !== indexOf(event, "content_index")) return;
  const citation = readCitation(member(event, "annotation"));
  if (!citation || open.kind !== "text") return;
  open.hasCitations = true;
  show(blocks, { kind: "block-citation", choice, citation });
}

/** Tells what was not told of an item that is finished now; its deltas may not have come at all. */
function tellItem(blocks: Blocks, index: number, item: unknown): void {
  const parts = readItem(item);
  noteId(blocks, item);
  if (blocks.open?.item === index) close(blocks, parts[blocks.open.part]);
  for (const block of parts.slice(blocks.told.get(index) ?? 0)) {
    if (!block) continue;
    blocks.hasCall ||= block.kind === "call";
    for (const part of unfoldBlock(block, choice)) show(blocks, part);
  }
  blocks.told.set(index, Infinity);
}

function finishItem(blocks: Blocks, index: number, item: unknown): void {
  if (blocks.open && blocks.open.item !== index) {
    blocks.waiting.push({ index, item });
    return;
  }
  tellItem(blocks, index, item);
  for (const { index: other, item: waiting } of blocks.waiting.splice(0)) tellItem(blocks, other, waiting);
}

/** The answer's end; what no event told of its output is shown now. */
function finish(blocks: Blocks, type: string): void {
  const { response, sink } = blocks;
  const output = member(response, "output");
  if (Array.isArray(output)) {
    for (const [index, item] of output.entries()) {
      const id = stringOf(member(item, "id"));
      const isElsewhere = !blocks.told.has(index) && id !== undefined && blocks.ids.has(id);
      if (!isElsewhere) finishItem(blocks, index, item);
    }
  }
  close(blocks, undefined);
  for (const { index, item } of blocks.waiting.splice(0)) tellItem(blocks, index, item);
  const isIncomplete = type === "response.incomplete" || member(response, "status") === "incomplete";
  const reason = readReason(response, isIncomplete, blocks.hasCall);
  show(blocks, { kind: "choice-finish", choice, reason });
  sink.finish();
}

/** Shows the end of what was open when an answer failed. */
export function breakOff(blocks: Blocks, event: unknown): void {
  blocks.response = member(event, "response");
  start(blocks);
  close(blocks, undefined);
}

const textStart = { kind: "text" } as const;
const refusalStart = { kind: "refusal" } as const;

/** Events that carry nothing of the answer itself, such as the progress of a provider's tools, are passed over. */
function readEvent(blocks: Blocks, event: unknown, type: string): void {
  switch (type) {
    case "response.output_text.delta":
      return readText(blocks, event, textStart);
    case "response.refusal.delta":
      return readText(blocks, event, refusalStart);
    case "response.reasoning_summary_text.delta":
      return readThought(blocks, event, "summary_index");
    case "response.reasoning_text.delta":
      return readThought(blocks, event, "content_index");
    case "response.function_call_arguments.delta":
    case "response.custom_tool_call_input.delta":
      return readInput(blocks, event);
    case "response.output_item.added":
      return addItem(blocks, event);
    case "response.content_part.added":
      return addPart(blocks, event);
    case "response.content_part.done":
      return finishPart(blocks, event);
    case "response.output_text.annotation.added":
      return readAnnotation(blocks, event);
    case "response.output_item.done":
      return finishItem(blocks, indexOf(event, "output_index"), member(event, "item"));
    case "response.completed":
    case "response.incomplete":
      return finish(blocks, type);
    default:
  }
}

/** Shows what an event holds: one block at a time, in the order in which its items were begun. */
export function showEvent(blocks: Blocks, event: unknown, type: string): void {
  blocks.response = member(event, "response");
  readEvent(blocks, event, type);
  if (blocks.response !== undefined) start(blocks);
}
