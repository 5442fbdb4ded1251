import type { AnswerSink } from "../answer.ts";
import type { Opaque } from "../conversation.ts";
import { endFreeText, type FreeTextDecoder } from "../free-text.ts";
import type { BlockStart } from "../reply.ts";
import { takeState, type Details } from "./reasoning-details.ts";

/** How far the JSON of a call's input has come. */
export type InputProgress = { depth: number; isInText: boolean; isEscaped: boolean; isWhole: boolean };

/** A tool call of an answer. */
export type CallState = {
  /** As the provider gave it, "" when it gave none. */
  id: string;
  /** Its place among the calls of the answer. */
  number: number;
  name: string;
  isCustom: boolean;
  /** `waiting`: for its name, or for the call before it to end. */
  stage: "waiting" | "open" | "ended";
  /** What has come of its input and its state while it waits. */
  held: string;
  heldState: Opaque | undefined;
  progress: InputProgress;
  hasState: boolean;
  decoder: FreeTextDecoder | undefined;
};

/** One choice of an answer, while it comes. */
export type ChoiceState = {
  index: number;
  /** Id of the answer, of which calls without an id get one. */
  replyId: string;
  open: BlockStart["kind"] | undefined;
  openCall: CallState | undefined;
  calls: Map<number, CallState>;
  /** Calls whose blocks have not begun, in their order. */
  waiting: CallState[];
  heldCharacters: number;
  /** The call that a fragment came of last. */
  lastCall: CallState | undefined;
  /** State that the next block to end takes along. */
  details: Details;
  callCount: number;
  /** Whether a delta has come: a message behind it says the same again. */
  hasDelta: boolean;
  hasRefusal: boolean;
  /** Whether any of its text has a citation. */
  isCited: boolean;
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
    waiting: [],
    heldCharacters: 0,
    lastCall: undefined,
    details: new Map(),
    callCount: 0,
    hasDelta: false,
    hasRefusal: false,
    isCited: false,
    reason: undefined,
    contentLength: 0,
    textStart: 0,
  };
}

export function closeBlock(choice: ChoiceState, sink: AnswerSink): void {
  const { openCall } = choice;
  const rest = openCall?.decoder && endFreeText(openCall.decoder);
  if (rest) sink.show({ kind: "block-delta", choice: choice.index, text: rest });
  const hasPlace = choice.open !== undefined && choice.open !== "refusal" && !openCall?.hasState;
  const opaque = hasPlace ? takeState(choice.details) : undefined;
  if (opaque) sink.show({ kind: "block-opaque", choice: choice.index, opaque });
  if (choice.open !== undefined) sink.show({ kind: "block-end", choice: choice.index });
  if (openCall) openCall.stage = "ended";
  choice.open = undefined;
  choice.openCall = undefined;
}
