import {
  UnsupportedError,
  type CallPart,
  type Citation,
  type ImagePart,
  type Part,
  type TextPart,
  type ThinkingPart,
} from "../conversation.ts";
import { readSource } from "../data-url.ts";
import { isGiven, member, stringOf } from "../dialect.ts";
import { readExtra, readThinkingStates, type PlacedState } from "./extra-content.ts";
import { readContent, type ContentPart } from "./read-parts.ts";

function readCall(call: unknown, path: string): CallPart {
  const isFreeText = member(call, "type") === "custom";
  const kind = isFreeText ? "custom" : "function";
  const called = member(call, kind);
  const field = isFreeText ? "input" : "arguments";
  const input = stringOf(member(called, field) ?? "");
  const id = stringOf(member(call, "id"));
  const name = stringOf(member(called, "name"));
  if (id === undefined) throw new UnsupportedError(`field ${path}.id must be a string`);
  if (name === undefined) throw new UnsupportedError(`field ${path}.${kind}.name must be a string`);
  if (input === undefined) throw new UnsupportedError(`field ${path}.${kind}.${field} must be a string`);
  const opaque = readExtra(member(call, "extra_content"));
  return { kind: "call", id, name, input, ...(isFreeText && { isFreeText }), ...(opaque && { opaque }) };
}

/** Calls of a message. The deprecated function_call has no id: its place in the conversation makes one. */
function readCalls(message: unknown, path: string, at: number): CallPart[] {
  const calls = member(message, "tool_calls");
  if (isGiven(calls) && !Array.isArray(calls)) throw new UnsupportedError(`field ${path}.tool_calls must be an array`);
  if (Array.isArray(calls) && calls.length > 0) {
    return calls.map((call, index) => readCall(call, `${path}.tool_calls[${index}]`));
  }
  const old = member(message, "function_call");
  return isGiven(old) ? [readCall({ id: `call_${at}`, type: "function", function: old }, path)] : [];
}

function readCitation(annotation: unknown): Citation | undefined {
  const cited = member(annotation, "url_citation");
  const url = stringOf(member(cited, "url"));
  if (url === undefined) return undefined;
  const [title, start, end] = [member(cited, "title"), member(cited, "start_index"), member(cited, "end_index")];
  return {
    url,
    ...(typeof title === "string" && { title }),
    ...(typeof start === "number" && { start }),
    ...(typeof end === "number" && { end }),
  };
}

/** Citations of `annotations`: their places count characters of the content. */
export function readCitations(message: unknown): Citation[] {
  const annotations = member(message, "annotations");
  return Array.isArray(annotations) ? annotations.map(readCitation).filter((citation) => citation !== undefined) : [];
}

const thought = (text: string): ThinkingPart[] => (text === "" ? [] : [{ kind: "thinking", text }]);

/** Text between two places of the message's content. */
function cutText(texts: readonly ContentPart[], start: number, end: number): ContentPart[] {
  const [only] = texts;
  if (texts.length !== 1 || only?.kind !== "text") return start === 0 ? [...texts] : [];
  const text = only.text.slice(start, end);
  return text === "" ? [] : [{ ...only, text }];
}

/**
 * Puts blocks of thinking back to where they stood: issuers refuse state that comes in another order than they gave
 * it. Thinking without state goes before what it was beside.
 */
function interleave(thinking: string, states: PlacedState[], texts: ContentPart[], calls: CallPart[]): Part[] {
  const parts: Part[] = [];
  const canCut = texts.length === 1 && texts[0]?.kind === "text";
  let [thinkingAt, textAt, callsAt] = [0, 0, 0];
  for (const { start, length, content, calls: callCount, opaque } of states) {
    parts.push(...thought(thinking.slice(thinkingAt, start)));
    if (canCut && content > textAt) {
      parts.push(...cutText(texts, textAt, content));
      textAt = content;
    }
    if (callCount > callsAt) {
      parts.push(...calls.slice(callsAt, callCount));
      callsAt = callCount;
    }
    parts.push({ kind: "thinking", text: thinking.slice(start, start + length), opaque });
    thinkingAt = start + length;
  }
  parts.push(...thought(thinking.slice(thinkingAt)));
  return [...parts, ...cutText(texts, textAt, Infinity), ...calls.slice(callsAt)];
}

/** State and citations that chat keeps beside the message belong to its text; Gemini's, without text, to the call. */
function attach(message: unknown, parts: Part[], dropped: Set<string>): void {
  const texts = parts.filter((part): part is TextPart => part.kind === "text");
  const opaque = readExtra(member(message, "extra_content"));
  const owner = texts.at(-1) ?? parts.find((part) => part.kind === "call");
  if (opaque && owner) owner.opaque ??= opaque;
  const citations = readCitations(message);
  const [text] = texts;
  if (citations.length > 0 && texts.length === 1 && text) text.citations = citations;
  else if (isGiven(member(message, "annotations"))) dropped.add("messages.annotations");
  if (member(member(member(message, "extra_content"), "relay"), "citations")) dropped.add("messages.extra_content");
}

/** Pictures that the model made, where they stand in answers: behind the text. */
function readImages(message: unknown): ImagePart[] {
  const images = member(message, "images");
  if (!Array.isArray(images)) return [];
  return images.flatMap((image): ImagePart[] => {
    const url = stringOf(member(member(image, "image_url"), "url"));
    return url ? [{ kind: "image", source: readSource(url) }] : [];
  });
}

/** Reads an assistant's message: thinking that compatible servers gave, text, refusals and calls. */
export function readAssistant(message: unknown, at: number, dropped: Set<string>): Part[] {
  const path = `messages[${at}]`;
  if (isGiven(member(message, "audio"))) {
    throw new UnsupportedError(`field ${path}.audio cannot be used with this model`);
  }
  const texts = readContent(member(message, "content"), `${path}.content`, dropped);
  const refusal = stringOf(member(message, "refusal"));
  if (refusal) texts.push({ kind: "refusal", text: refusal });
  const thinking = stringOf(member(message, "reasoning_content")) ?? stringOf(member(message, "reasoning")) ?? "";
  const states = readThinkingStates(member(message, "extra_content"), thinking.length);
  const parts = interleave(thinking, states, texts, readCalls(message, path, at));
  attach(message, parts, dropped);
  return [...parts, ...readImages(message)];
}
