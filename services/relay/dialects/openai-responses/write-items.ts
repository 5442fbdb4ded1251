import type { Citation, Opaque } from "../conversation.ts";
import { writeLogprobs, type WireLogprob } from "../openai-shared/logprobs.ts";
import type { BlockStart, FinishReason, Picture, TokenLogprob } from "../reply.ts";
import { writeCitations } from "./citations.ts";
import type { ResponseObject } from "./response.ts";
import { writeItemState, writeState } from "./state.ts";
import { ownNameOf, type ToolNames } from "./tool-names.ts";
import type {
  ContentPart,
  CustomCallItem,
  FunctionCallItem,
  ImageItem,
  ItemStatus,
  MessageItem,
  OutputItem,
  ReasoningItem,
} from "./wire.ts";

/** Takes one event of a Responses stream; its fields may change after the call. */
export type Emit = (type: string, fields: Record<string, unknown>) => void;

type OpenBlock = {
  kind: BlockStart["kind"];
  /** The item that the block is, or is a part of. */
  item: OutputItem;
  text: string;
  logprobs: WireLogprob[];
  citations: Citation[];
  opaque: Opaque | undefined;
};

/** A response that is being written. */
export type Writing = {
  emit: Emit;
  model: string;
  settings: Record<string, unknown>;
  names: ToolNames;
  /** What the ids of its items are made of. */
  base: string;
  response: ResponseObject | undefined;
  /** A message takes all texts that follow each other as its parts, so it is closed by what comes next. */
  message: MessageItem | undefined;
  /** A call that nothing more comes of: whether it is whole or was cut, what comes next tells. */
  call: FunctionCallItem | CustomCallItem | undefined;
  block: OpenBlock | undefined;
  reason: FinishReason;
  hasRefusal: boolean;
};

const itemId = (writing: Writing, prefix: string, output: OutputItem[]): string =>
  `${prefix}_${writing.base}_${output.length}`;

/** Index of the item that is being written: items come one after the other. */
const lastIndex = (output: OutputItem[]): number => output.length - 1;

function addItem<Item extends OutputItem>(writing: Writing, output: OutputItem[], item: Item): Item {
  output.push(item);
  writing.emit("response.output_item.added", { output_index: lastIndex(output), item });
  return item;
}

const finishItem = (writing: Writing, output: OutputItem[], item: OutputItem): void =>
  writing.emit("response.output_item.done", { output_index: lastIndex(output), item });

/** Ends the message or call that is open, if any. */
export function closeItem(writing: Writing, output: OutputItem[], status: ItemStatus = "completed"): void {
  const item = writing.message ?? writing.call;
  if (!item) return;
  writing.message = writing.call = undefined;
  item.status = status;
  finishItem(writing, output, item);
}

function openMessage(writing: Writing, output: OutputItem[]): MessageItem {
  if (writing.call) closeItem(writing, output);
  writing.message ??= addItem(writing, output, {
    type: "message",
    id: itemId(writing, "msg", output),
    status: "in_progress",
    role: "assistant",
    content: [],
  });
  return writing.message;
}

type Content = Pick<OpenBlock, "kind" | "text"> & Partial<Pick<OpenBlock, "citations" | "logprobs">>;

const partOf = ({ kind, text, citations = [], logprobs = [] }: Content): ContentPart =>
  kind === "refusal"
    ? { type: "refusal", refusal: text }
    : { type: "output_text", text, annotations: writeCitations(citations, text), logprobs };

/** Official clients refuse a response in which two calls have one id. */
function callIdOf(writing: Writing, output: OutputItem[], id: string): string {
  const isTaken = output.some((item) => "call_id" in item && item.call_id === id);
  return id === "" || isTaken ? itemId(writing, "call", output) : id;
}

function addPicture(writing: Writing, output: OutputItem[], { mediaType, data }: Picture): OutputItem {
  const output_format = mediaType.replace("image/", "").replace("+xml", "");
  const id = itemId(writing, "ig", output);
  const drawing = { type: "image_generation_call", id, status: "in_progress", result: null, output_format } as const;
  const item: ImageItem = addItem(writing, output, drawing as ImageItem);
  for (const step of ["in_progress", "generating", "completed"]) {
    writing.emit(`response.image_generation_call.${step}`, itemPlace(output, item));
  }
  Object.assign(item, { status: "completed", result: data });
  return item;
}

function startItem(writing: Writing, output: OutputItem[], start: BlockStart): OutputItem {
  if (start.kind === "text" || start.kind === "refusal") {
    const message = openMessage(writing, output);
    const part = partOf({ kind: start.kind, text: "" });
    message.content.push(part);
    writing.emit("response.content_part.added", { ...partPlace(output, message), part });
    return message;
  }
  closeItem(writing, output);
  if (start.kind === "image") return addPicture(writing, output, start);
  if (start.kind === "thinking") {
    return addItem(writing, output, { type: "reasoning", id: itemId(writing, "rs", output), summary: [] });
  }
  const { isFreeText } = start;
  const call_id = callIdOf(writing, output, start.id);
  const id = itemId(writing, isFreeText ? "ctc" : "fc", output);
  const call = { id, status: "in_progress", call_id, ...ownNameOf(writing.names, start.name) } as const;
  return isFreeText
    ? addItem(writing, output, { type: "custom_tool_call", ...call, input: "" })
    : addItem(writing, output, { type: "function_call", ...call, arguments: "" });
}

/** Opens a block: a part of a message, or an item of its own. */
export function startBlock(writing: Writing, output: OutputItem[], start: BlockStart): void {
  const item = startItem(writing, output, start);
  writing.block = { kind: start.kind, item, text: "", logprobs: [], citations: [], opaque: undefined };
}

