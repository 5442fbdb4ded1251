import type { StreamReader } from "../conversion.ts";
import { member, stringOf, type UpstreamError } from "../dialect.ts";
import { paramOf, readError } from "../openai-shared/error.ts";
import { readLogprobs } from "../openai-shared/logprobs.ts";
import { unfoldBlock, type Block, type BlockStart, type ReplyEvent } from "../reply.ts";
import { readCitation } from "./citations.ts";
import { readItem, readReason } from "./read-items.ts";
import { readUsage } from "./usage.ts";

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

type Reading = {
  events: ReplyEvent[];
  hasStarted: boolean;
  hasEnded: boolean;
  hasCall: boolean;
  open: OpenBlock | undefined;
  /** Parts of each item that were begun; of a finished one all. */
  told: Map<number, number>;
  /** Ids of the items that were begun: some servers number them otherwise in the response at the end. */
  ids: Set<string>;
  /** Items that were finished while another one was open: they are told whole behind it. */
  waiting: { index: number; item: unknown }[];
};

const choice = 0;

/** Puts the start in front of the first events; most streams tell the response before anything else. */
function start(reading: Reading, response: unknown): void {
  if (reading.hasStarted) return;
  reading.hasStarted = true;
  const createdAt = member(response, "created_at");
  reading.events.unshift({
    kind: "start",
    id: stringOf(member(response, "id")) ?? "",
    model: stringOf(member(response, "model")) ?? "",
    ...(typeof createdAt === "number" && { createdAtSeconds: createdAt }),
  });
}

/** An event of a finished block as far as it was not told; the tokens may come with the finished text only. */
function untold(event: ReplyEvent, { hasText, hasLogprobs, hasCitations }: OpenBlock): ReplyEvent[] {
  if (event.kind === "block-citation" && hasCitations) return [];
  if (event.kind !== "block-delta" || !hasText) return [event];
  return event.logprobs && !hasLogprobs ? [{ ...event, text: "" }] : [];
}

/** Ends the open block with what was not told of it yet. */
function close(reading: Reading, whole: Block | undefined): void {
  const { open, events } = reading;
  if (!open) return;
  reading.open = undefined;
  if (whole?.kind === open.kind) {
    const [, ...rest] = unfoldBlock(whole, choice);
    for (const event of rest) events.push(...untold(event, open));
  } else events.push({ kind: "block-end", choice });
}

/** Opens a block. False while another item is open, whose place it may not take: it is told when it is finished. */
function openBlock(reading: Reading, item: number, part: number, block: BlockStart): boolean {
  const { open, told } = reading;
  if (open && open.item !== item) return false;
  if ((told.get(item) ?? 0) > part) return open?.part === part;
  close(reading, undefined);
  told.set(item, part + 1);
  reading.hasCall ||= block.kind === "call";
  reading.open = {
    item,
    part,
    kind: block.kind,
    hasText: false,
    hasLogprobs: false,
    hasCitations: false,
    source: "",
    section: undefined,
  };
  reading.events.push({ kind: "block-start", choice, block });
  return true;
}

const indexOf = (event: unknown, key: string): number => {
  const index = member(event, key);
  return typeof index === "number" ? index : 0;
};

function readText(reading: Reading, event: unknown, block: BlockStart): void {
  const text = stringOf(member(event, "delta"));
  const logprobs = block.kind === "text" ? readLogprobs(member(event, "logprobs")) : undefined;
  const { open } = reading;
  const item = indexOf(event, "output_index");
  const part = block.kind === "thinking" ? 0 : indexOf(event, "content_index");
  // Tokens that are part of a character may come without any text.
  if (text === undefined || (text === "" && !logprobs)) return;
  const isOpen = open?.item === item && open.part === part;
  if (!isOpen && !openBlock(reading, item, part, block)) return;
  if (reading.open) {
    reading.open.hasText = true;
    reading.open.hasLogprobs ||= logprobs !== undefined;
  }
  reading.events.push(
    logprobs ? { kind: "block-delta", choice, text, logprobs } : { kind: "block-delta", choice, text },
  );
}

const thinkingStart = { kind: "thinking" } as const;

/** Summaries have several parts, which a blank line divides; where the thoughts come as well, the first kind stays. */
function readThought(reading: Reading, event: unknown, source: "summary_index" | "content_index"): void {
  const item = indexOf(event, "output_index");
  if (!stringOf(member(event, "delta")) || !openBlock(reading, item, 0, thinkingStart)) return;
  const { open, events } = reading;
  if (!open || (open.source !== "" && open.source !== source)) return;
  const section = member(event, source);
  if (open.source === source && open.section !== section) events.push({ kind: "block-delta", choice, text: "\n\n" });
  open.source = source;
  open.section = section;
  readText(reading, event, thinkingStart);
}

function readInput(reading: Reading, event: unknown): void {
  const text = stringOf(member(event, "delta"));
  // The call itself was opened by its item.
  if (!text || reading.open?.item !== indexOf(event, "output_index") || reading.open.kind !== "call") return;
  reading.open.hasText = true;
  reading.events.push({ kind: "block-delta", choice, text });
}

function addItem(reading: Reading, event: unknown): void {
  noteId(reading, member(event, "item"));
  const [block] = readItem(member(event, "item"));
  // A message opens with its parts, and reasoning with its text: it may have none.
  if (block?.kind !== "call") return;
  const { id, name, isFreeText } = block;
  const call = { kind: "call", id, name, ...(isFreeText && { isFreeText }) } as const;
  openBlock(reading, indexOf(event, "output_index"), 0, call);
}

function noteId(reading: Reading, item: unknown): void {
  const id = stringOf(member(item, "id"));
  if (id) reading.ids.add(id);
}

