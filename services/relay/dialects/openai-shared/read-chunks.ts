import {
  namelessError,
  type AnswerSink,
  type EventKind,
  type PassPolicy,
  type ReadingContext,
  type StreamReader,
} from "../answer.ts";
import { estimateTokens, member, stringOf, tellsCounts, type Cleaner, type Envelope } from "../dialect.ts";
import type { StreamEvent } from "../sse.ts";
import { isError, passErrors, readError } from "./error.ts";
import { countingOf, isPartial, readToldUsage, readTotal, type CountingRule } from "./usage.ts";

// What OpenAI gives at most; a number beyond it is no choice of an answer.
const maxChoices = 128;

/** What a dialect's chunks hold beside what all chunks have in common. */
export type ChunkContent = {
  /** Sees each chunk before its choices are read. */
  begin?: (chunk: unknown, hasChoices: boolean) => void;
  /** `reason`: why the choice has ended, if it has. */
  readChoice: (choice: unknown, index: number, reason: string | undefined) => void;
  /** Tells the end, when the end mark came or the stream is over. */
  finish: () => void;
};

type Reading = ChunkContent & {
  sink: AnswerSink;
  counting: CountingRule;
  wanted: number;
  ended: Set<number>;
  serviceTier: string | undefined;
  hasFailed: boolean;
  isOver: boolean;
};

function readChoices(reading: Reading, choices: readonly unknown[]): void {
  const { sink, ended, wanted } = reading;
  for (let at = 0; at < choices.length; at += 1) {
    const choice = choices[at];
    const given = member(choice, "index");
    const index = typeof given === "number" && Number.isSafeInteger(given) ? given : at;
    if (index < 0 || index >= maxChoices) {
      sink.content(estimateTokens(JSON.stringify(choice)));
      continue;
    }
    // Some servers send "" for "not yet".
    const reason = stringOf(member(choice, "finish_reason")) || undefined;
    reading.readChoice(choice, index, reason);
    if (reason === undefined) continue;
    ended.add(index);
    sink.ended(true, ended.size >= wanted);
  }
}

/** Groq tells its counts under a name of its own too, Moonshot within the choice that ends. */
function usageOf(chunk: unknown): unknown {
  const usage = member(chunk, "usage");
  if (usage !== undefined && usage !== null) return usage;
  const choices = member(chunk, "choices");
  return member(member(chunk, "x_groq"), "usage") ?? member(Array.isArray(choices) ? choices[0] : undefined, "usage");
}

function readChunk(reading: Reading, chunk: unknown): EventKind {
  const { sink } = reading;
  const choices = member(chunk, "choices");
  const hasChoices = Array.isArray(choices) && choices.length > 0;
  reading.begin?.(chunk, hasChoices);
  if (hasChoices) readChoices(reading, choices);
  const usage = usageOf(chunk);
  const units = readToldUsage(usage, reading.counting);
  if (units) sink.usage({ scope: "answer", units, total: readTotal(usage), isPartial: isPartial(usage) });
  // Perplexity's fee for a request.
  const contextSize = stringOf(member(usage, "search_context_size"));
  if (contextSize) sink.priceField("search_context_size", contextSize);
  // Mistral tells it with its counts.
  const told = stringOf(member(chunk, "service_tier")) ?? stringOf(member(usage, "service_tier"));
  const tier = reading.serviceTier ? undefined : told;
  reading.serviceTier ||= tier;
  sink.served(stringOf(member(chunk, "model")), tier);
  return units ? kindOf(chunk) : undefined;
}

/** The chunk of the counts has an empty list of choices (trap 9), or none at all. */
function kindOf(chunk: unknown): EventKind {
  const choices = member(chunk, "choices");
  const hasChoices = Array.isArray(choices) && choices.length > 0;
  return !hasChoices && tellsCounts(member(chunk, "usage")) ? "counts" : undefined;
}

/**
 * Reads a stream of chunks with choices, as chat and the older completions send them. Usage may come behind
 * finish_reason (trap 8), so that the answer ends at `[DONE]`; behind that nothing is read.
 */
export function createChunkReader(
  sink: AnswerSink,
  { envelope, quirks }: ReadingContext,
  content: ChunkContent,
): StreamReader {
  const reading: Reading = {
    ...content,
    sink,
    counting: countingOf(quirks),
    wanted: envelope.choices,
    ended: new Set(),
    serviceTier: undefined,
    hasFailed: false,
    isOver: false,
  };
  const read = ({ data, json }: StreamEvent): EventKind => {
    if (isError(json)) {
      reading.hasFailed = true;
      // What was used up to it, OpenRouter tells with it.
      const units = readToldUsage(usageOf(json), reading.counting);
      if (units) sink.usage({ scope: "answer", units, isPartial: isPartial(usageOf(json)) });
      sink.error(readError(json) ?? namelessError);
      return "error";
    }
    if (data === undefined) return undefined;
    if (reading.isOver) return kindOf(json);
    if (data.startsWith("[DONE]")) {
      reading.isOver = reading.ended.size > 0 && !reading.hasFailed;
      sink.markEnd();
      content.finish();
      return undefined;
    }
    return readChunk(reading, json);
  };
  const end = (): void => {
    if (reading.isOver) return;
    reading.isOver = true;
    content.finish();
  };
  return { read, end };
}

/** The usage chunk, which the relay asked for itself, is kept from a caller who did not ask for it. */
export function createChunkPassing({ wantsStreamUsage }: Envelope, clean: Cleaner): PassPolicy {
  let isMarked = false;
  return {
    note: ({ data }) => {
      isMarked ||= data?.startsWith("[DONE]") ?? false;
    },
    onCounts: wantsStreamUsage ? "pass" : "drop",
    ...passErrors(clean),
    // API spec, Streaming that stops partway: a cut chat stream ends with [DONE] and no finish_reason.
    end: ({ isFailed }) => (isMarked || isFailed ? "" : "data: [DONE]\n\n"),
  };
}
