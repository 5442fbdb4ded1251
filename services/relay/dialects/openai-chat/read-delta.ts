import type { AnswerSink } from "../answer.ts";
import type { Opaque } from "../conversation.ts";
import { stableHash } from "../call-id.ts";
import { readSource } from "../data-url.ts";
import { deliverPicture, deliverSound } from "../delivered-media.ts";
import { estimateTokens, member, stringOf } from "../dialect.ts";
import { decodeFreeText, endFreeText, readToolName, type FreeTextDecoder } from "../free-text.ts";
import { readLogprobs } from "../openai-shared/logprobs.ts";
import type { BlockStart, TokenLogprob } from "../reply.ts";
import { readExtra } from "./extra-content.ts";
import { readFinish } from "./finish-reasons.ts";
import { readCitations } from "./read-assistant.ts";
import { addDetails, takeState, textOf, type Details } from "./reasoning-details.ts";

/** A tool call of an answer, by the id that the provider gave it ("" when it gave none). */
type CallState = { id: string; hasState: boolean; decoder: FreeTextDecoder | undefined };

/** One choice of an answer, while it comes. */
export type ChoiceState = {
  index: number;
  /** Id of the answer, of which calls without an id get one. */
  replyId: string;
  open: BlockStart["kind"] | undefined;
  openCall: CallState | undefined;
  calls: Map<number, CallState>;
  /** State that the next block to end takes along. */
  details: Details;
  callCount: number;
  /** Whether a delta has come: a message behind it says the same again. */
  hasDelta: boolean;
  hasRefusal: boolean;
  reason: string | undefined;
  /** Characters of `content` so far, and before the open text: annotations count from the first of them. */
  contentLength: number;
  textStart: number;
};

export function createChoice(index: number, replyId: string): ChoiceState {
  return {
    index,
    replyId,
    open: undefined,
    openCall: undefined,
    calls: new Map(),
    details: new Map(),
    callCount: 0,
    hasDelta: false,
    hasRefusal: false,
    reason: undefined,
    contentLength: 0,
    textStart: 0,
  };
}

function closeBlock(choice: ChoiceState, sink: AnswerSink): void {
  const rest = choice.openCall?.decoder && endFreeText(choice.openCall.decoder);
  if (rest) sink.show({ kind: "block-delta", choice: choice.index, text: rest });
  const hasPlace = choice.open !== undefined && choice.open !== "refusal" && !choice.openCall?.hasState;
  const opaque = hasPlace ? takeState(choice.details) : undefined;
  if (opaque) sink.show({ kind: "block-opaque", choice: choice.index, opaque });
  if (choice.open !== undefined) sink.show({ kind: "block-end", choice: choice.index });
  choice.open = undefined;
  choice.openCall = undefined;
}

function openText(choice: ChoiceState, kind: "text" | "refusal" | "thinking", sink: AnswerSink): void {
  if (choice.open === kind) return;
  closeBlock(choice, sink);
  choice.open = kind;
  if (kind === "text") choice.textStart = choice.contentLength;
  if (kind === "refusal") choice.hasRefusal = true;
  sink.show({ kind: "block-start", choice: choice.index, block: { kind } });
}

function addText(choice: ChoiceState, kind: "text" | "refusal" | "thinking", text: unknown, sink: AnswerSink): void {
  if (typeof text !== "string" || text === "") return;
  sink.content(estimateTokens(text));
  if (!sink.isShown) return;
  openText(choice, kind, sink);
  if (kind === "text") choice.contentLength += text.length;
  sink.show({ kind: "block-delta", choice: choice.index, text });
}

/** Adds text and its tokens; those that are part of a character may come without any text. */
function addTokens(choice: ChoiceState, text: unknown, logprobs: TokenLogprob[], sink: AnswerSink): void {
  if (typeof text !== "string" || (text === "" && choice.open !== "text")) return;
  if (text !== "") sink.content(estimateTokens(text));
  openText(choice, "text", sink);
  choice.contentLength += text.length;
  sink.show({ kind: "block-delta", choice: choice.index, text, logprobs });
}

/** Mistral's models give content as parts, thinking among them. */
function addParts(choice: ChoiceState, parts: unknown[], sink: AnswerSink): void {
  for (const part of parts) {
    const thoughts = member(part, "thinking");
    if (Array.isArray(thoughts)) {
      for (const thought of thoughts) addText(choice, "thinking", member(thought, "text"), sink);
    } else if (thoughts !== undefined) addText(choice, "thinking", thoughts, sink);
    else
      addText(
        choice,
        "text",
        typeof part === "string" ? part : (member(part, "text") ?? member(part, "content")),
        sink,
      );
  }
}

