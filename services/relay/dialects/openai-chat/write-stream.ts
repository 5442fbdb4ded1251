import type { Citation, Opaque } from "../conversation.ts";
import type { CallerRequest, StreamWriter } from "../conversion.ts";
import type { UpstreamError } from "../dialect.ts";
import type { BlockStart, Ending, ReplyEvent, TokenLogprob } from "../reply.ts";
import { longTextsOf, writeJson } from "../json/long-texts.ts";
import { writeExtra } from "./extra-content.ts";
import { writeFinish } from "./finish-reasons.ts";
import { asksFunctionCall } from "./read-tools.ts";
import type { ExtraContent, FinishName } from "./wire.ts";
import { chatId, writeImage, writeTokens } from "./write-reply.ts";
import { createPlace, placeCitation, placeState, type Place } from "./write-place.ts";
import { writeUsage } from "./write-usage.ts";

/** One choice, while it is written. */
type ChoiceState = {
  index: number;
  place: Place;
  hasRole: boolean;
  hasRefusal: boolean;
  /** Whether the caller declared `functions`: its first call goes as the deprecated function_call. */
  isOld: boolean;
  block: BlockStart | undefined;
  hasInput: boolean;
  images: number;
  opaque: Opaque | undefined;
  aside: Aside;
};

/** What goes beside the content, in one delta: the official Node client keeps the last one of such fields only. */
type Aside = { annotations: object[]; thinking: object[]; citations: object[]; state: ExtraContent | undefined };

const emptyAside = (): Aside => ({ annotations: [], thinking: [], citations: [], state: undefined });

// Of what a stream may hold back.
const mostAside = 1_000;

/** What stands around the choices, the same in all chunks. Who asked for usage gets it null until the end. */
type Frame = { head: string; tail: string };

type Start = { id: string; createdAtSeconds?: number };

function createFrame({ id, createdAtSeconds }: Start, asked: CallerRequest): Frame {
  const head = JSON.stringify({
    id: chatId(id),
    object: "chat.completion.chunk",
    created: createdAtSeconds ?? Math.floor(Date.now() / 1000),
    model: asked.model,
    service_tier: null,
    system_fingerprint: null,
  });
  return { head: `data: ${head.slice(0, -1)}`, tail: asked.wantsStreamUsage ? `,"usage":null}\n\n` : "}\n\n" };
}

/** A chunk of one choice, with its delta as JSON. */
function chunk({ head, tail }: Frame, choice: number, delta: string, reason: FinishName | null = null): string {
  const finish = reason === null ? "null" : `"${reason}"`;
  return `${head},"choices":[{"index":${choice},"delta":${delta},"logprobs":null,"finish_reason":${finish}}]${tail}`;
}

/** A chunk of text with its tokens. */
function tokensChunk({ head, tail }: Frame, choice: number, text: string, tokens: readonly TokenLogprob[]): string {
  const chosen = { index: choice, delta: { content: text }, logprobs: writeTokens(tokens), finish_reason: null };
  return `${head},"choices":[${JSON.stringify(chosen)}]${tail}`;
}

/** The chunk that opens a choice; its content is null, as it stays without any, unless words come first. */
function writeRole(frame: Frame, choice: ChoiceState, kind: BlockStart["kind"]): string {
  if (choice.hasRole) return "";
  choice.hasRole = true;
  const content = kind === "text" || kind === "refusal" ? `""` : "null";
  return chunk(frame, choice.index, `{"role":"assistant","content":${content},"refusal":null}`);
}

const isOldCall = ({ isOld, place }: ChoiceState): boolean => isOld && place.calls === 0;

function writeBlockStart(frame: Frame, choice: ChoiceState, block: BlockStart): string {
  const { place } = choice;
  const role = writeRole(frame, choice, block.kind);
  choice.block = block;
  choice.hasInput = false;
  choice.opaque = undefined;
  place.textStart = place.content;
  place.thinkingStart = place.thinking;
  if (block.kind === "refusal") choice.hasRefusal = true;
  if (block.kind === "image") {
    const images = [writeImage(block, choice.images++)];
    return role + chunk(frame, choice.index, writeJson({ images }, longTextsOf(block.data)));
  }
  if (block.kind !== "call") return role;
  const { id, name } = block;
  if (isOldCall(choice)) {
    return role + chunk(frame, choice.index, JSON.stringify({ function_call: { name, arguments: "" } }));
  }
  const called = block.isFreeText
    ? { type: "custom", custom: { name, input: "" } }
    : { type: "function", function: { name, arguments: "" } };
  const delta = JSON.stringify({ tool_calls: [{ index: place.calls, id, ...called }] });
  return role + chunk(frame, choice.index, delta);
}

const isFreeTextCall = ({ block }: ChoiceState): boolean => block?.kind === "call" && block.isFreeText === true;

function writeInput(choice: ChoiceState, text: string): string {
  choice.hasInput = true;
  if (isOldCall(choice)) return `{"function_call":{"arguments":${JSON.stringify(text)}}}`;
  const input = isFreeTextCall(choice) ? `"custom":{"input":` : `"function":{"arguments":`;
  return `{"tool_calls":[{"index":${choice.place.calls},${input}${JSON.stringify(text)}}}]}`;
}

