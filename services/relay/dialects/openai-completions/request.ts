import { member, positive, RequestError, tierOf, type Envelope } from "../dialect.ts";
import { readMoreOutput } from "../more-output.ts";
import { readCount, readSwitch } from "../read-settings.ts";
import { countTexts } from "../openai-shared/count-texts.ts";
import { readStreamOptions } from "../openai-shared/stream-options.ts";
import type { RequestBody } from "../json/request-body.ts";

// What the provider allows.
const maxPrompts = 2_048;
const maxCompletions = 128;

/** Each text is answered. */
function countPrompts(body: RequestBody): number {
  const texts = countTexts(body, "prompt", maxPrompts + 1);
  if (texts > maxPrompts) throw new RequestError(`field prompt must have at most ${maxPrompts} items`);
  return texts;
}

const ownCaps = ["max_tokens"];

/** Reads a request of the older text completion. best_of completions are made, and charged, to choose n of them. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  const shown = readCount(body, "n", maxCompletions) ?? 1;
  const texts = countPrompts(body);
  const made = Math.max(shown, readCount(body, "best_of", maxCompletions) ?? 1);
  return {
    body,
    model,
    answer: readSwitch(body, "stream") ? "events" : "json",
    outputCap: positive(body.read("max_tokens")),
    more: readMoreOutput(body, ownCaps),
    texts,
    choices: made * texts,
    triesPerChoice: made / shown,
    units: {},
    priceFields: tierOf(body.read("service_tier")),
    wantsStreamUsage: member(readStreamOptions(body), "include_usage") === true,
  };
}
