import { randomBytes } from "node:crypto";
import type { Behaviour, Fault, Framing } from "./behaviour.ts";
import { countWords } from "./prompt.ts";
import type { FakeRequest } from "./request.ts";

/** A piece of a streamed text with its tokens. */
export type Piece = { text: string; tokens: number };

export type AnswerTool = { name: string; arguments: Record<string, unknown>; json: string; tokens: number };

/** Counts that an answer claims, in the disjoint buckets of usage.v1. */
export type Claim = {
  inputTokens: number;
  cacheReadTokens: number;
  cacheWrite5mTokens: number;
  cacheWrite1hTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  audioInputTokens?: number;
  audioOutputTokens?: number;
  imageInputTokens?: number;
  imageOutputTokens?: number;
  mediaMs?: number;
};

/** An answer with its cost, ready to be put on the wire. */
export type Plan = {
  /** What it says about its use; undefined: nothing. */
  claim: Claim | undefined;
  /** Output tokens by the fake's own count, whatever it claims. */
  tokens: number;
  render: () => WholeReply | StreamReply;
};

/** An answer in one piece. */
export type WholeReply = { type: string; body: string | Buffer };

/** An answer in pieces. */
export type StreamReply = {
  type: string;
  frames: Frame[];
  /** How the provider itself frames its streams; what the behaviour asks for wins. */
  framing?: Framing;
  /** Frames by which the provider reports an error of a kind after `written` frames. */
  errorFrames: (kind: Fault["kind"], written: number) => Frame[];
};

/** What the model "said", before it is put in a wire format. */
export type Answer = {
  model: string;
  choices: number;
  thinking: Piece[];
  text: Piece[];
  tools: AnswerTool[];
  finish: { cause: "stop" | "length" | "tools"; wording: string | undefined };
  /** What it says about its use; undefined: nothing. */
  claim: Claim | undefined;
  /** Tokens of all choices by the fake's own count, whatever it claims. */
  tokens: number;
  includesUsage: boolean;
  hasObfuscation: boolean;
  createdAt: number;
};

/** One SSE record: its event line, if any, and its data. */
export type Frame = {
  event?: string;
  data: string;
  /** Sent as they are, instead of a record: a piece of a sound. */
  bytes?: Buffer;
  /** Output tokens that come with it. */
  tokens: number;
  isContent: boolean;
  /** Whether it tells the final counts. */
  hasClaim?: boolean;
};

const defaultWords = 8;
const hugeWord = "relayed ";
const hugePieceBytes = 16_384;

/** Decides what is said to a request under a behaviour. */
export function planAnswer(request: FakeRequest, behaviour: Behaviour): Answer {
  const thinking = splitWords(behaviour.thinking ?? "");
  const cap = behaviour.ignoresCap ? Number.POSITIVE_INFINITY : request.outputCap;
  const whole = makeText(behaviour);
  const text = capPieces(whole, Math.max(0, cap - countTokens(thinking)));
  const tools = (behaviour.tools ?? []).map(planTool);
  const choices = behaviour.choices ?? request.choices;
  const reasoningTokens = countTokens(thinking) * choices;
  const outputTokens = (countTokens(text) + countTokens(tools)) * choices;
  const cause = text.length < whole.length ? "length" : tools.length > 0 ? "tools" : "stop";
  return {
    model: behaviour.servedModel ?? request.model,
    choices,
    thinking,
    text: groupPieces(text, behaviour.chunks),
    tools,
    finish: { cause, wording: behaviour.finish },
    claim: claimUnder(behaviour, { inputTokens: request.promptTokens, outputTokens, reasoningTokens }),
    tokens: outputTokens + reasoningTokens,
    includesUsage: request.includesUsage,
    hasObfuscation: behaviour.framing?.hasObfuscation ?? false,
    createdAt: Date.now(),
  };
}

const emptyClaim: Claim = {
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWrite5mTokens: 0,
  cacheWrite1hTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
};

