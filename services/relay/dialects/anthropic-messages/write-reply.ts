import { callIdFor } from "../call-id.ts";
import type { CallerRequest } from "../conversion.ts";
import type { Block, Picture, Reply } from "../reply.ts";
import { writeCitation } from "./citations.ts";
import { writeStopReason } from "./finish-reasons.ts";
import { freeTextInput } from "../free-text.ts";
import { isAttached, writeAttached, writeSignature, writeWordlessThinking } from "./thinking-state.ts";
import { inputObject } from "./tool-call.ts";
import type { ReplyBlock } from "./wire.ts";
import { estimatedUsage, writeWholeUsage } from "./write-usage.ts";

/** A message's id in this format's style. Clients put messages of one id together, so that it is never empty. */
export function messageId(id: string): string {
  if (id.startsWith("msg_")) return id;
  return `msg_${id === "" ? crypto.randomUUID() : id}`;
}

/** What a block starts with where it is a tool call. The model calls by itself; official types have it in each call. */
export function toolUse(id: string, name: string, input: Record<string, unknown>): ReplyBlock {
  return { type: "tool_use", id: callIdFor(id), name, input, caller: { type: "direct" } };
}

function writeText({ text, citations = [] }: Extract<Block, { kind: "text" }>): ReplyBlock[] {
  // An empty text must not come: providers refuse it when the caller gives it back (trap 25).
  if (text === "") return [];
  const fields = citations.map(writeCitation).filter((field) => field !== undefined);
  return [{ type: "text", text, citations: fields.length > 0 ? fields : null }];
}

function writeThinking({ text, opaque }: Extract<Block, { kind: "thinking" }>): ReplyBlock[] {
  if (text !== "") return [{ type: "thinking", thinking: text, signature: writeSignature(opaque) }];
  return opaque ? [writeWordlessThinking(opaque)] : [];
}

/** Not Anthropic's own, whose models do not draw: the block by which callers send pictures. */
export const writePicture = ({ mediaType, data }: Picture): ReplyBlock => ({
  type: "image",
  source: { type: "base64", media_type: mediaType, data },
});

function writeBlock(block: Block): ReplyBlock[] {
  if (block.kind === "image") return [writePicture(block)];
  const attached = block.kind !== "refusal" && block.opaque ? [writeAttached(block.opaque)] : [];
  switch (block.kind) {
    case "text":
      return [...writeText(block), ...attached];
    case "refusal":
      return writeText({ kind: "text", text: block.text });
    case "thinking":
      return writeThinking(block);
    case "call": {
      const { id, name, input, isFreeText } = block;
      return [toolUse(id, name, isFreeText ? freeTextInput(input) : inputObject(input)), ...attached];
    }
  }
}

/** The blocks without what stands behind the last text: see writeAttached. */
function endWithText(content: ReplyBlock[]): ReplyBlock[] {
  const last = content.findLastIndex((block) => !isAttached(block));
  return content[last]?.type === "text" ? content.slice(0, last + 1) : content;
}

// The types of the official clients have them in each message.
export const emptyFields = { container: null, diagnostics: null } as const;

/** Writes a whole message: the first choice, as this format has one answer only. */
export function writeReply({ id, choices, usage }: Reply, asked: CallerRequest): Record<string, unknown> {
  const { blocks, ...ending } = choices[0] ?? { blocks: [], reason: "stop" as const };
  const isRefused = blocks.some(({ kind }) => kind === "refusal");
  return {
    id: messageId(id),
    type: "message",
    role: "assistant",
    model: asked.model,
    content: endWithText(blocks.flatMap(writeBlock)),
    ...writeStopReason(ending, isRefused),
    ...emptyFields,
    usage: writeWholeUsage(usage ?? estimatedUsage(asked)),
  };
}
