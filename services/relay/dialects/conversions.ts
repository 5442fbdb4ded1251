import type { ClientConversion, ProviderConversion } from "./conversion.ts";
import type { DialectName, UpstreamDialect, UpstreamDialectName } from "./dialect.ts";
import * as messages from "./anthropic-messages/conversion.ts";
import * as gemini from "./gemini-generate/conversion.ts";
import { answers as geminiAnswers } from "./gemini-generate/answers.ts";
import { readGoogleError } from "./google-error.ts";
import * as geminiRequest from "./gemini-generate/request.ts";
import { dialects } from "./index.ts";
import { metered } from "./meter-answer.ts";
import * as chat from "./openai-chat/conversion.ts";
import * as responses from "./openai-responses/conversion.ts";
import { singleConversionFor } from "./single-conversions.ts";

/** Dialects whose callers reach models that speak another one. */
export const clients: Partial<Record<DialectName, ClientConversion>> = {
  "openai-chat": chat.client,
  "openai-responses": responses.client,
  "anthropic-messages": messages.client,
};

/** Dialects in which a model is reached by callers who speak another one. */
export const providers: Partial<Record<UpstreamDialectName, ProviderConversion>> = {
  "openai-chat": chat.provider,
  "openai-responses": responses.provider,
  "anthropic-messages": messages.provider,
  "gemini-generate": gemini.provider,
};

/** Every wire format that upstreams speak, in one table. */
export const upstreamDialects: Record<UpstreamDialectName, UpstreamDialect> = {
  ...dialects,
  "gemini-generate": {
    name: "gemini-generate",
    upstreamPath: (model, answer) => geminiRequest.pathOf(model, answer === "events"),
    upstreamHeaders: geminiRequest.upstreamHeaders,
    ...metered(geminiAnswers),
    readError: readGoogleError,
  },
};

const isProvider = (name: string): name is UpstreamDialectName => Object.hasOwn(providers, name);

/**
 * The dialect in which a caller's reaches an upstream: its own where the upstream speaks it, for nothing is lost then,
 * else the first of the upstream's that it can be converted to.
 */
export function upstreamDialectFor(dialect: DialectName, spoken: readonly string[]): UpstreamDialectName | undefined {
  if (spoken.includes(dialect)) return dialect;
  if (clients[dialect]) return spoken.find(isProvider);
  return singleConversionFor(dialect, spoken)?.spoken;
}
