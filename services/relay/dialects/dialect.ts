import type { Units } from "#shared/pricing.ts";
import type { Scan } from "./json-scan.ts";

export type DialectName = "openai-chat" | "anthropic-messages";

/** A request body in one of the dialects, as far as the relay needs to know it. */
export type Envelope = {
  body: Buffer;
  scan: Scan;
  /** The model that the caller named. */
  model: string;
  isStream: boolean;
  /** Upper bound of output tokens that the caller set for one choice; undefined when there is none. */
  outputCap: number | undefined;
  /** How many answers the caller asked for. */
  choices: number;
  /** Whether the caller asked for the token counts of a stream (chat only; the other dialects always send them). */
  wantsStreamUsage: boolean;
};

/** What an answer has used so far, as the meter sees it pass. */
export type Tally = {
  /** The provider's count of the whole answer in disjoint buckets, once it was seen. */
  usage: Units | undefined;
  /** The provider's count of the input alone, for dialects that send it first. */
  inputUsage: Units | undefined;
  /** Content that passed, in estimated tokens (see estimateTokens). */
  contentTokens: number;
  /** Whether any content passed: text, reasoning, a refusal or a tool call. */
  hasContent: boolean;
  /** Whether the provider said why the answer ended (finish_reason, stop_reason). */
  hasFinish: boolean;
  /** Whether the answer's own end mark passed behind that. */
  isComplete: boolean;
  /** Whether the provider reported an error within the answer. */
  isFailed: boolean;
  /** The model that the provider says it ran. */
  modelServed: string | undefined;
};

export function emptyTally(): Tally {
  return {
    usage: undefined,
    inputUsage: undefined,
    contentTokens: 0,
    hasContent: false,
    hasFinish: false,
    isComplete: false,
    isFailed: false,
    modelServed: undefined,
  };
}

/** What to do with an event of a stream: let it pass, keep it from the caller, or end the answer before it. */
export type EventVerdict = "pass" | "drop" | "end";

/** Watches one stream: reads each event, keeps the tally. */
export type StreamTap = (event: Buffer, tally: Tally) => EventVerdict;

/** A refusal in the words of the API spec, ready to be written in a dialect. */
export type Refusal = {
  status: number;
  message: string;
  /** `error.type` of Format B. */
  type: string;
  /** `error.code` of Format A. */
  code: string;
  /** `error.type` of Format A where an upstream's own error passes; any other has the service's. */
  upstreamType?: string | undefined;
};

/** An upstream's error body, read. */
export type UpstreamError = { message: string; type: string | undefined; code: string | undefined };

/** A wire format: how its requests are read and prepared, its answers metered and its errors written. */
export type Dialect = {
  name: DialectName;
  path: string;
  /** Fields without which a request is refused, in the order in which they are named. */
  requiredFields: readonly string[];
  readEnvelope: (body: Buffer, scan: Scan, model: string) => Envelope;
  /** The body as the upstream shall get it. */
  prepareBody: (envelope: Envelope, upstreamModel: string) => Buffer;
  /** Headers that carry the credential and the version of the format. */
  upstreamHeaders: (credential: string, callerHeaders: Record<string, string | string[] | undefined>) => string[];
  /** Reads a whole answer into a tally; undefined when it is not an answer of this dialect. */
  readReply: (body: unknown) => Tally | undefined;
  createTap: (envelope: Envelope) => StreamTap;
  /** What still goes to the caller when a stream broke before its own end. */
  brokenStreamEnd: string;
  writeError: (refusal: Refusal) => string;
  readError: (body: unknown) => UpstreamError | undefined;
};

/** `value[key]` when `value` is an object, else undefined: reading what others wrote must not throw. */
export function member(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

/**
 * A count that a provider sent: a safe integer of at least 0; anything else counts as 0 (trap: null and NaN counts).
 */
export function countOf(value: unknown): bigint {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? BigInt(value) : 0n;
}

export function stringOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/**
 * Estimates the tokens of text that passed, where the provider's own count never came: four ASCII characters to a
 * token, one token to any other character. Charges that rest on it are flagged as estimated.
 */
export function estimateTokens(text: string): number {
  let others = 0;
  for (let at = 0; at < text.length; at += 1) if (text.charCodeAt(at) > 127) others += 1;
  return (text.length - others) / 4 + others;
}
