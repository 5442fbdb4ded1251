import type { Opaque } from "../conversation.ts";
import type { CallerRequest, StreamWriter } from "../conversion.ts";
import type { BlockStart, Ending, Picture, ReplyEvent, ReplyUsage } from "../reply.ts";
import { writeCitation } from "./citations.ts";
import { writeStopReason } from "./finish-reasons.ts";
import { writeAttached, writeSignature, writeWordlessThinking } from "./thinking-state.ts";
import type { ReplyBlock } from "./wire.ts";
import { longTextsOf, writeJson } from "../json/long-texts.ts";
import { emptyFields, messageId, toolUse, writePicture } from "./write-reply.ts";
import { untoldUsage, writeFirstUsage, writeUsage } from "./write-usage.ts";

/** A picture comes whole, and is never open. */
type TextStart = Exclude<BlockStart, Picture>;

type OpenBlock = {
  start: TextStart;
  /** Whether its content_block_start is out. Only calls start before there is content: no other block may be empty. */
  isStarted: boolean;
  /** What stands before the text of each delta. */
  deltaHead: string;
  opaque: Opaque | undefined;
};

type Writing = {
  asked: CallerRequest;
  /** Index of the last content block that started. */
  index: number;
  open: OpenBlock | undefined;
  /** State of texts, which is written only when something comes behind it: see writeAttached. */
  attached: Opaque[];
  isRefused: boolean;
  ending: Ending;
};

function eventText(type: string, fields: object, long: readonly string[] = []): string {
  return `event: ${type}\ndata: ${writeJson({ type, ...fields }, long)}\n\n`;
}

const deltaFields: Record<TextStart["kind"], string> = {
  text: `"type":"text_delta","text":`,
  refusal: `"type":"text_delta","text":`,
  thinking: `"type":"thinking_delta","thinking":`,
  call: `"type":"input_json_delta","partial_json":`,
};

/** Output counts come at the end; the input count must not be 0, which clients show and decide on (trap 7). */
function writeMessageStart({ asked }: Writing, id: string): string {
  const usage = writeFirstUsage(asked);
  const fields = { content: [], stop_reason: null, stop_sequence: null, stop_details: null, ...emptyFields, usage };
  const message = { id: messageId(id), type: "message", role: "assistant", model: asked.model, ...fields };
  return eventText("message_start", { message });
}

function firstContent(start: TextStart): ReplyBlock {
  if (start.kind === "call") return toolUse(start.id, start.name, {});
  if (start.kind === "thinking") return { type: "thinking", thinking: "", signature: "" };
  return { type: "text", text: "", citations: null };
}

function writePending(writing: Writing): string {
  const states = writing.attached.splice(0);
  return states.map((opaque) => wholeBlock(writing, writeAttached(opaque))).join("");
}

function startBlock(writing: Writing, block: OpenBlock): string {
  const before = writePending(writing);
  writing.index += 1;
  block.isStarted = true;
  const { index } = writing;
  const { start } = block;
  block.deltaHead =
    `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},` +
    `"delta":{${deltaFields[start.kind]}`;
  const started = eventText("content_block_start", { index, content_block: firstContent(start) });
  if (start.kind !== "call") return before + started;
  return before + started + deltaText(block, "") + (start.isFreeText ? deltaText(block, `{"input":"`) : "");
}

function deltaText(block: OpenBlock, text: string): string {
  return `${block.deltaHead}${JSON.stringify(text)}}}\n\n`;
}

function stopBlock(writing: Writing): string {
  return eventText("content_block_stop", { index: writing.index });
}

/** A block that comes as a whole, with texts that are long and of base64. */
function wholeBlock(writing: Writing, content: ReplyBlock, long: readonly string[] = []): string {
  const before = writePending(writing);
  writing.index += 1;
  const { index } = writing;
  return before + eventText("content_block_start", { index, content_block: content }, long) + stopBlock(writing);
}