type Place = { item_id: string; output_index: number };

const itemPlace = (output: OutputItem[], { id }: OutputItem): Place => ({
  item_id: id,
  output_index: lastIndex(output),
});

const partPlace = (output: OutputItem[], message: MessageItem): Place & { content_index: number } => ({
  item_id: message.id,
  output_index: lastIndex(output),
  content_index: message.content.length - 1,
});

function writeThought(writing: Writing, output: OutputItem[], item: ReasoningItem, delta: string): void {
  const place = { ...itemPlace(output, item), summary_index: 0 };
  if (item.summary.length === 0) {
    const part = { type: "summary_text", text: "" } as const;
    item.summary.push(part);
    writing.emit("response.reasoning_summary_part.added", { ...place, part });
  }
  writing.emit("response.reasoning_summary_text.delta", { ...place, delta });
}

const noLogprobs: WireLogprob[] = [];

/** Adds to the block that is open its next tokens, and gives them as the format has them. */
function addTokens({ logprobs }: OpenBlock, tokens: readonly TokenLogprob[]): WireLogprob[] {
  const added = writeLogprobs(tokens, []);
  for (const token of added) logprobs.push(token);
  return added;
}

/** More of the block that is open; tokens that are part of a character may come without text. */
export function writeDelta(writing: Writing, output: OutputItem[], delta: string, tokens?: TokenLogprob[]): void {
  const { block } = writing;
  if (!block || (delta === "" && !tokens)) return;
  block.text += delta;
  const { item } = block;
  if (item.type === "image_generation_call") return;
  if (item.type === "message") {
    const place = partPlace(output, item);
    if (block.kind === "text") {
      const logprobs = tokens ? addTokens(block, tokens) : noLogprobs;
      writing.emit("response.output_text.delta", { ...place, delta, logprobs });
    } else writing.emit("response.refusal.delta", { ...place, delta });
  } else if (item.type === "reasoning") writeThought(writing, output, item, delta);
  else if (item.type === "function_call") {
    writing.emit("response.function_call_arguments.delta", { ...itemPlace(output, item), delta });
  } else writing.emit("response.custom_tool_call_input.delta", { ...itemPlace(output, item), delta });
}

function finishPart(writing: Writing, output: OutputItem[], item: MessageItem, block: OpenBlock): void {
  const place = partPlace(output, item);
  const part = partOf(block);
  item.content[place.content_index] = part;
  if (part.type === "refusal") {
    writing.hasRefusal = true;
    writing.emit("response.refusal.done", { ...place, refusal: part.refusal });
  } else {
    part.annotations.forEach((annotation, annotation_index) =>
      writing.emit("response.output_text.annotation.added", { ...place, annotation_index, annotation }),
    );
    writing.emit("response.output_text.done", { ...place, text: part.text, logprobs: part.logprobs });
  }
  writing.emit("response.content_part.done", { ...place, part });
}

function finishThought(writing: Writing, output: OutputItem[], item: ReasoningItem, block: OpenBlock): void {
  const { text, opaque } = block;
  if (item.summary.length > 0) {
    const place = { ...itemPlace(output, item), summary_index: 0 };
    const part = { type: "summary_text", text } as const;
    item.summary = [part];
    writing.emit("response.reasoning_summary_text.done", { ...place, text });
    writing.emit("response.reasoning_summary_part.done", { ...place, part });
  }
  if (opaque) item.encrypted_content = writeState(opaque);
  finishItem(writing, output, item);
}

function finishCall(
  writing: Writing,
  output: OutputItem[],
  item: FunctionCallItem | CustomCallItem,
  text: string,
): void {
  if (item.type === "function_call") {
    const place = itemPlace(output, item);
    // No arguments are an empty object (trap 26), also for who adds up the deltas.
    if (text === "") writing.emit("response.function_call_arguments.delta", { ...place, delta: "{}" });
    item.arguments = text || "{}";
    writing.emit("response.function_call_arguments.done", { ...place, arguments: item.arguments });
  } else {
    item.input = text;
    writing.emit("response.custom_tool_call_input.done", { ...itemPlace(output, item), input: text });
  }
  writing.call = item;
}

/** State of a text or call goes into a reasoning item of its own, right behind. */
function writeStateItem(writing: Writing, output: OutputItem[], opaque: Opaque): void {
  closeItem(writing, output);
  const id = itemId(writing, "rs", output);
  const encrypted_content = writeItemState(opaque);
  const item = addItem(writing, output, { type: "reasoning", id, summary: [], encrypted_content });
  finishItem(writing, output, item);
}

/** Ends the block that is open, if any. */
export function finishBlock(writing: Writing, output: OutputItem[]): void {
  const { block } = writing;
  if (!block) return;
  writing.block = undefined;
  const { item, text, opaque } = block;
  if (item.type === "reasoning") return finishThought(writing, output, item, block);
  if (item.type === "image_generation_call") return finishItem(writing, output, item);
  if (item.type === "message") finishPart(writing, output, item, block);
  else finishCall(writing, output, item, text);
  if (opaque) writeStateItem(writing, output, opaque);
}

/** Leaves what is open as far as it came, incomplete. */
export function abandonBlock({ block, message }: Writing): void {
  if (message) message.status = "incomplete";
  if (!block) return;
  const { item, text } = block;
  if (item.type === "function_call") Object.assign(item, { status: "incomplete", arguments: text });
  else if (item.type === "custom_tool_call") Object.assign(item, { status: "incomplete", input: text });
  else if (item.type === "reasoning") item.summary = text === "" ? [] : [{ type: "summary_text", text }];
  else if (item.type === "message") item.content[item.content.length - 1] = partOf(block);
}
