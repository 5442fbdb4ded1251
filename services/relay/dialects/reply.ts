import type { Units } from "#shared/money/pricing.ts";
import type { Citation, Opaque } from "./conversation.ts";
import type { UpstreamError } from "./dialect.ts";

/**
 * The neutral answer, as events: start, then blocks one after the other (never one within another), then exactly one
 * finish or error. With several choices, each event but start and finish belongs to one of them, and blocks nest within
 * their choice.
 */
export type ReplyEvent =
  | { kind: "start"; id: string; model: string; createdAtSeconds?: number }
  | { kind: "block-start"; choice: number; block: BlockStart }
  /** More text of the block: words, thoughts, or JSON of a call's input; of words also the tokens, if asked for. */
  | { kind: "block-delta"; choice: number; text: string; logprobs?: TokenLogprob[] }
  | { kind: "block-citation"; choice: number; citation: Citation }
  /** The block's opaque state, whole. */
  | { kind: "block-opaque"; choice: number; opaque: Opaque }
  | { kind: "block-end"; choice: number }
  | ({ kind: "choice-finish"; choice: number } & Ending)
  /** The last event of an answer that is whole. */
  | { kind: "finish"; usage: ReplyUsage | undefined }
  /** The last event of an answer that the provider broke off. */
  | { kind: "error"; error: UpstreamError };

/** Any of them but for how the answer ends. */
export type ReplyPart = Exclude<ReplyEvent, { kind: "finish" | "error" }>;

export type BlockStart =
  | { kind: "text" }
  | { kind: "refusal" }
  | { kind: "thinking" }
  /** A picture, whole: nothing more comes of it. */
  | Picture
  | { kind: "call"; id: string; name: string; isFreeText?: boolean };

/** A picture that the model made, in base64. */
export type Picture = { kind: "image"; mediaType: string; data: string };

/** Why a choice ended. `pause`: a long turn that the caller continues by sending it back. */
export type FinishReason = "stop" | "stop-sequence" | "length" | "calls" | "refusal" | "pause";

/** A token and the natural logarithm of its probability; `bytes`: its UTF-8, as it may be part of a character. */
export type TokenLikelihood = { token: string; logprob: number; bytes?: number[] };

/** A token of a text, with the likeliest that could have stood there. */
export type TokenLogprob = TokenLikelihood & { alternatives: TokenLikelihood[] };

/** Token counts in disjoint buckets. */
export type ReplyUsage = Units;

export type Block =
  | { kind: "text"; text: string; logprobs?: TokenLogprob[]; citations?: Citation[]; opaque?: Opaque }
  | { kind: "refusal"; text: string }
  | { kind: "thinking"; text: string; opaque?: Opaque }
  | Picture
  | { kind: "call"; id: string; name: string; input: string; isFreeText?: boolean; opaque?: Opaque };

/** How a choice ended. `explanation`: why the provider refused, in its words, which are not the model's. */
export type Ending = { reason: FinishReason; stopSequence?: string; explanation?: string };

export type Choice = { blocks: Block[] } & Ending;

/** The neutral answer as a whole. */
export type Reply = {
  id: string;
  model: string;
  createdAtSeconds?: number;
  choices: Choice[];
  usage: ReplyUsage | undefined;
};

/** A whole reply as the events of a stream, so that a dialect needs to be written once for both. */
export function unfoldReply({ id, model, createdAtSeconds, choices, usage }: Reply): ReplyEvent[] {
  const created = createdAtSeconds === undefined ? {} : { createdAtSeconds };
  const events: ReplyEvent[] = [{ kind: "start", id, model, ...created }];
  choices.forEach(({ blocks, ...ending }, choice) => {
    for (const block of blocks) events.push(...unfoldBlock(block, choice));
    events.push({ kind: "choice-finish", choice, ...ending });
  });
  return [...events, { kind: "finish", usage }];
}

function startOf(block: Block): BlockStart {
  if (block.kind === "image") return block;
  if (block.kind !== "call") return { kind: block.kind };
  const { id, name, isFreeText } = block;
  return { kind: "call", id, name, ...(isFreeText && { isFreeText }) };
}

/** A block of a whole answer as the events of a stream. */
export function unfoldBlock(block: Block, choice: number): ReplyPart[] {
  if (block.kind === "image") {
    return [
      { kind: "block-start", choice, block },
      { kind: "block-end", choice },
    ];
  }
  const text = block.kind === "call" ? block.input : block.text;
  const logprobs = block.kind === "text" ? block.logprobs : undefined;
  const citations = block.kind === "text" ? (block.citations ?? []) : [];
  const opaque = block.kind === "refusal" ? undefined : block.opaque;
  return [
    { kind: "block-start", choice, block: startOf(block) },
    ...(text === "" && !logprobs
      ? []
      : [{ kind: "block-delta", choice, text, ...(logprobs && { logprobs }) } as const]),
    ...citations.map((citation) => ({ kind: "block-citation", choice, citation }) as const),
    ...(opaque ? [{ kind: "block-opaque", choice, opaque } as const] : []),
    { kind: "block-end", choice },
  ];
}

/** An answer that ended in an error, or never ended; thrown when one is folded. */
export class BrokenReplyError extends Error {}

function openBlock(start: BlockStart): Block {
  if (start.kind === "image") return start;
  return start.kind === "call" ? { ...start, input: "" } : { kind: start.kind, text: "" };
}

function extendBlock(block: Block, event: ReplyEvent): void {
  if (block.kind === "image") return;
  if (event.kind === "block-delta") {
    if (block.kind === "call") block.input += event.text;
    else block.text += event.text;
    if (event.logprobs && block.kind === "text")
      for (const token of event.logprobs) (block.logprobs ??= []).push(token);
  } else if (event.kind === "block-citation" && block.kind === "text") {
    block.citations = [...(block.citations ?? []), event.citation];
  } else if (event.kind === "block-opaque" && block.kind !== "refusal") block.opaque = event.opaque;
}

/** The whole reply of a stream's events. Throws BrokenReplyError when they do not end in a finish. */
export function foldReply(events: Iterable<ReplyEvent>): Reply {
  const reply: Reply = { id: "", model: "", choices: [], usage: undefined };
  const choiceOf = (index: number): Choice => (reply.choices[index] ??= { blocks: [], reason: "stop" });
  for (const event of events) {
    if (event.kind === "start") {
      Object.assign(reply, { id: event.id, model: event.model });
      if (event.createdAtSeconds !== undefined) reply.createdAtSeconds = event.createdAtSeconds;
    } else if (event.kind === "block-start") choiceOf(event.choice).blocks.push(openBlock(event.block));
    else if (event.kind === "choice-finish") {
      const { kind: _, choice, ...ending } = event;
      Object.assign(choiceOf(choice), ending);
    } else if (event.kind === "finish") return { ...reply, usage: event.usage };
    else if (event.kind === "error") throw new BrokenReplyError(event.error.message);
    else {
      const block = choiceOf(event.choice).blocks.at(-1);
      if (block) extendBlock(block, event);
    }
  }
  throw new BrokenReplyError("the answer has no end");
}