/** All input of a claim, as Format A counts it. */
export function allInput(claim: Claim): number {
  const { audioInputTokens = 0, imageInputTokens = 0 } = claim;
  const written = claim.cacheWrite5mTokens + claim.cacheWrite1hTokens;
  return claim.inputTokens + claim.cacheReadTokens + written + audioInputTokens + imageInputTokens;
}

/** All output of a claim, as Format A counts it. */
export function allOutput(claim: Claim): number {
  const { audioOutputTokens = 0, imageOutputTokens = 0 } = claim;
  return claim.outputTokens + claim.reasoningTokens + audioOutputTokens + imageOutputTokens;
}

/** What an answer claims under a behaviour, when it would count `counted` by itself. */
export function claimUnder(behaviour: Behaviour, counted: Partial<Claim>): Claim | undefined {
  return behaviour.usage === "omit" ? undefined : { ...emptyClaim, ...counted, ...behaviour.usage };
}

/** A frame that carries no content. */
export function quietFrame(data: string): Frame {
  return { data, tokens: 0, isContent: false };
}

/** The whole of a text that was cut into pieces. */
export function joinPieces(pieces: Piece[]): string {
  return pieces.map(({ text }) => text).join("");
}

/** A random id of letters and digits after a prefix, as providers make them. */
export function randomId(prefix: string, length: number): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  return prefix + Array.from(randomBytes(length), (byte) => alphabet[byte % alphabet.length]).join("");
}

/** Cuts a text into its words, each with the white space before it. */
export function splitWords(text: string): Piece[] {
  const pieces: Piece[] = (text.match(/\s*\S+/g) ?? []).map((word) => ({ text: word, tokens: 1 }));
  const rest = /\s+$/.exec(text)?.[0] ?? "";
  const last = pieces.at(-1);
  if (last) last.text += rest;
  else if (rest) pieces.push({ text: rest, tokens: 0 });
  return pieces;
}

function makeText(behaviour: Behaviour): Piece[] {
  if (behaviour.text !== undefined) return splitWords(behaviour.text);
  if (behaviour.textBytes !== undefined) return makeHugeText(behaviour.textBytes);
  if (behaviour.tools && behaviour.outputTokens === undefined) return [];
  const words = behaviour.outputTokens ?? behaviour.chunks ?? defaultWords;
  return Array.from({ length: words }, (_, index) => ({ text: `${index > 0 ? " " : ""}word${index + 1}`, tokens: 1 }));
}

// Large pieces, because one object per word of a huge text would take many times its size.
function makeHugeText(bytes: number): Piece[] {
  const pieces: Piece[] = [];
  for (let left = bytes; left > 0; left -= hugePieceBytes) {
    const text = hugeWord.repeat(hugePieceBytes / hugeWord.length).slice(0, left);
    pieces.push({ text, tokens: Math.ceil(text.length / hugeWord.length) });
  }
  return pieces;
}

function planTool({ name, arguments: values }: NonNullable<Behaviour["tools"]>[number]): AnswerTool {
  const json = JSON.stringify(values);
  return { name, arguments: values, json, tokens: 1 + countWords(json) };
}

function countTokens(parts: { tokens: number }[]): number {
  return parts.reduce((sum, { tokens }) => sum + tokens, 0);
}

function capPieces(pieces: Piece[], cap: number): Piece[] {
  let left = cap;
  return pieces.filter(({ tokens }) => (left -= tokens) >= 0);
}

function groupPieces(pieces: Piece[], groups = pieces.length): Piece[] {
  const count = Math.min(Math.max(groups, 1), pieces.length);
  if (count === pieces.length) return pieces;
  return Array.from({ length: count }, (_, index) => {
    const from = Math.floor((index * pieces.length) / count);
    const part = pieces.slice(from, Math.floor(((index + 1) * pieces.length) / count));
    return { text: joinPieces(part), tokens: countTokens(part) };
  });
}
