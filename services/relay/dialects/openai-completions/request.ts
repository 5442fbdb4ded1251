import { member, positive, type Envelope } from "../dialect.ts";
import type { RequestBody } from "../request-body.ts";

// More than providers allow; a larger number is theirs to refuse and must not inflate the hold.
const maxCompletions = 2_048;

/** A prompt is a text, a list of texts, a list of tokens or a list of such lists; each text or list is answered. */
function promptsOf(prompt: unknown): number {
  if (!Array.isArray(prompt) || typeof prompt[0] === "number") return 1;
  return Math.max(prompt.length, 1);
}

/** Reads a request of the older text completion. best_of completions are made, and charged, to choose n of them. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  const made = Math.max(positive(body.read("n")) ?? 1, positive(body.read("best_of")) ?? 1);
  return {
    body,
    model,
    answer: body.read("stream") === true ? "events" : "json",
    outputCap: positive(body.read("max_tokens")),
    choices: Math.min(made * promptsOf(body.read("prompt")), maxCompletions),
    units: {},
    priceFields: {},
    wantsStreamUsage: member(body.read("stream_options"), "include_usage") === true,
  };
}
