import { stableHash } from "../call-id.ts";
import type { StreamReader } from "../conversion.ts";
import { member, stringOf, type UpstreamError } from "../dialect.ts";
import type { FinishReason, ReplyEvent, ReplyUsage } from "../reply.ts";
import { endingOf, finishReasonOf, indexOfCandidate } from "./candidates.ts";
import { citationsOf } from "./citations.ts";
import { readError } from "./error.ts";
import { closeBlock, isAsciiText, readPart, type IdMaker, type Reading } from "./read-parts.ts";
import { blockReasonOf } from "./reply.ts";
import { readUsage } from "./usage.ts";

/** Ids for calls that have none: the same for the same answer, another one for each call of it. */
function createIdMaker(responseId: string): IdMaker {
  let count = 0;
  return (name, input) => {
    count += 1;
    return `call_${stableHash([responseId, count, name, input].join(" "))}`;
  };
}

type Answer = Reading & { ending: string | undefined };

type State = {
  answers: Map<number, Answer>;
  makeId: IdMaker | undefined;
  usage: ReplyUsage | undefined;
  isBlocked: boolean;
  isOver: boolean;
};

const brokenOff: UpstreamError = {
  message: "the answer ended before it was whole",
  type: undefined,
  code: undefined,
};

const answerFields = ["candidates", "promptFeedback", "usageMetadata", "responseId"];

function startOf(chunk: unknown): ReplyEvent {
  const createdAtMs = Date.parse(stringOf(member(chunk, "createTime")) ?? "");
  return {
    kind: "start",
    id: stringOf(member(chunk, "responseId")) ?? "",
    model: stringOf(member(chunk, "modelVersion")) ?? "",
    ...(Number.isFinite(createdAtMs) && { createdAtSeconds: Math.floor(createdAtMs / 1_000) }),
  };
}

function answerOf({ answers }: State, choice: number): Answer {
  const known = answers.get(choice);
  if (known) return known;
  const answer: Answer = {
    choice,
    events: [],
    open: undefined,
    isSigned: false,
    isAscii: true,
    hasCalls: false,
    citations: [],
    ending: undefined,
  };
  answers.set(choice, answer);
  return answer;
}

/** Takes citations that are new; providers may repeat them. They are read first, because a call may end the text. */
function readCitations(candidate: unknown, parts: readonly unknown[], answer: Answer): void {
  if (!member(candidate, "citationMetadata") && !member(candidate, "groundingMetadata")) return;
  const isAscii = answer.isAscii && parts.every((part) => isAsciiText(stringOf(member(part, "text")) ?? ""));
  for (const citation of citationsOf(candidate, isAscii)) {
    const { url, start, end } = citation;
    const isKnown = answer.citations.some((one) => one.url === url && one.start === start && one.end === end);
    if (!isKnown) answer.citations.push(citation);
  }
}

function readCandidate(candidate: unknown, answer: Answer, makeId: IdMaker): void {
  const content = member(member(candidate, "content"), "parts");
  const parts: unknown[] = Array.isArray(content) ? content : [];
  readCitations(candidate, parts, answer);
  for (const part of parts) readPart(part, answer, makeId);
  answer.ending = endingOf(candidate) ?? answer.ending;
}

function readChunk(chunk: unknown, state: State): ReplyEvent[] {
  if (!answerFields.some((name) => member(chunk, name) !== undefined)) return [];
  const events: ReplyEvent[] = state.makeId ? [] : [startOf(chunk)];
  const makeId = (state.makeId ??= createIdMaker(stringOf(member(chunk, "responseId")) ?? ""));
  state.usage = readUsage(member(chunk, "usageMetadata")) ?? state.usage;
  state.isBlocked ||= blockReasonOf(chunk) !== undefined;
  const candidates = member(chunk, "candidates");
  if (!Array.isArray(candidates)) return events;
  candidates.forEach((candidate, position) => {
    const index = indexOfCandidate(candidate, position);
    if (index === undefined) return;
    const answer = answerOf(state, index);
    answer.events = events;
    readCandidate(candidate, answer, makeId);
  });
  return events;
}

/** STOP may stand behind a call, or come alone after it, so a choice is finished only when all of it was seen. */
function reasonOf({ ending, hasCalls }: Answer, { isBlocked }: State): FinishReason | undefined {
  if (ending !== undefined) return finishReasonOf(ending, hasCalls);
  return isBlocked ? "refusal" : undefined;
}

function finish(state: State): ReplyEvent[] {
  if (state.answers.size === 0 && state.isBlocked) answerOf(state, 0);
  const answers = [...state.answers.values()];
  const events: ReplyEvent[] = [];
  for (const answer of answers) {
    const reason = reasonOf(answer, state);
    if (reason === undefined) return [{ kind: "error", error: brokenOff }];
    answer.events = events;
    closeBlock(answer);
    events.push({ kind: "choice-finish", choice: answer.choice, reason });
  }
  if (answers.length === 0) return [{ kind: "error", error: brokenOff }];
  return [...events, { kind: "finish", usage: state.usage }];
}

/**
 * Reads a stream of generateContent. It has no end mark, and a reason to end may come more than once, so the choices
 * and the answer are finished when the stream is over; before a reason was seen that is an error.
 */
export function createStreamReader(): StreamReader {
  const state: State = { answers: new Map(), makeId: undefined, usage: undefined, isBlocked: false, isOver: false };
  return {
    read: (data) => {
      if (state.isOver) return [];
      const error = readError(data) ?? (member(data, "error") ? brokenOff : undefined);
      if (!error) return readChunk(data, state);
      state.isOver = true;
      return [{ kind: "error", error }];
    },
    end: () => {
      if (state.isOver) return [];
      state.isOver = true;
      return finish(state);
    },
  };
}
