import type { AnswerSink } from "../answer.ts";
import type { Opaque } from "../conversation.ts";
import { stableHash } from "../call-id.ts";
import { estimateTokens, member, stringOf } from "../dialect.ts";
import { decodeFreeText, readToolName, type FreeTextDecoder } from "../free-text.ts";
import { callInput } from "../openai-shared/parts.ts";
import type { BlockStart } from "../reply.ts";
import { closeBlock, type CallState, type ChoiceState, type InputProgress } from "./choice-state.ts";
import { readExtra } from "./extra-content.ts";

// More than the inputs of any calls that a server mixes; beyond it none waits any more.
const mostHeldCharacters = 1_048_576;
// What a call counts for beside its input.
const callCharacters = 64;

const [quote, backslash, openBrace, closeBrace, openBracket, closeBracket] = Buffer.from('"\\{}[]');

/** Goes on through the JSON of an input, which is whole where its outermost object ends. */
function follow(progress: InputProgress, text: string): void {
  for (let at = 0; at < text.length && !progress.isWhole; at += 1) {
    const code = text.charCodeAt(at);
    if (progress.isEscaped) progress.isEscaped = false;
    else if (progress.isInText) {
      progress.isEscaped = code === backslash;
      progress.isInText = code !== quote;
    } else if (code === quote) progress.isInText = true;
    else if (code === openBrace || code === openBracket) progress.depth += 1;
    else if (code === closeBrace || code === closeBracket) {
      progress.depth -= 1;
      progress.isWhole = progress.depth <= 0;
    }
  }
}

/** The call that a fragment belongs to; undefined for one that is new. */
function findCall(choice: ChoiceState, index: number | undefined, id: string, hasName: boolean): CallState | undefined {
  if (index === undefined) {
    if (id === "") return hasName && choice.lastCall?.name !== "" ? undefined : choice.lastCall;
    return [...choice.calls.values()].find((call) => call.id === id);
  }
  const known = choice.calls.get(index);
  // Google's chat endpoint gives each of several calls the index 0.
  const isOther = known && known.name !== "" && hasName && id !== "" && id !== known.id;
  return isOther ? undefined : known;
}

function beginCall(choice: ChoiceState, index: number | undefined): CallState {
  const number = choice.callCount;
  const call: CallState = {
    id: "",
    number,
    name: "",
    isCustom: false,
    stage: "waiting",
    held: "",
    heldState: undefined,
    progress: { depth: 0, isInText: false, isEscaped: false, isWhole: false },
    hasState: false,
    decoder: undefined,
  };
  choice.calls.set(index ?? number, call);
  choice.waiting.push(call);
  choice.heldCharacters += callCharacters;
  choice.callCount += 1;
  return call;
}

/** Shows more of the open call. */
function showInput(choice: ChoiceState, input: string, opaque: Opaque | undefined, sink: AnswerSink): void {
  const { openCall: call } = choice;
  const text = call?.decoder ? decodeFreeText(call.decoder, input) : input;
  if (text !== "") sink.show({ kind: "block-delta", choice: choice.index, text });
  if (!call || !opaque) return;
  call.hasState = true;
  sink.show({ kind: "block-opaque", choice: choice.index, opaque });
}

function openCall(choice: ChoiceState, call: CallState, sink: AnswerSink): void {
  closeBlock(choice, sink);
  // The same answer gives the same id, another answer another one.
  const id = call.id || `call_${stableHash(`${choice.replyId} ${choice.index} ${call.number}`)}`;
  const { isCustom } = call;
  const { name, isFreeText = isCustom } = isCustom ? { name: call.name } : readToolName(call.name);
  const isWrapped = isFreeText && !isCustom;
  const decoder: FreeTextDecoder | undefined = isWrapped ? { pending: "", state: "before" } : undefined;
  call.decoder = decoder;
  call.stage = "open";
  choice.open = "call";
  choice.openCall = call;
  const block: BlockStart = { kind: "call", id, name, ...(isFreeText && { isFreeText }) };
  sink.show({ kind: "block-start", choice: choice.index, block });
  const { held, heldState } = call;
  choice.heldCharacters -= held.length + callCharacters;
  call.held = "";
  call.heldState = undefined;
  showInput(choice, held, heldState, sink);
}

/** Whether no more is known to come of the open call. Free text tells no end: the next call does. */
const isOver = ({ openCall: open }: ChoiceState): boolean => !open || open.isCustom || open.progress.isWhole;

/** Opens the calls that wait, in their order, as far as it is their turn. */
function openNext(choice: ChoiceState, sink: AnswerSink): void {
  for (let [next] = choice.waiting; next && next.name !== "" && isOver(choice); [next] = choice.waiting) {
    choice.waiting.shift();
    openCall(choice, next, sink);
  }
}

/** Shows the calls that wait, before something else begins, but for those whose names may still come. */
export function endCalls(choice: ChoiceState, sink: AnswerSink, isLast = false): void {
  for (let [next] = choice.waiting; next && (isLast || next.name !== ""); [next] = choice.waiting) {
    choice.waiting.shift();
    openCall(choice, next, sink);
  }
}

/**
 * Adds a fragment of a call. Servers may name a call behind its id (https://github.com/vercel/ai/issues/14722), and may
 * mix the fragments of several calls by their index, while blocks come one after the other: a call waits until it has
 * its name and the one before it is whole. False when the fragment goes on with a call that has ended.
 */
export function addCall(choice: ChoiceState, fragment: unknown, state: Opaque | undefined, sink: AnswerSink): boolean {
  const called = member(fragment, "function") ?? member(fragment, "custom");
  const name = stringOf(member(called, "name")) ?? "";
  const input = callInput(member(called, "arguments") ?? member(called, "input"));
  sink.content(estimateTokens(name) + estimateTokens(input));
  if (!sink.isShown) return true;
  const given = member(fragment, "index");
  const index = typeof given === "number" && Number.isSafeInteger(given) ? given : undefined;
  const id = stringOf(member(fragment, "id")) ?? "";
  const call = findCall(choice, index, id, name !== "") ?? beginCall(choice, index);
  choice.lastCall = call;
  const hasState = call.hasState || call.heldState !== undefined;
  const opaque = hasState ? undefined : (readExtra(member(fragment, "extra_content")) ?? state);
  if (call.stage === "ended") return input === "" && !opaque;
  follow(call.progress, input);
  if (call.stage === "open") showInput(choice, input, opaque, sink);
  else {
    call.id ||= id;
    call.name ||= name;
    call.isCustom ||= Boolean(member(fragment, "custom"));
    call.held += input;
    call.heldState ??= opaque;
    choice.heldCharacters += input.length;
  }
  openNext(choice, sink);
  if (choice.heldCharacters > mostHeldCharacters) endCalls(choice, sink, true);
  return true;
}

/** Adds calls; state that stands on the message belongs to the first of them. */
export function addCalls(choice: ChoiceState, calls: unknown[], message: unknown, sink: AnswerSink): boolean {
  const state = readExtra(member(message, "extra_content"));
  let isInOrder = true;
  for (let at = 0; at < calls.length; at += 1) {
    if (!addCall(choice, calls[at], at === 0 ? state : undefined, sink)) isInOrder = false;
  }
  return isInOrder;
}
