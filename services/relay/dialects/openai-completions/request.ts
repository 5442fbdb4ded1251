import { member, positive, tierOf, type Envelope } from "../dialect.ts";
import { readMoreOutput } from "../more-output.ts";
import { readCount, readSwitch } from "../read-settings.ts";
import { readStreamOptions } from "../openai-shared/stream-options.ts";
import type { RequestBody } from "../json/request-body.ts";

// More than providers allow; a larger number is theirs to refuse and must not inflate the hold.
const maxCompletions = 2_048;
const openBracket = "[".charCodeAt(0);
const quote = '"'.charCodeAt(0);

/** A prompt is a text, a list of texts, a list of tokens or a list of such lists; each text or list is answered. */
function countPrompts(body: RequestBody): number {
  const items = body.countItems("prompt", maxCompletions);
  const isOfLists = items?.first === openBracket || items?.first === quote;
  return isOfLists ? items.count : 1;
}

const ownCaps = ["max_tokens"];

/** Reads a request of the older text completion. best_of completions are made, and charged, to choose n of them. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  const shown = readCount(body, "n") ?? 1;
  const made = Math.max(shown, readCount(body, "best_of") ?? 1);
  return {
    body,
    model,
    answer: readSwitch(body, "stream") ? "events" : "json",
    outputCap: positive(body.read("max_tokens")),
    more: readMoreOutput(body, ownCaps),
    choices: Math.min(made * countPrompts(body), maxCompletions),
    triesPerChoice: Math.min(made, maxCompletions) / Math.min(shown, maxCompletions),
    units: {},
    priceFields: tierOf(body.read("service_tier")),
    wantsStreamUsage: member(readStreamOptions(body), "include_usage") === true,
  };
}
