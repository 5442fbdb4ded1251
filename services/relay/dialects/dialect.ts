import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import type { Quirk } from "./conversation.ts";
import type { MediaPlaces } from "./json/media-places.ts";
import type { RequestBody } from "./json/request-body.ts";
import type { MoreOutput } from "./more-output.ts";
import type { StreamEvent } from "./sse.ts";
import type { StateId, StatePlaces } from "./state-ids.ts";

import { RequestError } from "./request-error.ts";

export { RequestError };
export { estimateTokens } from "./token-weights.ts";

export const dialectNames = [
  "openai-chat",
  "openai-responses",
  "anthropic-messages",
  "openai-compact",
  "openai-embeddings",
  "openai-completions",
  "openai-images",
  "openai-image-edits",
  "openai-speech",
  "openai-moderations",
  "openai-transcriptions",
  "openai-translations",
  "openai-realtime",
] as const;

export type DialectName = (typeof dialectNames)[number];

/** Formats that upstreams may speak: those of callers, and some that no caller speaks. */
export const upstreamDialectNames = [...dialectNames, "gemini-generate"] as const;

export type UpstreamDialectName = (typeof upstreamDialectNames)[number];

/**
 * How an answer comes: a JSON body, a text body, server-sent events, or bytes that are passed on as they come.
 */
export type AnswerKind = "json" | "text" | "events" | "bytes";

/** A request body in one of the dialects, as far as the relay needs to know it. */
export type Envelope = {
  body: RequestBody;
  /** The model that the caller named. */
  model: string;
  /** Kind of answer that the caller asked for. */
  answer: AnswerKind;
  /** Upper bound of output tokens that the caller set for one choice; undefined when there is none. */
  outputCap: number | undefined;
  /** Whether it is set by the newer name of chat alone, which some upstreams do not know. */
  isNewCap?: boolean;
  /** What else makes the answer longer or dearer; left out: nothing. */
  more?: MoreOutput | undefined;
  /** Models that its provider may run instead of the one that was named; "" for what is no name. */
  fallbackModels?: readonly string[];
  /** How many texts it brings of which each may be as long as the model's context; left out: one. */
  texts?: number;
  /** How many answers of tokens the caller asked for; 0 where output is not counted in text tokens. */
  choices: number;
  /** How many answers are made, and charged, for each that is shown; left out: one. */
  triesPerChoice?: number;
  /** Units that the request itself settles or bounds: characters to speak, images to make. */
  units: Units;
  /** How long the sound that it brings lasts at least, whatever an answer tells of it. */
  leastMediaMs?: bigint;
  /** The format of the sound that the caller asked for, where it says. */
  soundFormat?: string;
  /** Fields by which a price may differ, such as the size of an image. */
  priceFields: Record<string, string>;
  /** Fields that the relay takes out although their provider knows them, for the caller to be told. */
  removed?: readonly string[];
  /** Ids of a provider's state that it names. */
  stateIds?: readonly StateId[];
  /** Whether the caller asked for the token counts of a stream (only Format A's older dialects leave the choice). */
  wantsStreamUsage: boolean;
};

/** Use that the provider says a model of this name had; it may be another model than the one that was asked. */
export type ModelPart = { model: string; usage: Units };

/** What an answer has used so far, as the meter sees it pass. */
export type Tally = {
  /** The provider's count of the whole answer in disjoint buckets, once it was seen. */
  usage: Units | undefined;
  /**
   * Content tokens that had passed when the provider, while the answer still ran, told a higher output than before:
   * with more content behind it `usage` is a lower bound. Undefined when it was told of the whole answer, -1 when a
   * part of it was not told.
   */
  runningAt: number | undefined;
  /** The provider's own total of all tokens, where it tells one: the buckets must add up to it. */
  toldTokens: bigint | undefined;
  /** The provider's count of the input alone, for dialects that send it first. */
  inputUsage: Units | undefined;
  /** Units that were counted from the answer, used where the provider tells none. */
  counted: Units;
  /** Content that passed, in estimated tokens (see estimateTokens). */
  contentTokens: number;
  /** Whether any content passed: text, reasoning, a refusal or a tool call. */
  hasContent: boolean;
  /** Whether the provider said why the answer ended (finish_reason, stop_reason). */
  hasFinish: boolean;
  /** Whether all that was asked for has ended in this way, so that only counts and the end mark are still to come. */
  isEnding: boolean;
  /** Whether the answer's own end mark passed behind that. */
  isComplete: boolean;
  /** Whether the provider reported an error within the answer. */
  isFailed: boolean;
  /** The model that the provider says it ran. */
  modelServed: string | undefined;
  /** The service tier that the provider says it served by: its price may be another. */
  serviceTier: string | undefined;
  /** Fields by which the price may differ, such as the size of an image, as the provider says it made the answer. */
  priceFields: Record<string, string> | undefined;
  /** Parts of `usage` that name the model which ran them. */
  byModel: ModelPart[] | undefined;
  /** The longest input that a model read at once, where an answer took several runs of it. */
  longestInputTokens: number | undefined;
  /** Counts of the provider that cannot be: what is possible stands in their place, or nothing does. */
  impossible: Units | undefined;
};