function writeText(frame: Frame, choice: ChoiceState, text: string, tokens: TokenLogprob[] | undefined): string {
  switch (choice.block?.kind) {
    case "text":
      choice.place.content += text.length;
      if (tokens) return tokensChunk(frame, choice.index, text, tokens);
      return chunk(frame, choice.index, `{"content":${JSON.stringify(text)}}`);
    case "thinking":
      choice.place.thinking += text.length;
      return chunk(frame, choice.index, `{"reasoning_content":${JSON.stringify(text)}}`);
    case "refusal":
      return chunk(frame, choice.index, `{"refusal":${JSON.stringify(text)}}`);
    case "call":
      return chunk(frame, choice.index, writeInput(choice, text));
    case "image":
    case undefined:
      return "";
  }
}

function writeAside(frame: Frame, choice: ChoiceState): string {
  const { annotations, thinking, citations, state } = choice.aside;
  choice.aside = emptyAside();
  const relay = {
    ...state?.relay,
    ...(thinking.length > 0 && { thinking }),
    ...(citations.length > 0 && { citations }),
  };
  const extra = { ...state, ...(Object.keys(relay).length > 0 && { relay }) };
  const delta = {
    ...(annotations.length > 0 && { annotations }),
    ...(Object.keys(extra).length > 0 && { extra_content: extra }),
  };
  return Object.keys(delta).length === 0 ? "" : chunk(frame, choice.index, JSON.stringify(delta));
}

function takeCitation(frame: Frame, choice: ChoiceState, citation: Citation): string {
  const { aside, place } = choice;
  const placed = placeCitation(place, citation);
  if ("annotation" in placed) aside.annotations.push({ index: place.annotations++, ...placed.annotation });
  else aside.citations.push(placed.document);
  return aside.annotations.length + aside.citations.length < mostAside ? "" : writeAside(frame, choice);
}

/** State of a call stands on it; any other is told behind the content. */
function writeState(frame: Frame, choice: ChoiceState, opaque: Opaque): string {
  const { block, place, aside } = choice;
  if (block?.kind === "call" && !isOldCall(choice)) {
    // openai-python's stream helper asserts that each entry has its function, the AI SDK's schema asks for it.
    const nothing = isFreeTextCall(choice) ? { custom: { input: "" } } : { function: { arguments: "" } };
    const entry = { index: place.calls, ...nothing, extra_content: writeExtra(opaque) };
    return chunk(frame, choice.index, JSON.stringify({ tool_calls: [entry] }));
  }
  if (block?.kind === "thinking") aside.thinking.push(placeState(place, opaque));
  else aside.state = { ...aside.state, ...writeExtra(opaque) };
  return "";
}

function writeBlockEnd(frame: Frame, choice: ChoiceState): string {
  const { block, opaque } = choice;
  // Clients parse the arguments as JSON: of none they would get no object.
  const isEmptyCall = block?.kind === "call" && !block.isFreeText && !choice.hasInput;
  const input = isEmptyCall ? chunk(frame, choice.index, writeInput(choice, "{}")) : "";
  const state = opaque ? writeState(frame, choice, opaque) : "";
  if (block?.kind === "call") choice.place.calls += 1;
  choice.block = undefined;
  return input + state;
}

function writeChoiceFinish(frame: Frame, choice: ChoiceState, { reason, explanation }: Ending): string {
  const role = writeRole(frame, choice, "text");
  const told = explanation !== undefined && !choice.hasRefusal;
  const refusal = told ? chunk(frame, choice.index, JSON.stringify({ refusal: explanation })) : "";
  const aside = writeAside(frame, choice);
  return (
    role + refusal + aside + chunk(frame, choice.index, "{}", writeFinish(reason, choice.hasRefusal, choice.isOld))
  );
}

function writeStreamError(error: UpstreamError): string {
  const { message, type = "api_error", code = "server_error", param = "" } = error;
  return `data: ${JSON.stringify({ error: { message, type, param, code } })}\n\n`;
}

type ChoiceEvent = Extract<ReplyEvent, { choice: number }>;

function writeChoice(frame: Frame, choice: ChoiceState, event: ChoiceEvent): string {
  switch (event.kind) {
    case "block-delta":
      return writeText(frame, choice, event.text, event.logprobs);
    case "block-start":
      return writeBlockStart(frame, choice, event.block);
    case "block-citation":
      return takeCitation(frame, choice, event.citation);
    case "block-opaque":
      choice.opaque = event.opaque;
      return "";
    case "block-end":
      return writeBlockEnd(frame, choice);
    case "choice-finish":
      return writeChoiceFinish(frame, choice, event);
  }
}

function createChoice(index: number, isOld: boolean): ChoiceState {
  return {
    index,
    place: createPlace(),
    hasRole: false,
    hasRefusal: false,
    isOld,
    block: undefined,
    hasInput: false,
    images: 0,
    opaque: undefined,
    aside: emptyAside(),
  };
}

/** Writes an answer as chunks; the one with the token counts only for who asked for it. */
export function createStreamWriter(asked: CallerRequest): StreamWriter {
  let frame: Frame | undefined;
  const choices: ChoiceState[] = [];
  const isOld = asksFunctionCall(asked.request ?? {});
  return {
    write: (event) => {
      if (event.kind === "error") return writeStreamError(event.error);
      if (event.kind === "start") {
        frame = createFrame(event, asked);
        return "";
      }
      frame ??= createFrame({ id: "" }, asked);
      if (event.kind !== "finish") {
        return writeChoice(frame, (choices[event.choice] ??= createChoice(event.choice, isOld)), event);
      }
      const usage = asked.wantsStreamUsage
        ? `${frame.head},"choices":[],"usage":${JSON.stringify(writeUsage(event.usage))}}\n\n`
        : "";
      return `${usage}data: [DONE]\n\n`;
    },
  };
}
