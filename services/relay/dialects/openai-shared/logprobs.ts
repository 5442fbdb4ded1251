import { member } from "../dialect.ts";
import type { TokenLikelihood, TokenLogprob } from "../reply.ts";

/** How many alternatives OpenAI tells at most with each token. */
export const maxTopLogprobs = 20;

/** A token as both of OpenAI's formats tell it; without bytes chat says null, and Responses an empty list. */
type WireToken = { token: string; logprob: number; bytes: number[] | null };

/** A token with its alternatives. */
export type WireLogprob = WireToken & { top_logprobs: WireToken[] };

function readBytes(value: unknown): number[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  return value.every((byte) => typeof byte === "number") ? value : undefined;
}

function readToken(value: unknown): TokenLikelihood | undefined {
  const token = member(value, "token");
  const logprob = member(value, "logprob");
  if (typeof token !== "string" || typeof logprob !== "number") return undefined;
  const bytes = readBytes(member(value, "bytes"));
  return { token, logprob, ...(bytes && { bytes }) };
}

/** Tokens with their alternatives; undefined where none are told. What is no token is passed over. */
export function readLogprobs(list: unknown): TokenLogprob[] | undefined {
  if (!Array.isArray(list) || list.length === 0) return undefined;
  const tokens: TokenLogprob[] = [];
  for (const value of list as unknown[]) {
    const token = readToken(value);
    if (!token) continue;
    const others = member(value, "top_logprobs");
    const alternatives = Array.isArray(others) ? others.map(readToken).filter((one) => one !== undefined) : [];
    tokens.push({ ...token, alternatives });
  }
  return tokens.length > 0 ? tokens : undefined;
}

/** Writes tokens with their alternatives; `noBytes` stands where the provider told none. */
export function writeLogprobs(tokens: readonly TokenLogprob[], noBytes: [] | null): WireLogprob[] {
  const write = ({ token, logprob, bytes }: TokenLikelihood): WireToken => ({
    token,
    logprob,
    bytes: bytes ?? noBytes,
  });
  return tokens.map((token) => ({ ...write(token), top_logprobs: token.alternatives.map(write) }));
}
