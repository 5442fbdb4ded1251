import { randomBytes } from "node:crypto";
import type { Behaviour } from "./fake-behaviour.ts";
import { countWords, type FakeRequest } from "./fake-request.ts";

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
  const counted = { ...emptyClaim, inputTokens: request.promptTokens, outputTokens, reasoningTokens };
  return {
    model: behaviour.servedModel ?? request.model,
    choices,
    thinking,
    text: groupPieces(text, behaviour.chunks),
    tools,
    finish: { cause, wording: behaviour.finish },
    claim: behaviour.usage === "omit" ? undefined : { ...counted, ...behaviour.usage },
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

/** All input of a claim, as chat counts it. */
export function allInput(claim: Claim): number {
  return claim.inputTokens + claim.cacheReadTokens + claim.cacheWrite5mTokens + claim.cacheWrite1hTokens;
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
