import type { AnswerSink } from "../answer.ts";
import type { Citation } from "../conversation.ts";
import { readSource } from "../data-url.ts";
import { deliverPicture, deliverSound } from "../delivered-media.ts";
import { estimateTokens, member, stringOf } from "../dialect.ts";
import { readLogprobs } from "../openai-shared/logprobs.ts";
import type { TokenLogprob } from "../reply.ts";
import { closeBlock, type ChoiceState } from "./choice-state.ts";
import { readExtra } from "./extra-content.ts";
import { readFinish } from "./finish-reasons.ts";
import { readCitations } from "./read-assistant.ts";
import { addCall, addCalls, endCalls } from "./read-calls.ts";
import { addDetails, textOf } from "./reasoning-details.ts";

function openText(choice: ChoiceState, kind: "text" | "refusal" | "thinking", sink: AnswerSink): void {
  if (choice.open === kind) return;
  endCalls(choice, sink);
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
    choice.isCited = true;
    sink.show({ kind: "block-citation", choice: choice.index, citation });
  }
}

/** Pages that were found for the answer, as citations of its last text, where no other say where they are cited. */
function addSources(choice: ChoiceState, sources: readonly Citation[], sink: AnswerSink): void {
  if (choice.open !== "text" || choice.isCited) return;
  for (const citation of sources) sink.show({ kind: "block-citation", choice: choice.index, citation });
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
  endCalls(choice, sink);
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
  // What a tool of the provider gave back (Mistral); its model's words follow.
  if (fields["role"] === "tool") return true;
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
export function finishChoice(choice: ChoiceState, sources: readonly Citation[] | undefined, sink: AnswerSink): void {
  if (sources) addSources(choice, sources, sink);
  endCalls(choice, sink, true);
  closeBlock(choice, sink);
  const { index, reason = "stop", calls, hasRefusal } = choice;
  const held = { hasCalls: calls.size > 0, hasRefusal };
  sink.show({ kind: "choice-finish", choice: index, reason: readFinish(reason, held) });
}