export function emptyTally(): Tally {
  return {
    usage: undefined,
    runningAt: undefined,
    toldTokens: undefined,
    inputUsage: undefined,
    counted: {},
    contentTokens: 0,
    hasContent: false,
    hasFinish: false,
    isEnding: false,
    isComplete: false,
    isFailed: false,
    modelServed: undefined,
    serviceTier: undefined,
    priceFields: undefined,
    byModel: undefined,
    longestInputTokens: undefined,
    impossible: undefined,
  };
}

/**
 * What to do with an event of a stream: let it pass, keep it from the caller, end the answer before it, or give other
 * bytes in its place.
 */
export type EventVerdict = "pass" | "drop" | "end" | Buffer;

/** Watches one stream. */
export type StreamTap = {
  /** Reads an event and keeps the tally. */
  read: (event: StreamEvent, tally: Tally) => EventVerdict;
  /** What still goes to the caller behind the last event. */
  end: (tally: Tally) => string;
  /**
   * Makes another that has seen nothing yet, to be tried. Given where no value of a text means anything but as content,
   * in events that have content at all: one that differs from an event before only in texts need not be read; see
   * TextLikeness.
   */
  createAlike?: () => StreamTap;
};

/** Takes out of an upstream's wording what callers must not see. */
export type Cleaner = (error: UpstreamError) => UpstreamError;

/** A refusal in the words of the API spec, ready to be written in a dialect. */
export type Refusal = {
  status: number;
  message: string;
  /** `error.type` of Format B and on /v1/videos. */
  type: string;
  /** `error.code` of Format A. */
  code: string;
  /** `error.type` of Format A where an upstream's own error passes; any other has the service's. */
  upstreamType?: string | undefined;
  /** `error.param` of Format A, where an upstream names a field. */
  param?: string | undefined;
  /** `error.details` of Format B. */
  details?: object | undefined;
};

/** An upstream's error body, read. */
export type UpstreamError = {
  message: string;
  type: string | undefined;
  code: string | undefined;
  /** The field at fault, where Format A's errors name one. */
  param?: string | undefined;
  /** What an error of Format B tells beside its words. */
  details?: object | undefined;
};

/** A wire format as upstreams speak it: where its requests go, and how its answers are metered. */
export type UpstreamDialect = {
  name: UpstreamDialectName;
  /** Path, query included, of a request for this model. */
  upstreamPath: (model: string, answer: AnswerKind) => string;
  /** Headers that carry the credential and the version of the format. */
  upstreamHeaders: (credential: string, callerHeaders: Record<string, string | string[] | undefined>) => string[];
  /** Reads a whole answer into a tally: its parsed JSON, or its text; undefined when it is none of this dialect. */
  readReply: (body: unknown, envelope: Envelope, quirks?: ReadonlySet<Quirk>) => Tally | undefined;
  createTap: (envelope: Envelope, clean: Cleaner, quirks?: ReadonlySet<Quirk>) => StreamTap;
  readError: (body: unknown) => UpstreamError | undefined;
};

/** A wire format: how its requests are read and prepared, its answers metered and its errors written. */
export type Dialect = UpstreamDialect & {
  name: DialectName;
  path: string;
  /** Which of the API spec's two formats its errors, keys and versions follow. */
  format: "A" | "B";
  /** Whether any model with prices for text can be called in it; other dialects a model must name. */
  isConversation: boolean;
  /** Sets of prices, any one of which a model needs to be called in this dialect. */
  measures: readonly (readonly UsageBucket[])[];
  /** Fields without which a request is refused, in the order in which they are named. */
  requiredFields: readonly string[];
  /** Those of them that must be arrays. */
  arrayFields: readonly string[];
  /** Where media may stand in a request; what stands elsewhere is text. */
  mediaPlaces: MediaPlaces;
  /** Where requests may name what the provider keeps under an id. */
  statePlaces?: StatePlaces;
  /** The ids of such state that an answer, or an event of one, gives the caller. */
  stateIdsOf?: (json: unknown) => string[];
  /** Whether requests are forms with files instead of JSON. */
  takesForm: boolean;
  /** Whether requests that are forms may be JSON as well. */
  takesJson?: true;
  /** The model of a request that names none, as its provider has it. */
  defaultModel?: string;
  /** Whether it is spoken on a WebSocket instead of by POST. */
  isOfSocket?: true;
  /** Reads a request whose required fields are there. Throws RequestError, or what reading a field throws. */
  readEnvelope: (body: RequestBody, model: string) => Envelope;
  /** The body as the upstream shall get it. */
  prepareBody: (envelope: Envelope, upstreamModel: string) => Buffer;
  /** The reply as the caller asked for it, where the upstream gave it another way; undefined: as it came. */
  rewriteReply?: (body: unknown, envelope: Envelope) => Buffer | undefined;
  writeError: (refusal: Refusal) => string;
};

