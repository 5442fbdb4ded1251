import type { AnswerSink, EventKind, ReadingContext, StreamReader } from "../answer.ts";
import { stableHash } from "../call-id.ts";
import { estimateTokens, member, stringOf, totalOf, type UpstreamError } from "../dialect.ts";
import type { FinishReason, ReplyPart } from "../reply.ts";
import { blockReasonOf, endingOf, finishReasonOf } from "./finish-reasons.ts";
import { citationsOf } from "./citations.ts";
import { readGoogleError } from "../google-error.ts";
import { closeBlock, isAsciiText, readPart, type IdMaker, type Reading } from "./read-parts.ts";
import { isPartial, readServiceTier, readUsage } from "./usage.ts";

// The provider allows 8; what a broken one sends beyond any dialect's limit is not read.
const maxCandidates = 128;

/** The number of an answer among several; undefined when it is none. Single answers may leave it out. */
function indexOfCandidate(candidate: unknown, position: number): number | undefined {
  const index = member(candidate, "index") ?? position;
  if (typeof index !== "number" || !Number.isInteger(index) || index < 0 || index >= maxCandidates) return undefined;
  return index;
}

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
  sink: AnswerSink;
  answers: Map<number, Answer>;
  makeId: IdMaker | undefined;
  /** The model that ran. */
  model: string;
  searches: bigint;
  isBlocked: boolean;
  isOver: boolean;
};

const brokenOff: UpstreamError = {
  message: "the answer ended before it was whole",
  type: undefined,
  code: undefined,
};

const answerFields = ["candidates", "promptFeedback", "usageMetadata", "responseId"];

function startOf(chunk: unknown): ReplyPart {
  const createdAtMs = Date.parse(stringOf(member(chunk, "createTime")) ?? "");
  return {
    kind: "start",
    id: stringOf(member(chunk, "responseId")) ?? "",
    model: stringOf(member(chunk, "modelVersion")) ?? "",
    ...(Number.isFinite(createdAtMs) && { createdAtSeconds: Math.floor(createdAtMs / 1_000) }),
  };
}

function answerOf({ answers, sink }: State, choice: number): Answer {
  const known = answers.get(choice);
  if (known) return known;
  const answer: Answer = {
    choice,
    sink,
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
  if (answer.sink.isShown) readCitations(candidate, parts, answer);
  for (const part of parts) readPart(part, answer, makeId);
  answer.ending = endingOf(candidate) ?? answer.ending;
}

// ai.google.dev/gemini-api/docs/google-search: models before Gemini 3 are billed by the prompt, later ones by the
// query.
const billedByPrompt = /gemini-[12]\b/;

/** Google's searches, as it bills them; of a stream the last word is the whole. */
function countSearches(candidates: readonly unknown[], state: State): void {
  let searches = 0n;
  for (const candidate of candidates) {
    const grounding = member(candidate, "groundingMetadata");
    if (!grounding) continue;
    const queries = member(grounding, "webSearchQueries");
    if (Array.isArray(queries)) searches += BigInt(queries.length);
    const chunks = member(grounding, "groundingChunks");
    // A prompt that is grounded in Google's maps is billed as one.
    if (Array.isArray(chunks) && chunks.some((chunk) => member(chunk, "maps"))) state.sink.counted("toolCalls", 1n);
  }
  if (searches > 0n && billedByPrompt.test(state.model)) searches = 1n;
  if (searches <= state.searches) return;
  state.searches = searches;
  state.sink.counted("webSearches", searches);
}

function readCandidates(candidates: readonly unknown[], state: State, makeId: IdMaker): void {
  countSearches(candidates, state);
  candidates.forEach((candidate, position) => {
    const index = indexOfCandidate(candidate, position);
    if (index !== undefined) readCandidate(candidate, answerOf(state, index), makeId);
    else state.sink.content(estimateTokens(JSON.stringify(candidate) ?? ""));
  });
}

/** Whether each candidate has said why it ended. */
function hasEnded({ answers, isBlocked }: State): boolean {
  if (isBlocked) return true;
  for (const { ending } of answers.values()) if (ending === undefined) return false;
  return answers.size > 0;
}

/** Counts are those of the answer so far. */
function readChunk(chunk: unknown, state: State): void {
  if (!answerFields.some((name) => member(chunk, name) !== undefined)) return;
  const { sink } = state;
  if (!state.makeId) sink.show(startOf(chunk));
  const makeId = (state.makeId ??= createIdMaker(stringOf(member(chunk, "responseId")) ?? ""));
  state.model ||= stringOf(member(chunk, "modelVersion")) ?? "";
  state.isBlocked ||= blockReasonOf(chunk) !== undefined;
  const candidates = member(chunk, "candidates");
  if (Array.isArray(candidates)) readCandidates(candidates, state, makeId);
  const isEnded = hasEnded(state);
  sink.ended(isEnded, isEnded);
  const usage = member(chunk, "usageMetadata");
  const units = readUsage(usage);
  const total = totalOf(usage, "totalTokenCount");
  if (units) sink.usage({ scope: "answer", units, total, isPartial: isPartial(usage) });
  sink.served(stringOf(member(chunk, "modelVersion")), readServiceTier(usage));
}

/** STOP may stand behind a call, or come alone after it, so a choice is finished only when all of it was seen. */
function reasonOf({ ending, hasCalls }: Answer, { isBlocked }: State): FinishReason | undefined {
  if (ending !== undefined) return finishReasonOf(ending, hasCalls);
  return isBlocked ? "refusal" : undefined;
}

function finish(state: State): void {
  const { sink } = state;
  state.isOver = true;
  if (state.answers.size === 0 && state.isBlocked) answerOf(state, 0);
  const answers = [...state.answers.values()];
  const endings = answers.map((answer) => ({ answer, reason: reasonOf(answer, state) }));
  if (endings.length === 0 || endings.some(({ reason }) => reason === undefined)) {
    return sink.unreadable(brokenOff.message);
  }
  for (const { answer, reason = "stop" } of endings) {
    closeBlock(answer);
    sink.show({ kind: "choice-finish", choice: answer.choice, reason });
  }
  sink.finish();
}

/**
 * Reads a stream of generateContent. It has no end mark, and a reason to end may come more than once, so the choices
 * and the answer are finished when the stream is over; before a reason was seen it is cut.
 */
export function createStreamReader(sink: AnswerSink, _context: ReadingContext): StreamReader {
  const state: State = {
    sink,
    answers: new Map(),
    makeId: undefined,
    model: "",
    searches: 0n,
    isBlocked: false,
    isOver: false,
  };
  const read = (chunk: unknown): EventKind => {
    if (member(Array.isArray(chunk) ? chunk[0] : chunk, "error")) {
      sink.error(readGoogleError(chunk) ?? brokenOff);
      return "error";
    }
    readChunk(chunk, state);
    return undefined;
  };
  const end = (): void => {
    if (!state.isOver) finish(state);
  };
  return { read: ({ json }) => read(json), end };
}
