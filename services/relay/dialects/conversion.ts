import type { AnswerFormat } from "./answer.ts";
import type { Conversation, Loss, Target, WebSearch } from "./conversation.ts";
import type { Envelope, Tally } from "./dialect.ts";
import type { Reply, ReplyEvent } from "./reply.ts";

/** Fields of a caller's request that could not be carried, by the caller's own names, such as `logit_bias`. */
export type ReadRequest = { conversation: Conversation; dropped: Set<string> };

/** A request body for a provider, and what it could not say. */
export type WrittenRequest = { body: Record<string, unknown>; losses: Set<Loss> };

/** Writes one stream for a caller: server-sent events as text, "" when there is nothing to say yet. */
export type StreamWriter = { write: (event: ReplyEvent) => string };

/** What a caller's side of a stream must know of its request. */
export type CallerRequest = {
  model: string;
  wantsStreamUsage: boolean;
  /** The request's body, for formats whose answers repeat its settings. */
  request?: Record<string, unknown>;
  /** Takes each item of a response that is finished. */
  remember?: ((item: unknown) => void) | undefined;
  /** Estimate of the input, for formats that tell it before the provider does. */
  inputTokens?: number;
};

/** How requests of a dialect that callers speak are parsed, and how answers are written. */
export type ClientConversion = {
  /** Throws UnsupportedError for what no other dialect can carry, such as server tools or files by id. */
  readRequest: (body: Record<string, unknown>) => ReadRequest;
  /** Names of this dialect's fields for what a writer left out. */
  lossNames: Record<Loss, string>;
  writeReply: (reply: Reply, asked: CallerRequest) => Record<string, unknown>;
  createStreamWriter: (asked: CallerRequest) => StreamWriter;
  /** What still goes to the caller when the connection to the upstream broke. */
  cutEnd: string;
};

/** How requests of a dialect that providers speak are written, and how answers are read. */
export type ProviderConversion = {
  /** Throws UnsupportedError for what the provider cannot be asked at all. */
  writeRequest: (conversation: Conversation, target: Target) => WrittenRequest;
  /** The same request with a search of the web; undefined where the provider cannot be asked for it. */
  addSearch?: (body: Record<string, unknown>, search: WebSearch) => Record<string, unknown> | undefined;
  answers: AnswerFormat;
  /** Whether pictures and files that are named by address must be fetched for it. */
  readsNoAddresses?: true;
};

/** How a request of another kind than a conversation is put to a provider of another dialect, and answered whole. */
export type SingleConversion = {
  /** The request with its path. Throws UnsupportedError for what the provider cannot be asked at all. */
  writeRequest: (
    request: Record<string, unknown>,
    upstreamModel: string,
  ) => { path: string; body: Record<string, unknown>; dropped: Set<string> };
  /** What is charged; undefined when the body is no answer of the provider's dialect. */
  readReply: (answer: unknown, envelope: Envelope) => Tally | undefined;
  /** The answer as the caller asked for it; undefined when nothing of that is in it. */
  writeReply: (
    answer: unknown,
    request: Record<string, unknown>,
    envelope: Envelope,
  ) => { body: Buffer; contentType: string } | undefined;
  /** What the caller is told of an answer by which the provider refuses the request; undefined for any other. */
  refusalOf: (answer: unknown) => string | undefined;
};