/** How errors are written to a caller. */
export type ErrorWriter = Pick<Dialect, "format" | "writeError">;

/** `value[key]` when `value` is an object, else undefined: reading what others wrote must not throw. */
export function member(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

// How many counts were read that are none. Reading waits for nothing, so a reader's own are those since its beginning.
let brokenCounts = 0;

/**
 * A count that a provider sent: a safe integer of at least 0. Anything else counts as 0, and null and what is missing
 * say no more than that; a negative number, a fraction, one without end or a text is no count at all, see readCounts.
 */
export function countOf(value: unknown): bigint {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return BigInt(value);
  if (value !== undefined && value !== null) brokenCounts += 1;
  return 0n;
}

/** Stands for counts one of which is none: the others may be as wrong, so nothing was told. */
export const noCounts: Units = Object.freeze({});

/** Gives what `read` reads of a provider's counts, or `noCounts`. */
export function readCounts(read: (told: unknown) => Units | undefined, told: unknown): Units | undefined {
  const before = brokenCounts;
  const units = read(told);
  return brokenCounts === before ? units : noCounts;
}

export function stringOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** A provider's own total of tokens; undefined when it tells none. */
export function totalOf(usage: unknown, field: string): bigint | undefined {
  const total = countOf(member(usage, field));
  return total > 0n ? total : undefined;
}

/**
 * Fields of a request for text by which its price may differ; OpenAI's `fast` is another word for `priority`, by which
 * answers tell it. Throws RequestError for a tier that is no text.
 */
export function tierOf(serviceTier: unknown): Record<string, string> {
  if (serviceTier === undefined || serviceTier === null) return {};
  if (typeof serviceTier !== "string") throw new RequestError("field service_tier must be a string");
  return { service_tier: serviceTier === "fast" ? "priority" : serviceTier };
}

/** Whether a cleaner found nothing to take out, so that the very bytes may pass. */
export function isUntouched(error: UpstreamError, cleaned: UpstreamError): boolean {
  return (
    cleaned.message === error.message &&
    cleaned.type === error.type &&
    cleaned.code === error.code &&
    cleaned.param === error.param
  );
}

/**
 * A number of at least 1 that a caller gave, rounded up; undefined for anything else. Less than 1 is none, because
 * servers that cut it down to 0 make as much as they like.
 */
export function positive(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 1 ? Math.ceil(value) : undefined;
}

/** Whether a provider tells any count: an object without one is not 0 of all. */
export function tellsCounts(usage: unknown): usage is object {
  if (typeof usage !== "object" || usage === null) return false;
  return Object.values(usage).some((value) => value !== null && value !== undefined);
}

/** Whether a provider leaves out any of these counts; one of 0 is none that is left out. */
export const lacksAny = (usage: unknown, names: readonly string[]): boolean =>
  names.some((name) => (member(usage, name) ?? undefined) === undefined);

/** Adds units to others, bucket by bucket. */
export function addUnits(to: Units, more: Units): void {
  for (const name in more)
    to[name as UsageBucket] = (to[name as UsageBucket] ?? 0n) + (more[name as UsageBucket] ?? 0n);
}

/** All output of an answer, in tokens, whether or not the caller sees it. */
export const outputOf = (usage: Units | undefined): bigint => {
  const { outputTokens = 0n, reasoningTokens = 0n, audioOutputTokens = 0n, imageOutputTokens = 0n } = usage ?? {};
  return outputTokens + reasoningTokens + audioOutputTokens + imageOutputTokens;
};

/** What is left of `whole` without `part`; parts that exceed their whole leave 0, never a negative count. */
export function excess(whole: bigint, part: bigint): bigint {
  return whole > part ? whole - part : 0n;
}

/**
 * Takes parts out of their whole one after the other, none more than is left: providers have told parts that exceed
 * their whole, and nobody is charged for more than the whole. What is left stands under `rest`.
 */
export function takeParts<K extends string>(whole: bigint, parts: Record<K, bigint>): Record<K | "rest", bigint> {
  const taken = { ...parts } as Record<K | "rest", bigint>;
  let rest = whole;
  for (const name of Object.keys(parts) as K[]) {
    if (taken[name] > rest) taken[name] = rest;
    rest -= taken[name];
  }
  taken.rest = rest;
  return taken;
}

/** Whether a field says anything: null, "" and what is empty do not. */
export function isGiven(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}
