import { tierOf, type Envelope } from "../dialect.ts";
import type { RequestBody } from "../json/request-body.ts";

/** Reads a request that is answered once, as JSON, without output tokens: embeddings and moderations. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  return {
    body,
    model,
    answer: "json",
    outputCap: undefined,
    choices: 0,
    units: {},
    priceFields: tierOf(body.read("service_tier")),
    wantsStreamUsage: true,
  };
}
