import { tierOf, type Envelope } from "../dialect.ts";
import { countTexts } from "../openai-shared/count-texts.ts";
import type { RequestBody } from "../json/request-body.ts";

// More than a body has values.
const maxTexts = 500_000;

/** Reads a request that is answered once, as JSON, without output tokens: embeddings and moderations. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  return {
    body,
    model,
    answer: "json",
    outputCap: undefined,
    choices: 0,
    texts: countTexts(body, "input", maxTexts),
    units: {},
    priceFields: tierOf(body.read("service_tier")),
    wantsStreamUsage: true,
  };
}