function openBlock(writing: Writing, start: BlockStart): string {
  const before = closeBlock(writing);
  if (start.kind === "image") {
    return before + wholeBlock(writing, writePicture(start), longTextsOf(start.data));
  }
  const block: OpenBlock = { start, isStarted: false, deltaHead: "", opaque: undefined };
  writing.open = block;
  writing.isRefused ||= start.kind === "refusal";
  return start.kind === "call" ? before + startBlock(writing, block) : before;
}

function writeDelta(writing: Writing, text: string): string {
  const { open } = writing;
  if (!open || text === "") return "";
  const before = open.isStarted ? "" : startBlock(writing, open);
  const isFreeText = open.start.kind === "call" && open.start.isFreeText;
  return before + deltaText(open, isFreeText ? JSON.stringify(text).slice(1, -1) : text);
}

function writeCitationDelta(writing: Writing, event: Extract<ReplyEvent, { kind: "block-citation" }>): string {
  const citation = writeCitation(event.citation);
  const { open } = writing;
  if (!citation || open?.start.kind !== "text") return "";
  const before = open.isStarted ? "" : startBlock(writing, open);
  const delta = { type: "citations_delta", citation };
  return before + eventText("content_block_delta", { index: writing.index, delta });
}

/** The signature comes last in its block. */
function closeThinking(writing: Writing, { isStarted, opaque }: OpenBlock): string {
  if (!isStarted) return opaque ? wholeBlock(writing, writeWordlessThinking(opaque)) : "";
  const delta = { type: "signature_delta", signature: writeSignature(opaque) };
  return eventText("content_block_delta", { index: writing.index, delta }) + stopBlock(writing);
}

function closeBlock(writing: Writing): string {
  const { open } = writing;
  if (!open) return "";
  writing.open = undefined;
  if (open.start.kind === "thinking") return closeThinking(writing, open);
  const isFreeText = open.start.kind === "call" && open.start.isFreeText;
  const last = isFreeText ? deltaText(open, `"}`) : "";
  const stopped = open.isStarted ? last + stopBlock(writing) : "";
  if (!open.opaque) return stopped;
  if (open.start.kind === "call") return stopped + wholeBlock(writing, writeAttached(open.opaque));
  writing.attached.push(open.opaque);
  return stopped;
}

/** Without the provider's counts, the estimate of message_start stands. */
function writeEnd(writing: Writing, usage: ReplyUsage | undefined): string {
  const { ending, isRefused } = writing;
  const delta = { ...writeStopReason(ending, isRefused), container: null };
  const counts = usage ? writeUsage(usage) : untoldUsage;
  return closeBlock(writing) + eventText("message_delta", { delta, usage: counts }) + eventText("message_stop", {});
}

function writeChoiceEvent(writing: Writing, event: Extract<ReplyEvent, { choice: number }>): string {
  // This format has one answer only.
  if (event.choice !== 0) return "";
  switch (event.kind) {
    case "block-delta":
      return writeDelta(writing, event.text);
    case "block-start":
      return openBlock(writing, event.block);
    case "block-citation":
      return writeCitationDelta(writing, event);
    case "block-opaque":
      if (writing.open) writing.open.opaque = event.opaque;
      return "";
    case "block-end":
      return closeBlock(writing);
    case "choice-finish":
      writing.ending = event;
      return "";
  }
}

/**
 * Writes a Messages stream. Of an error nothing is written: by the API spec (Streaming that stops partway) "No error
 * arrives; answer ends partway".
 */
export function createStreamWriter(asked: CallerRequest): StreamWriter {
  const writing: Writing = {
    asked,
    index: -1,
    open: undefined,
    attached: [],
    isRefused: false,
    ending: { reason: "stop" },
  };
  return {
    write: (event) => {
      if ("choice" in event) return writeChoiceEvent(writing, event);
      if (event.kind === "start") return writeMessageStart(writing, event.id);
      return event.kind === "finish" ? writeEnd(writing, event.usage) : "";
    },
  };
}