function addCitations(choice: ChoiceState, message: unknown, sink: AnswerSink): void {
  if (choice.open !== "text") return;
  for (const { start, end, ...source } of readCitations(message)) {
    const citation = {
      ...source,
      ...(start !== undefined && { start: Math.max(start - choice.textStart, 0) }),
      ...(end !== undefined && { end: Math.max(end - choice.textStart, 0) }),
    };
    sink.show({ kind: "block-citation", choice: choice.index, citation });
  }
}

/** The call that a fragment belongs to; undefined when it opens a new one. */
function findCall(choice: ChoiceState, index: number | undefined, id: string, hasName: boolean): CallState | undefined {
  if (index === undefined) {
    if (id === "") return hasName ? undefined : choice.openCall;
    return [...choice.calls.values()].find((call) => call.id === id);
  }
  const known = choice.calls.get(index);
  // Google's chat endpoint gives each of several calls the index 0.
  return known && hasName && id !== "" && id !== known.id ? undefined : known;
}

function openCall(choice: ChoiceState, fragment: unknown, index: number | undefined, sink: AnswerSink): CallState {
  closeBlock(choice, sink);
  const isCustom = Boolean(member(fragment, "custom"));
  const called = member(fragment, isCustom ? "custom" : "function");
  const given = stringOf(member(fragment, "id")) ?? "";
  const number = choice.callCount;
  // The same answer gives the same id, another answer another one.
  const id = given || `call_${stableHash(`${choice.replyId} ${choice.index} ${number}`)}`;
  const told = stringOf(member(called, "name")) ?? "";
  const { name, isFreeText = isCustom } = isCustom ? { name: told } : readToolName(told);
  const isWrapped = isFreeText && !isCustom;
  const decoder: FreeTextDecoder | undefined = isWrapped ? { pending: "", state: "before" } : undefined;
  const call: CallState = { id: given, hasState: false, decoder };
  choice.calls.set(index ?? number, call);
  choice.callCount += 1;
  choice.open = "call";
  choice.openCall = call;
  const block: BlockStart = { kind: "call", id, name, ...(isFreeText && { isFreeText }) };
  sink.show({ kind: "block-start", choice: choice.index, block });
  return call;
}

/** A call's input so far: JSON text, or an object from servers that parse it. */
function inputOf(called: unknown): string {
  const input = member(called, "arguments") ?? member(called, "input");
  if (typeof input === "string") return input;
  return typeof input === "object" && input !== null ? JSON.stringify(input) : "";
}

/** Adds a fragment of a call. False when it goes on with a call that has ended, which no block can say. */
function addCall(choice: ChoiceState, fragment: unknown, state: Opaque | undefined, sink: AnswerSink): boolean {
  const called = member(fragment, "function") ?? member(fragment, "custom");
  const name = stringOf(member(called, "name")) ?? "";
  const input = inputOf(called);
  sink.content(estimateTokens(name) + estimateTokens(input));
  if (!sink.isShown) return true;
  const given = member(fragment, "index");
  const index = typeof given === "number" && Number.isSafeInteger(given) ? given : undefined;
  const id = stringOf(member(fragment, "id")) ?? "";
  const found = findCall(choice, index, id, Boolean(member(called, "name")));
  const call = found ?? openCall(choice, fragment, index, sink);
  const opaque = call.hasState ? undefined : (readExtra(member(fragment, "extra_content")) ?? state);
  if (call !== choice.openCall) return input === "" && !opaque;
  const text = call.decoder ? decodeFreeText(call.decoder, input) : input;
  if (text !== "") sink.show({ kind: "block-delta", choice: choice.index, text });
  if (opaque) {
    call.hasState = true;
    sink.show({ kind: "block-opaque", choice: choice.index, opaque });
  }
  return true;
}

/** Adds calls; state that stands on the message belongs to the first of them. */
function addCalls(choice: ChoiceState, calls: unknown[], message: unknown, sink: AnswerSink): boolean {
  const state = readExtra(member(message, "extra_content"));
  let isInOrder = true;
  for (let at = 0; at < calls.length; at += 1) {
    if (!addCall(choice, calls[at], at === 0 ? state : undefined, sink)) isInOrder = false;
  }
  return isInOrder;
}