function addPart(reading: Reading, event: unknown): void {
  const type = member(member(event, "part"), "type");
  if (type !== "output_text" && type !== "refusal") return;
  const kind = type === "refusal" ? type : "text";
  openBlock(reading, indexOf(event, "output_index"), indexOf(event, "content_index"), { kind });
}

function finishPart(reading: Reading, event: unknown): void {
  const { open } = reading;
  if (open?.item !== indexOf(event, "output_index") || open.kind === "thinking") return;
  if (open.part !== indexOf(event, "content_index")) return;
  const [whole] = readItem({ type: "message", content: [member(event, "part")] });
  close(reading, whole);
}

function readAnnotation(reading: Reading, event: unknown): void {
  const { open } = reading;
  if (open?.item !== indexOf(event, "output_index") || open.part !== indexOf(event, "content_index")) return;
  const citation = readCitation(member(event, "annotation"));
  if (!citation || open.kind !== "text") return;
  open.hasCitations = true;
  reading.events.push({ kind: "block-citation", choice, citation });
}

/** Tells what was not told of an item that is finished now; its deltas may not have come at all. */
function tellItem(reading: Reading, index: number, item: unknown): void {
  const blocks = readItem(item);
  noteId(reading, item);
  if (reading.open?.item === index) close(reading, blocks[reading.open.part]);
  for (const block of blocks.slice(reading.told.get(index) ?? 0)) {
    if (!block) continue;
    reading.hasCall ||= block.kind === "call";
    reading.events.push(...unfoldBlock(block, choice));
  }
  reading.told.set(index, Infinity);
}

function finishItem(reading: Reading, index: number, item: unknown): void {
  if (reading.open && reading.open.item !== index) {
    reading.waiting.push({ index, item });
    return;
  }
  tellItem(reading, index, item);
  for (const { index: other, item: waiting } of reading.waiting.splice(0)) tellItem(reading, other, waiting);
}

/** The answer's end; what no event told of its output is told now. */
function finish(reading: Reading, event: unknown, type: string): void {
  const response = member(event, "response");
  const output = member(response, "output");
  if (Array.isArray(output)) {
    for (const [index, item] of output.entries()) {
      const id = stringOf(member(item, "id"));
      const isElsewhere = !reading.told.has(index) && id !== undefined && reading.ids.has(id);
      if (!isElsewhere) finishItem(reading, index, item);
    }
  }
  close(reading, undefined);
  for (const { index, item } of reading.waiting.splice(0)) tellItem(reading, index, item);
  const isIncomplete = type === "response.incomplete" || member(response, "status") === "incomplete";
  const reason = readReason(response, isIncomplete, reading.hasCall);
  reading.hasEnded = true;
  reading.events.push({ kind: "choice-finish", choice, reason });
  reading.events.push({ kind: "finish", usage: readUsage(member(response, "usage")) });
}

/** Errors come flat, or nested as in Format A; a failed response has its own. */
function errorOf(event: unknown): UpstreamError {
  const message = stringOf(member(event, "message"));
  if (message !== undefined) {
    return { message, type: undefined, code: stringOf(member(event, "code")), ...paramOf(event) };
  }
  return readError(member(event, "response") ?? event) ?? { message: "", type: undefined, code: undefined };
}

/** An error and the failed response behind it are one error: the first one ends the reply. */
function fail(reading: Reading, error: UpstreamError): void {
  close(reading, undefined);
  reading.hasEnded = true;
  reading.events.push({ kind: "error", error });
}

const textStart = { kind: "text" } as const;
const refusalStart = { kind: "refusal" } as const;

/** Events that carry nothing of the answer itself, such as the progress of a provider's tools, are passed over. */
function readEvent(reading: Reading, event: unknown, type: string): void {
  switch (type) {
    case "response.output_text.delta":
      return readText(reading, event, textStart);
    case "response.refusal.delta":
      return readText(reading, event, refusalStart);
    case "response.reasoning_summary_text.delta":
      return readThought(reading, event, "summary_index");
    case "response.reasoning_text.delta":
      return readThought(reading, event, "content_index");
    case "response.function_call_arguments.delta":
    case "response.custom_tool_call_input.delta":
      return readInput(reading, event);
    case "response.output_item.added":
      return addItem(reading, event);
    case "response.content_part.added":
      return addPart(reading, event);
    case "response.content_part.done":
      return finishPart(reading, event);
    case "response.output_text.annotation.added":
      return readAnnotation(reading, event);
    case "response.output_item.done":
      return finishItem(reading, indexOf(event, "output_index"), member(event, "item"));
    case "response.completed":
    case "response.incomplete":
      return finish(reading, event, type);
    case "response.failed":
    case "error":
      return fail(reading, errorOf(event));
    default:
  }
}

/** Reads the stream of a response: one block at a time, in the order in which its items were begun. */
export function createStreamReader(): StreamReader {
  const reading: Reading = {
    events: [],
    hasStarted: false,
    hasEnded: false,
    hasCall: false,
    open: undefined,
    told: new Map(),
    ids: new Set(),
    waiting: [],
  };
  const take = (): ReplyEvent[] => {
    const { events } = reading;
    reading.events = [];
    return events;
  };
  return {
    read: (event) => {
      const type = stringOf(member(event, "type")) ?? (member(event, "error") ? "error" : "");
      if (reading.hasEnded || type === "") return [];
      const response = member(event, "response");
      readEvent(reading, event, type);
      if (response !== undefined || reading.events.length > 0) start(reading, response);
      return take();
    },
    end: () => {
      if (reading.hasEnded) return [];
      fail(reading, { message: "The answer ended before it was whole", type: undefined, code: undefined });
      start(reading, undefined);
      return take();
    },
  };
}
