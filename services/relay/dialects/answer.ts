import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import type { Quirk } from "./conversation.ts";
import type { Cleaner, Envelope, EventVerdict, ModelPart, Tally, UpstreamError } from "./dialect.ts";
import type { ReplyPart } from "./reply.ts";
import type { StreamEvent } from "./sse.ts";

/** Content that is no text. */
export type DeliveredBucket = "audioOutputTokens" | "imageOutputTokens";

/** Token counts that a provider tells. */
export type ToldUsage = {
  /** Whether they are of the whole answer so far, or of its input alone. */
  scope: "answer" | "input";
  /** `noCounts` where one of them is none. */
  units: Units;
  /** The provider's own total of all tokens. */
  total?: bigint | undefined;
  /** Whether no later ones can come; others hold for what has passed by then. */
  isLast?: boolean;
  /** Whether the input or the output is not among them: 0 there is no count, but a lower bound. */
  isPartial?: boolean;
  /** Parts of them that name the model which ran them. */
  byModel?: ModelPart[] | undefined;
  /** The longest input that a model read at once, where an answer took several runs of it. */
  longestInputTokens?: number | undefined;
};

/**
 * Takes what a reader finds in an answer, in the answer's own order: what is charged and what is shown come of the same
 * reading. Methods instead of event objects, because nothing is made of most events of a stream that passes untouched.
 */
export type AnswerSink = {
  /** Whether parts are shown in another format. Where they are not, readers leave out what only that needs. */
  readonly isShown: boolean;
  /** Content that passes, in estimated tokens, also what no other format can carry. */
  content: (tokens: number) => void;
  /** A part for callers of another format; its content is told by `content`. */
  show: (part: ReplyPart) => void;
  usage: (told: ToldUsage) => void;
  /** Units that were counted from the answer so far. */
  counted: (bucket: UsageBucket, units: bigint) => void;
  /** Sound or pictures that passed, in estimated tokens; counts of the provider that come later tell of them, too. */
  delivered: (bucket: DeliveredBucket, tokens: number) => void;
  /** A field by which the price may differ, in the provider's own word for what it made. */
  priceField: (name: string, value: string) => void;
  /** The model that ran and the tier by which it was served, as far as they are told here. */
  served: (model: string | undefined, serviceTier?: string) => void;
  /** Whether the provider has said why the answer ended, and whether of all that was asked for. */
  ended: (hasFinish: boolean, isEnding: boolean) => void;
  /** The answer's own end mark. */
  markEnd: () => void;
  /** All parts were shown. */
  finish: () => void;
  /** The provider reports an error. */
  error: (error: UpstreamError) => void;
  /** The answer breaks its own format, so that it cannot be shown in another one. */
  unreadable: (reason: string) => void;
};

/** What an event of a stream is, where that decides whether it passes: nothing but counts, or an error. */
export type EventKind = "counts" | "error" | undefined;

/** Reads one stream of a provider: pure state, no IO. */
export type StreamReader = {
  read: (event: StreamEvent) => EventKind;
  /** Tells what is still to be told when the stream is over. */
  end: () => void;
};

/** What reading needs to know of the request. */
export type ReadingContext = { envelope: Envelope; quirks?: ReadonlySet<Quirk> | undefined };

/** What happens to the events of a stream that passes untouched, where it is anything but passing. */
export type PassPolicy = {
  /** Sees each event before it is decided. */
  note?: (event: StreamEvent) => void;
  onCounts?: EventVerdict;
  onError: (event: StreamEvent, error: UpstreamError) => EventVerdict;
  /** What still goes to the caller behind the last event. */
  end?: (tally: Tally) => string;
};

/** How answers of a dialect are read: the only place that knows their fields. */
export type AnswerFormat = {
  createStreamReader: (sink: AnswerSink, context: ReadingContext) => StreamReader;
  /** Reads a whole answer: its parsed JSON, or its text; false when it is none of this dialect. */
  readReply: (body: unknown, sink: AnswerSink, context: ReadingContext) => boolean;
  createPassing: (envelope: Envelope, clean: Cleaner) => PassPolicy;
  /** Whether no text means anything but as content, in events that have content at all; see TextLikeness. */
  isTextPlain?: true;
  /** Whether an error ends the stream also for callers of another format. */
  isOverAtError?: true;
};

/** Tells an error whose words the upstream kept to itself. */
export const namelessError: UpstreamError = { message: "", type: undefined, code: undefined };