/** A picture that the model made, as servers of models that draw give it beside the content. */
function addImage(choice: ChoiceState, image: unknown, sink: AnswerSink): void {
  const told = member(image, "image_url") ?? image;
  const address = stringOf(told) ?? stringOf(member(told, "url"));
  if (!address && !member(told, "b64_json")) return;
  sink.content(0);
  deliverPicture(sink);
  const source = sink.isShown && address?.startsWith("data:") ? readSource(address) : undefined;
  if (source?.kind !== "base64") return;
  closeBlock(choice, sink);
  const { mediaType, data } = source;
  sink.show({ kind: "block-start", choice: choice.index, block: { kind: "image", mediaType, data } });
  sink.show({ kind: "block-end", choice: choice.index });
}

/** Sound has no place in other formats. */
function addAudio(audio: unknown, sink: AnswerSink): void {
  const transcript = stringOf(member(audio, "transcript")) ?? "";
  const data = stringOf(member(audio, "data"));
  if (transcript !== "" || data) sink.content(estimateTokens(transcript));
  if (data) deliverSound(sink, data);
}

/** State that comes without a call belongs to the text. */
function addState(choice: ChoiceState, extra: unknown, sink: AnswerSink): void {
  const opaque = choice.open === "text" ? readExtra(extra) : undefined;
  if (opaque) sink.show({ kind: "block-opaque", choice: choice.index, opaque });
}

// What servers were seen to call thinking beside the two names that most have.
const otherNames = ["thinking", "reasoning_text", "thought"] as const;

function otherThoughts(fields: Record<string, unknown>): string | undefined {
  for (const name of otherNames) if (typeof fields[name] === "string") return fields[name];
  return stringOf(member(fields["reasoning"], "content")) ?? stringOf(member(fields["reasoning"], "text"));
}

/**
 * Adds what a delta, or a whole message, carries, and the tokens of its content. False when a provider mixes the
 * fragments of its calls, which cannot be shown as blocks one after the other.
 */
export function readDelta(choice: ChoiceState, delta: unknown, logprobs: unknown, sink: AnswerSink): boolean {
  if (typeof delta !== "object" || delta === null) return true;
  const fields = delta as Record<string, unknown>;
  const { reasoning_content, reasoning, reasoning_details: details } = fields;
  // Compatible servers call their thinking one or the other; some give it under both names, one of which may be empty.
  const thoughts =
    stringOf(reasoning_content) ||
    stringOf(reasoning) ||
    (details ? textOf(details) : undefined) ||
    otherThoughts(fields);
  addText(choice, "thinking", thoughts, sink);
  if (details && sink.isShown) addDetails(choice.details, details);
  const { content } = fields;
  const tokens = logprobs && sink.isShown ? readLogprobs(member(logprobs, "content")) : undefined;
  if (typeof content === "object" && content !== null) addParts(choice, [content].flat(), sink);
  else if (tokens) addTokens(choice, content, tokens, sink);
  else addText(choice, "text", content, sink);
  if (fields["annotations"]) addCitations(choice, delta, sink);
  addText(choice, "refusal", fields["refusal"], sink);
  if (Array.isArray(fields["images"])) for (const image of fields["images"]) addImage(choice, image, sink);
  const { audio, function_call: old, tool_calls: calls } = fields;
  if (audio) addAudio(audio, sink);
  if (old) return addCall(choice, { index: -1, function: old }, undefined, sink);
  if (Array.isArray(calls) && calls.length > 0) return addCalls(choice, calls, delta, sink);
  if (fields["extra_content"]) addState(choice, fields["extra_content"], sink);
  return true;
}

/** The delta of a choice, or what some servers send in its place: the whole message, or a text. */
export function takeDelta(choice: ChoiceState, value: unknown): unknown {
  const delta = member(value, "delta") ?? undefined;
  if (delta === undefined && !choice.hasDelta) return member(value, "message") ?? { content: member(value, "text") };
  choice.hasDelta = true;
  return delta;
}

/** Ends a choice that has said why. */
export function finishChoice(choice: ChoiceState, sink: AnswerSink): void {
  closeBlock(choice, sink);
  const { index, reason = "stop", calls, hasRefusal } = choice;
  const held = { hasCalls: calls.size > 0, hasRefusal };
  sink.show({ kind: "choice-finish", choice: index, reason: readFinish(reason, held) });
}
