import type { CallerRequest } from "../conversion.ts";
import { dataUrl } from "../data-url.ts";
import { writeLogprobs } from "../openai-shared/logprobs.ts";
import type { Block, Choice, Picture, Reply, TokenLogprob } from "../reply.ts";
import { writeExtra } from "./extra-content.ts";
import { writeFinish } from "./finish-reasons.ts";
import { asksFunctionCall } from "./read-tools.ts";
import type { Annotation, ChatCall, ChatImage, ChatLogprobs, ExtraContent } from "./wire.ts";
import { createPlace, placeCitation, placeState, type Place } from "./write-place.ts";
import { writeUsage } from "./write-usage.ts";

/** An id as chat has them, made of the provider's own. */
export function chatId(id: string): string {
  return id.startsWith("chatcmpl-") ? id : `chatcmpl-${id}`;
}

/** The tokens of a choice's content. */
export const writeTokens = (tokens: readonly TokenLogprob[]): ChatLogprobs => ({
  content: writeLogprobs(tokens, null),
  refusal: null,
});

/** A message, while it is written. */
type Written = {
  place: Place;
  content: string | undefined;
  thinking: string;
  refusal: string | null;
  annotations: Annotation[];
  calls: ChatCall[];
  images: ChatImage[];
  extra: ExtraContent;
};

type CallBlock = Extract<Block, { kind: "call" }>;

function writeCall({ id, name, input, isFreeText, opaque }: CallBlock): ChatCall {
  const extra = opaque ? { extra_content: writeExtra(opaque) } : {};
  if (isFreeText) return { id, type: "custom", custom: { name, input }, ...extra };
  return { id, type: "function", function: { name, arguments: input || "{}" }, ...extra };
}

export const writeImage = ({ mediaType, data }: Picture, index: number): ChatImage => ({
  index,
  type: "image_url",
  image_url: { url: dataUrl(mediaType, data) },
});

function addExtra(extra: ExtraContent, { google, relay }: ExtraContent): void {
  if (google) extra.google = google;
  if (relay) extra.relay = { ...extra.relay, ...relay };
}

function addText(written: Written, { text, citations = [], opaque }: Extract<Block, { kind: "text" }>): void {
  const { place, annotations, extra } = written;
  place.textStart = place.content;
  place.content += text.length;
  written.content = (written.content ?? "") + text;
  for (const citation of citations) {
    const placed = placeCitation(place, citation);
    if ("annotation" in placed) annotations.push(placed.annotation);
    else addExtra(extra, { relay: { citations: [...(extra.relay?.citations ?? []), placed.document] } });
  }
  if (opaque) addExtra(extra, writeExtra(opaque));
}

function addThinking(written: Written, { text, opaque }: Extract<Block, { kind: "thinking" }>): void {
  const { place, extra } = written;
  place.thinkingStart = place.thinking;
  place.thinking += text.length;
  written.thinking += text;
  if (!opaque) return;
  addExtra(extra, { relay: { thinking: [...(extra.relay?.thinking ?? []), placeState(place, opaque)] } });
}

function addBlock(written: Written, block: Block): void {
  if (block.kind === "text") addText(written, block);
  else if (block.kind === "thinking") addThinking(written, block);
  else if (block.kind === "image") written.images.push(writeImage(block, written.images.length));
  else if (block.kind === "refusal") written.refusal = (written.refusal ?? "") + block.text;
  else {
    written.calls.push(writeCall(block));
    written.place.calls += 1;
  }
}

/** A message as providers send it, `annotations` and `refusal` always there; content is null beside its stand-in. */
function writeMessage({ blocks, explanation }: Choice, isOld: boolean): Record<string, unknown> {
  const written: Written = {
    place: createPlace(),
    content: undefined,
    thinking: "",
    refusal: null,
    annotations: [],
    calls: [],
    images: [],
    extra: {},
  };
  for (const block of blocks) addBlock(written, block);
  written.refusal ??= explanation ?? null;
  const { content, thinking, refusal, annotations, calls, images, extra } = written;
  const [old, ...others] = isOld ? calls : [undefined, ...calls];
  if (old?.extra_content) addExtra(extra, old.extra_content);
  return {
    role: "assistant",
    content: content ?? (calls.length > 0 || refusal !== null ? null : ""),
    ...(thinking !== "" && { reasoning_content: thinking }),
    refusal,
    annotations,
    ...(images.length > 0 && { images }),
    ...(old?.type === "function" && { function_call: old.function }),
    ...(others.length > 0 && { tool_calls: others }),
    ...(Object.keys(extra).length > 0 && { extra_content: extra }),
  };
}

function writeChoice(choice: Choice, index: number, isOld: boolean): Record<string, unknown> {
  const { blocks, reason } = choice;
  const hasRefusal = blocks.some(({ kind }) => kind === "refusal");
  const finish_reason = writeFinish(reason, hasRefusal, isOld);
  const tokens = blocks.flatMap((block) => (block.kind === "text" ? (block.logprobs ?? []) : []));
  const logprobs = tokens.length > 0 ? writeTokens(tokens) : null;
  return { index, message: writeMessage(choice, isOld), logprobs, finish_reason };
}

/** Writes a whole chat completion. */
export function writeReply(
  { id, createdAtSeconds, choices, usage }: Reply,
  asked: CallerRequest,
): Record<string, unknown> {
  const isOld = asksFunctionCall(asked.request ?? {});
  return {
    id: chatId(id),
    object: "chat.completion",
    created: createdAtSeconds ?? Math.floor(Date.now() / 1000),
    model: asked.model,
    choices: choices.map((choice, index) => writeChoice(choice, index, isOld)),
    usage: writeUsage(usage),
    service_tier: null,
    system_fingerprint: null,
  };
}
